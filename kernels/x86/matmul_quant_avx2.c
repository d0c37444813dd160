/* matmul_quant_avx2.c: products with quantised weights, AVX2.
 *
 * HOW     A quad (4 columns) of eight weight rows fills a register; a panel is two sides of eight rows. A tile takes a quad of
 *         both sides and multiplies it with every row's: one load of activations serves two products. vpmaddubsw makes
 *         16-bit sums of two products of unsigned by signed bytes, and would saturate:
 *         weights of up to 5 bits: 8 products of 31 * 127 at most stay under 2^15, so a half group is added up in 16 bits;
 *         6 bits: 4 products of 63 * 127 do, widened every two quads;
 *         8 bits: |w| times q with the sign of w, 2 * 128 * 127 < 2^15 (q is never -128), widened quad by quad.
 *         The offset of weights of up to 6 bits (offset times the activations' sum) comes off at the end.
 */
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define QUANT_NAME(op) op##__avx2

#define QUANT_UNPACKS

/* Registers of a tile: 2 sums a row, 2 of weights, 2 of a row, 1 constant. Unpacked, 32 groups of two panels are 48 KiB: with
 * the rows they stay in the second-level cache. */
enum {
    ROWS_ONE = 4,
    UNPACK_ROWS = 9,
    ROWS_TWO = 4,
    PIECE_GROUPS = 32,
    ROWS_BYTES_MAX = 256 << 10
};

#include "kernels/matmul_quant_tmpl.h"

enum { SIDE_ROWS = 8, SIDES = 2, SIDE_BYTES = SIDE_ROWS * 4 };

QUANT_INLINE __m256i load_plane(const char *planes, int i)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(planes + QUANT_PLANE_BYTES * i));
}

/* (plane << at - from) & mask << at: bits of a value that stand elsewhere in a plane. */
QUANT_INLINE __m256i plane_bits(__m256i plane, int from, int at, int mask)
{
    if (at > from)
        plane = _mm256_slli_epi16(plane, at - from);
    if (at < from)
        plane = _mm256_srli_epi16(plane, from - at);
    return _mm256_and_si256(plane, _mm256_set1_epi8((char)(mask << at)));
}

/* The low four bits of quad j, or what they stand for. */
QUANT_INLINE __m256i load_nibbles(const enum weight_type type, const char *planes, int j)
{
    __m256i nibbles = plane_bits(load_plane(planes, j % 4), j / 4 * 4, 0, 15);
    if (!quant_is_listed(type))
        return nibbles;
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
                                   (const __m128i *)(const void *)weight_type_iq4)),
                               nibbles);
}

/* Two bits of quad j as the value's bits from at on. */
QUANT_INLINE __m256i load_pairs(const char *planes, int j, int at)
{
    return plane_bits(load_plane(planes, j / 4), j % 4 * 2, at, 3);
}

/* One bit of quad j as the value's bit at. */
QUANT_INLINE __m256i load_bits(const char *plane, int j, int at)
{
    return plane_bits(load_plane(plane, 0), (int)quant_bit((uint32_t)j), at, 1);
}

/* Quad j of eight rows: unsigned for weights of up to 6 bits, signed for 8. planes: the rows' part of a group. */
QUANT_INLINE __m256i load_quad(const enum weight_type type, const char *planes, int j)
{
    const char *behind = planes + 4 * QUANT_PLANE_BYTES; /* the nibbles */
    switch (quant_code(type)) {
    case CODE_NIBBLES:
        return load_nibbles(type, planes, j);
    case CODE_NIBBLES_FIFTH:
        return _mm256_or_si256(load_nibbles(type, planes, j), load_bits(behind, j, 4));
    case CODE_NIBBLES_PAIRS:
        return _mm256_or_si256(load_nibbles(type, planes, j), load_pairs(behind, j, 4));
    case CODE_PAIRS:
        return load_pairs(planes, j, 0);
    case CODE_PAIRS_THIRD:
        return _mm256_or_si256(load_pairs(planes, j, 0),
                               load_bits(planes + 2 * QUANT_PLANE_BYTES, j, 2));
    case CODE_BYTES:
    default:
        return _mm256_xor_si256(load_plane(planes, j), _mm256_set1_epi8((char)0x80));
    }
}

QUANT_INLINE __m256 load_halves(const char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* The scales of a K type's block. */
QUANT_INLINE void load_scales(const enum weight_type type, const char *block,
                              struct quant_scales *ret)
{
    const char *bytes = block + quant_halves_bytes(type);
    const char *least = bytes - QUANT_HALVES_BYTES; /* d itself where there is none */
    float d[PANEL_ROWS], m[PANEL_ROWS];
#pragma GCC unroll 2
    for (int side = 0; side < SIDES; side++) {
        _mm256_storeu_ps(d + side * SIDE_ROWS, load_halves(block + side * SIDE_ROWS * 2));
        _mm256_storeu_ps(m + side * SIDE_ROWS, load_halves(least + side * SIDE_ROWS * 2));
    }
    quant_scales_expand(type, d, m, bytes, ret);
}

/* Where group i of a panel lies: its block, its values, and its number in the block. */
struct group_place {
    const char *block, *planes;
    uint32_t g;
};

QUANT_INLINE struct group_place place_of(const enum weight_type type, const char *panel, uint32_t i)
{
    const uint32_t groups = quant_groups(type);
    const char *block = panel + i / groups * quant_block_bytes(type);
    return (struct group_place){
        .block = block,
        .planes = block + quant_head_bytes(type) + i % groups * quant_group_bytes(type),
        .g = i % groups,
    };
}

/* What a group's products are multiplied with, and what is added: for each half, or one for both. */
struct group_scales {
    __m256 d[2][SIDES];
    __m256 m[2][SIDES];
};

/* Those of a K type's block are kept from its first group on. */
QUANT_INLINE struct group_scales load_group_scales(const enum weight_type type,
                                                   const struct group_place *at,
                                                   struct quant_scales *kept)
{
    const uint32_t n = quant_is_fine(type) ? 2 : 1, g = at->g;
    const char *block = at->block;
    struct group_scales ret;
    if (quant_groups(type) > 1 && g == 0)
        load_scales(type, block, kept);
#pragma GCC unroll 2
    for (uint32_t h = 0; h < n; h++)
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            const int row = side * SIDE_ROWS;
            ret.d[h][side] = quant_groups(type) == 1 ? load_halves(block + row * 2)
                                                     : _mm256_loadu_ps(kept->d[n * g + h] + row);
            if (!quant_has_least(type))
                continue;
            ret.m[h][side] = quant_groups(type) == 1
                                 ? load_halves(block + QUANT_HALVES_BYTES + row * 2)
                                 : _mm256_loadu_ps(kept->m[n * g + h] + row);
        }
    return ret;
}

/* A quad of activations in every lane. */
QUANT_INLINE __m256i broadcast_quad(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm256_set1_epi32(quad);
}

QUANT_INLINE void load_outputs(const float *out, __m256 ret[SIDES], uint32_t outputs)
{
    float all[PANEL_ROWS] = {0};
    if (outputs < PANEL_ROWS)
        out = memcpy(all, out, outputs * sizeof *out);
    ret[0] = _mm256_loadu_ps(out);
    ret[1] = _mm256_loadu_ps(out + SIDE_ROWS);
}

QUANT_INLINE void store_outputs(float *out, const __m256 v[SIDES], uint32_t outputs)
{
    if (outputs >= PANEL_ROWS) {
        _mm256_storeu_ps(out, v[0]);
        _mm256_storeu_ps(out + SIDE_ROWS, v[1]);
        return;
    }
    float all[PANEL_ROWS];
    _mm256_storeu_ps(all, v[0]);
    _mm256_storeu_ps(all + SIDE_ROWS, v[1]);
    memcpy(out, all, outputs * sizeof *out);
}

/* How many quads' products are added up in 16 bits. */
QUANT_INLINE int quads_a_word(const enum weight_type type)
{
    return quant_offset(type) == 128 ? 1 : quant_code(type) == CODE_NIBBLES_PAIRS ? 2 : 4;
}

/* Sixteen 16-bit sums of two products; magnitude: of signed weights. */
QUANT_INLINE __m256i products(const enum weight_type type, __m256i w, __m256i magnitude,
                              __m256i quad)
{
    return quant_offset(type) == 128
               ? _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(quad, w))
               : _mm256_maddubs_epi16(w, quad);
}

/* Integer sums over half h of a group, for every row of a tile; planes: of the group, unpacked or as the panel has them. The
 * sums are pinned to their order, or the compiler would add them pairwise and keep twice as many. */
QUANT_INLINE void half_sums(const enum weight_type type, const int rows, const bool is_unpacked,
                            const char *planes, int h, const int8_t *q, size_t q_stride,
                            __m256i sums[ROWS_ONE][SIDES])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int n = quads_a_word(type);
    __m256i words[ROWS_ONE][SIDES];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i w[SIDES], magnitude[SIDES];
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            const char *part = planes + side * SIDE_BYTES;
            w[side] = is_unpacked ? load_plane(part, 4 * h + j) : load_quad(type, part, 4 * h + j);
            magnitude[side] = _mm256_abs_epi8(w[side]);
        }
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256i quad = broadcast_quad(q + (size_t)r * q_stride + 4 * j);
#pragma GCC unroll 2
            for (int side = 0; side < SIDES; side++) {
                __m256i two = products(type, w[side], magnitude[side], quad);
                words[r][side] = j % n == 0 ? two : _mm256_add_epi16(words[r][side], two);
                __asm__ volatile("" : "+x"(words[r][side]));
                if (j % n != n - 1)
                    continue;
                __m256i wide = _mm256_madd_epi16(words[r][side], ones);
                sums[r][side] = j < n ? wide : _mm256_add_epi32(sums[r][side], wide);
                __asm__ volatile("" : "+x"(sums[r][side]));
            }
        }
    }
}

/* Group i of every row of a tile: acc += its products. */
QUANT_INLINE void tile_group(const enum weight_type type, const int rows, const bool is_unpacked,
                             const struct quant_tile *t, uint32_t i, const char *planes,
                             const struct group_scales *scales, __m256 acc[ROWS_ONE][SIDES])
{
    const bool is_fine = quant_is_fine(type);
    const unsigned offset = quant_offset(type) == 128 ? 0 : (unsigned)quant_offset(type);
    const int8_t *q = t->q + (size_t)i * QUANT_COLUMNS;
    __m256i sums[ROWS_ONE][SIDES];
    __m256 product[ROWS_ONE][SIDES];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        half_sums(type, rows, is_unpacked, planes, h, q + h * ACT_BLOCK, t->q_stride, sums);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const size_t s = (size_t)r * t->scale_stride + 2 * (size_t)i + (size_t)h;
            __m256 dx = _mm256_set1_ps(t->d[s]);
            __m256i too_much = _mm256_setzero_si256();
            if (offset != 0)
                too_much = _mm256_slli_epi32(_mm256_set1_epi32(t->sum[s]), __builtin_ctz(offset));
#pragma GCC unroll 2
            for (int side = 0; side < SIDES; side++) {
                __m256i sum = sums[r][side];
                if (offset != 0)
                    sum = _mm256_sub_epi32(sum, too_much);
                __m256 f = _mm256_cvtepi32_ps(sum);
                product[r][side] = is_fine || h == 0 ? _mm256_mul_ps(f, dx)
                                                     : _mm256_fmadd_ps(f, dx, product[r][side]);
                if (is_fine || h == 1)
                    acc[r][side] = _mm256_fmadd_ps(scales->d[is_fine ? h : 0][side],
                                                   product[r][side], acc[r][side]);
            }
        }
    }
    if (!quant_has_least(type))
        return;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        const float *ds = t->ds + (size_t)r * t->scale_stride + 2 * (size_t)i;
        __m256 first = _mm256_set1_ps(is_fine ? ds[0] : ds[0] + ds[1]);
        __m256 second = _mm256_set1_ps(ds[1]);
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            acc[r][side] = _mm256_fmadd_ps(scales->m[0][side], first, acc[r][side]);
            if (is_fine)
                acc[r][side] = _mm256_fmadd_ps(scales->m[1][side], second, acc[r][side]);
        }
    }
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int rows,
                             const struct quant_tile *t)
{
    struct quant_scales kept;
    __m256 acc[ROWS_ONE][SIDES];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < t->n_blocks * quant_groups(type); i++) {
        if (t->stream)
            quant_prefetch(type, rows, t, i);
        struct group_place at = place_of(type, t->w, i);
        struct group_scales scales = load_group_scales(type, &at, &kept);
        tile_group(type, rows, false, t, i, at.planes, &scales, acc);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        store_outputs(t->out + (size_t)r * t->out_stride, acc[r], t->outputs);
}

/* Group i of panel p as tiles of many rows use it. */
QUANT_INLINE void unpack_group(const enum weight_type type, const char *panel, int p, uint32_t i,
                               struct quant_scales *kept, struct quant_group *ret)
{
    struct group_place at = place_of(type, panel, i);
    struct group_scales scales = load_group_scales(type, &at, kept);
    const int scales_of_group = quant_is_fine(type) ? 2 : 1;
#pragma GCC unroll 2
    for (int side = 0; side < SIDES; side++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            _mm256_store_si256((__m256i *)(void *)(ret->quads[p] + QUANT_PLANE_BYTES * j +
                                                   side * SIDE_BYTES),
                               load_quad(type, at.planes + side * SIDE_BYTES, j));
#pragma GCC unroll 2
        for (int h = 0; h < scales_of_group; h++) {
            _mm256_store_ps(ret->d[p][h] + side * SIDE_ROWS, scales.d[h][side]);
            if (quant_has_least(type))
                _mm256_store_ps(ret->m[p][h] + side * SIDE_ROWS, scales.m[h][side]);
        }
    }
}

QUANT_INLINE void quant_unpack(const enum weight_type type, const struct quant_tile *t,
                               uint32_t first, uint32_t n, struct quant_group *ret)
{
    struct quant_scales kept;
    for (int p = 0; p < 2; p++)
        for (uint32_t k = 0; k < n; k++)
            unpack_group(type, t->w + (size_t)p * t->panel_bytes, p, first + k, &kept, &ret[k]);
}

QUANT_INLINE struct group_scales unpacked_scales(const enum weight_type type,
                                                 const struct quant_group *group, int p)
{
    const int n = quant_is_fine(type) ? 2 : 1;
    struct group_scales ret;
#pragma GCC unroll 2
    for (int h = 0; h < n; h++)
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            ret.d[h][side] = _mm256_load_ps(group->d[p][h] + side * SIDE_ROWS);
            if (quant_has_least(type))
                ret.m[h][side] = _mm256_load_ps(group->m[p][h] + side * SIDE_ROWS);
        }
    return ret;
}

/* One panel after the other: both panels' sums would not fit the registers. */
QUANT_INLINE void quant_piece_tile(const enum weight_type type, const int rows,
                                   const struct quant_tile *t, uint32_t first, uint32_t n,
                                   const struct quant_group *piece, struct quant_next *next)
{
#pragma GCC unroll 1
    for (int p = 0; p < 2; p++) {
        const uint32_t outputs = t->outputs - (uint32_t)p * PANEL_ROWS;
        float *out = t->out + (size_t)p * PANEL_ROWS;
        __m256 acc[ROWS_ONE][SIDES];
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            if (first == 0)
                acc[r][0] = acc[r][1] = _mm256_setzero_ps();
            else
                load_outputs(out + (size_t)r * t->out_stride, acc[r], outputs);
        for (uint32_t k = 0; k < n; k++) {
            struct group_scales scales = unpacked_scales(type, &piece[k], p);
            if (p == 0)
                quant_prefetch_next(next);
            tile_group(type, rows, true, t, first + k, piece[k].quads[p], &scales, acc);
        }
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            store_outputs(out + (size_t)r * t->out_stride, acc[r], outputs);
    }
}
