/* matmul_quant_avx512.c: products with quantised weights, AVX-512 VNNI.
 *
 * HOW     One register holds a quad (4 columns) of a panel's sixteen rows, so a block is 8 registers. vpdpbusd adds four
 *         products of unsigned weights with a broadcast quad of signed activations to sixteen sums; the offset of the
 *         weights (8 or 128) times the sum of the activations goes into the sums' starting value.
 *         It does not saturate: |sum| <= 16 * 255 * 127.
 */
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define QUANT_NAME(op) op##__avx512

#define QUANT_UNPACKS

/* Registers: 8 of weights, ROWS_ONE sums, 5 others; or 16 of weights, 2 * ROWS_TWO sums, 6 of a row: two or three sums
 * wait on the stack, which costs less than a row's four chains one after the other. Unpacked, 64 groups
 * of two panels are 64 to 96 KiB: with the rows they stay in the second-level cache. */
enum {
    ROWS_ONE = 12,
    UNPACK_ROWS = 13,
    ROWS_TWO = 6,
    PIECE_GROUPS = 64,
    ROWS_BYTES_MAX = 512 << 10
};

#include "kernels/matmul_quant_tmpl.h"

/* low | (bits << left or >> -left) & mask: the bits above a value's low ones, from a plane that serves several quads. */
QUANT_INLINE __m512i with_bits(__m512i low, __m512i bits, int left, __m512i mask)
{
    const int shift = left > 0 ? left : -left;
    if (left > 0)
        bits = _mm512_slli_epi16(bits, shift);
    if (left < 0)
        bits = _mm512_srli_epi16(bits, shift);
    return _mm512_ternarylogic_epi32(low, bits, mask, 0xf8);
}

/* Planes are loaded in the order of their addresses, whatever the compiler thinks of it: a block whose last line was asked for
 * first cost one row of Q8_0 15 %. */
QUANT_INLINE __m512i load_plane(const char *planes, int i)
{
    __m512i plane = _mm512_loadu_si512(planes + QUANT_PLANE_BYTES * i);
    __asm__ volatile("" : "+v"(plane));
    return plane;
}

QUANT_INLINE void load_nibbles(const enum weight_type type, const char *planes, __m512i w[8])
{
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i both = load_plane(planes, j);
        w[j] = _mm512_and_si512(both, low);
        w[4 + j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
    if (!quant_is_listed(type))
        return;
    const __m512i list = _mm512_xor_si512(
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)weight_type_iq4)),
        _mm512_set1_epi8((char)0x80));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = _mm512_shuffle_epi8(list, w[j]);
}

/* Adds a plane's two bits to each of eight quads, or sets them: at = 4 or 0 is the lower one's place in a value. */
QUANT_INLINE void add_pairs(const char *planes, int at, __m512i w[8])
{
    const __m512i mask = _mm512_set1_epi8((char)(3 << at));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i plane = load_plane(planes, i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            w[4 * i + k] = with_bits(w[4 * i + k], plane, at - 2 * k, mask);
    }
}

QUANT_INLINE void add_bits(const char *planes, int at, __m512i w[8])
{
    const __m512i mask = _mm512_set1_epi8((char)(1 << at));
    __m512i plane = load_plane(planes, 0);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = with_bits(w[j], plane, at - (int)quant_bit((uint32_t)j), mask);
}

/* The eight quads of a group's sixteen rows, as unsigned bytes. */
QUANT_INLINE void load_quads(const enum weight_type type, const char *group, __m512i w[8])
{
    const enum quant_code code = quant_code(type);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = code == CODE_BYTES ? load_plane(group, j) : _mm512_setzero_si512();
    if (code == CODE_NIBBLES || code == CODE_NIBBLES_FIFTH || code == CODE_NIBBLES_PAIRS)
        load_nibbles(type, group, w);
    if (code == CODE_NIBBLES_FIFTH)
        add_bits(group + 4 * QUANT_PLANE_BYTES, 4, w);
    if (code == CODE_NIBBLES_PAIRS)
        add_pairs(group + 4 * QUANT_PLANE_BYTES, 4, w);
    if (code == CODE_PAIRS || code == CODE_PAIRS_THIRD)
        add_pairs(group, 0, w);
    if (code == CODE_PAIRS_THIRD)
        add_bits(group + 2 * QUANT_PLANE_BYTES, 2, w);
}

QUANT_INLINE __m512 load_halves(const char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* The scales of a K type's block. */
QUANT_INLINE void load_scales(const enum weight_type type, const char *block,
                              struct quant_scales *ret)
{
    const char *bytes = block + quant_halves_bytes(type);
    float d[PANEL_ROWS], m[PANEL_ROWS];
    _mm512_storeu_ps(d, load_halves(block));
    _mm512_storeu_ps(m, load_halves(bytes - QUANT_HALVES_BYTES));
    quant_scales_expand(type, d, m, bytes, ret);
}

/* A group's scales and least values, one or two of sixteen rows. */
QUANT_INLINE void group_scales(const enum weight_type type, const char *block,
                               const struct quant_scales *scales, uint32_t g, __m512 d[2],
                               __m512 m[2])
{
    const uint32_t n = quant_is_fine(type) ? 2 : 1;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < n; i++)
        if (quant_groups(type) == 1) {
            d[i] = load_halves(block);
            m[i] = quant_has_least(type) ? load_halves(block + QUANT_HALVES_BYTES) : d[i];
        } else {
            d[i] = _mm512_loadu_ps(scales->d[n * g + i]);
            m[i] = quant_has_least(type) ? _mm512_loadu_ps(scales->m[n * g + i]) : d[i];
        }
}

/* A quad of activations in every lane. */
QUANT_INLINE __m512i broadcast_quad(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm512_set1_epi32(quad);
}

/* The sums start at -offset * (activations' sum). */
QUANT_INLINE __m512i starting_sum(const enum weight_type type, const int32_t *sum)
{
    const int offset = quant_offset(type);
    if (offset == 0)
        return _mm512_setzero_si512();
    return _mm512_sub_epi32(
        _mm512_setzero_si512(),
        _mm512_slli_epi32(_mm512_set1_epi32(*sum), (unsigned)__builtin_ctz((unsigned)offset)));
}

/* The outputs of a panel that exist. */
QUANT_INLINE __mmask16 outputs_mask(uint32_t outputs)
{
    return (__mmask16)(outputs >= PANEL_ROWS ? 0xffffu : (1u << outputs) - 1);
}

QUANT_INLINE __m512 load_outputs(const float *out, uint32_t outputs)
{
    return _mm512_maskz_loadu_ps(outputs_mask(outputs), out);
}

QUANT_INLINE void store_outputs(float *out, __m512 v, uint32_t outputs)
{
    _mm512_mask_storeu_ps(out, outputs_mask(outputs), v);
}

/* One activation row's group for every panel of the tile: of each half its integer sums as floats. */
QUANT_INLINE void half_sums(const enum weight_type type, const int panels, const int8_t *q,
                            const int32_t *sum, __m512i w[2][8], __m512 ret[2][2])
{
    __m512i sums[2][2];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++)
        sums[h][0] = sums[h][1] = starting_sum(type, sum + h);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 2
        for (unsigned h = 0; h < 2; h++) {
            __m512i quad = broadcast_quad(q + h * ACT_BLOCK + 4 * j);
            if (panels ==
                2) /* one load for both panels: the compiler would fold it into each product */
                __asm__("" : "+v"(quad));
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++)
                sums[h][p] = _mm512_dpbusd_epi32(sums[h][p], w[p][4 * h + (unsigned)j], quad);
        }
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++)
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++)
            ret[h][p] = _mm512_cvtepi32_ps(sums[h][p]);
}

/* One activation row's group i for every panel of the tile: acc += its products. */
QUANT_INLINE void row_group(const enum weight_type type, const int panels,
                            const struct quant_tile *t, int r, uint32_t i, __m512i w[2][8],
                            const __m512 d[2][2], const __m512 m[2][2], __m512 acc[2])
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)i * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)i;
    const bool is_fine = quant_is_fine(type);
    __m512 product[2], f[2][2];
    half_sums(type, panels, q, t->sum + s, w, f);
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++) {
        __m512 dx = _mm512_set1_ps(t->d[s + h]);
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            product[p] = is_fine || h == 0 ? _mm512_mul_ps(f[h][p], dx)
                                           : _mm512_fmadd_ps(f[h][p], dx, product[p]);
            if (is_fine || h == 1)
                acc[p] = _mm512_fmadd_ps(d[p][is_fine ? h : 0], product[p], acc[p]);
        }
    }
    if (!quant_has_least(type))
        return;
    __m512 ds[2] = {_mm512_set1_ps(t->ds[s]), _mm512_set1_ps(t->ds[s + 1])};
    if (!is_fine)
        ds[0] = _mm512_add_ps(ds[0], ds[1]);
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        acc[p] = _mm512_fmadd_ps(m[p][0], ds[0], acc[p]);
        if (is_fine)
            acc[p] = _mm512_fmadd_ps(m[p][1], ds[1], acc[p]);
    }
}

/* The values of group i of panel p. */
QUANT_INLINE const char *group_values(const enum weight_type type, const struct quant_tile *t,
                                      int p, uint32_t i)
{
    const uint32_t groups = quant_groups(type);
    return t->w + (size_t)p * t->panel_bytes + i / groups * quant_block_bytes(type) +
           quant_head_bytes(type) + i % groups * quant_group_bytes(type);
}

/* The scales of group i of panel p; those of a K type's block are kept from its first group on. */
QUANT_INLINE void load_group_scales(const enum weight_type type, const struct quant_tile *t, int p,
                                    uint32_t i, struct quant_scales *scales, __m512 d[2],
                                    __m512 m[2])
{
    const uint32_t groups = quant_groups(type), g = i % groups;
    const char *block = t->w + (size_t)p * t->panel_bytes + i / groups * quant_block_bytes(type);
    if (groups > 1 && g == 0)
        load_scales(type, block, scales);
    group_scales(type, block, scales, g, d, m);
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int rows,
                             const struct quant_tile *t)
{
    struct quant_scales scales;
    __m512 acc[ROWS_ONE][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        acc[r][0] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < t->n_blocks * quant_groups(type); i++) {
        if (t->stream)
            quant_prefetch(type, rows, t, i);
        __m512i w[2][8];
        __m512 d[2][2], m[2][2];
        load_quads(type, group_values(type, t, 0, i), w[0]);
        load_group_scales(type, t, 0, i, &scales, d[0], m[0]);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            row_group(type, 1, t, r, i, w, d, m, acc[r]);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        store_outputs(t->out + (size_t)r * t->out_stride, acc[r][0], t->outputs);
}

/* True if a group's values are had from the panel as cheaply as unpacked ones: only its scales are unpacked. */
QUANT_INLINE bool quant_is_light(const enum weight_type type)
{
    return quant_code(type) == CODE_BYTES ||
           (quant_code(type) == CODE_NIBBLES && !quant_is_listed(type));
}

QUANT_INLINE void quant_unpack(const enum weight_type type, const struct quant_tile *t,
                               uint32_t first, uint32_t n, struct quant_group *ret)
{
    const uint32_t scales_of_group = quant_is_fine(type) ? 2 : 1;
    struct quant_scales scales[2];
    for (uint32_t k = 0; k < n; k++) {
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) {
            __m512i w[8];
            __m512 d[2], m[2];
            if (!quant_is_light(type)) {
                load_quads(type, group_values(type, t, p, first + k), w);
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++)
                    _mm512_store_si512(ret[k].quads[p] + QUANT_PLANE_BYTES * j, w[j]);
            }
            load_group_scales(type, t, p, first + k, &scales[p], d, m);
#pragma GCC unroll 2
            for (uint32_t h = 0; h < scales_of_group; h++) {
                _mm512_store_ps(ret[k].d[p][h], d[h]);
                if (quant_has_least(type))
                    _mm512_store_ps(ret[k].m[p][h], m[h]);
            }
        }
    }
}

QUANT_INLINE void load_kept_quads(const char *quads, __m512i w[8])
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = _mm512_load_si512(quads + QUANT_PLANE_BYTES * j);
}

/* Group i in both panels; group: what quant_unpack made of it. */
QUANT_INLINE void load_unpacked(const enum weight_type type, const struct quant_tile *t, uint32_t i,
                                const struct quant_group *group, __m512i w[2][8], __m512 d[2][2],
                                __m512 m[2][2])
{
    const int scales_of_group = quant_is_fine(type) ? 2 : 1;
#pragma GCC unroll 2
    for (int p = 0; p < 2; p++) {
        if (quant_is_light(type))
            load_quads(type, group_values(type, t, p, i), w[p]);
        else
            load_kept_quads(group->quads[p], w[p]);
#pragma GCC unroll 2
        for (int h = 0; h < scales_of_group; h++) {
            d[p][h] = _mm512_load_ps(group->d[p][h]);
            m[p][h] = quant_has_least(type) ? _mm512_load_ps(group->m[p][h]) : d[p][h];
        }
    }
}

QUANT_INLINE void quant_piece_tile(const enum weight_type type, const int rows,
                                   const struct quant_tile *t, uint32_t first, uint32_t n,
                                   const struct quant_group *piece, struct quant_next *next)
{
    const uint32_t outputs[2] = {t->outputs, t->outputs - PANEL_ROWS};
    __m512 acc[ROWS_TWO][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) {
            const float *out = t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS;
            acc[r][p] = first == 0 ? _mm512_setzero_ps() : load_outputs(out, outputs[p]);
        }
    for (uint32_t k = 0; k < n; k++) {
        __m512i w[2][8];
        __m512 d[2][2], m[2][2];
        quant_prefetch_next(next);
        load_unpacked(type, t, first + k, &piece[k], w, d, m);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            row_group(type, 2, t, r, first + k, w, d, m, acc[r]);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++)
            store_outputs(t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS, acc[r][p],
                          outputs[p]);
}
