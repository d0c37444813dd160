/* matmul_quant_avx2.c: products with quantised weights, AVX2.
 *
 * HOW     A quad (4 columns) of eight weight rows fills a register; a panel is two sides of eight rows. vpmaddubsw makes
 *         16-bit sums of two products of unsigned by signed bytes, and would saturate:
 *         weights of up to 5 bits: 8 products of 31 * 127 at most stay under 2^15, so a half group is added up in 16 bits;
 *         6 bits: 4 products of 63 * 127 do, widened every two quads;
 *         8 bits: |w| times q with the sign of w, 2 * 128 * 127 < 2^15 (q is never -128), widened quad by quad.
 *         The offset of weights of up to 6 bits (offset times the activations' sum) comes off at the end.
 */
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define QUANT_NAME(op) op##__avx2

enum { ROWS_ONE = 4, ROWS_BYTES_MAX = 256 << 10 };

#include "kernels/matmul_quant_tmpl.h"

enum { SIDE_ROWS = 8, SIDES = 2, SIDE_BYTES = SIDE_ROWS * 4 };

QUANT_INLINE __m256i load_plane(const char *planes, int i)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(planes + QUANT_PLANE_BYTES * i));
}

/* low | (bits << left or >> -left) & mask: the bits above a value's low ones, from a plane that serves several quads. */
QUANT_INLINE __m256i with_bits(__m256i low, __m256i bits, int left, __m256i mask)
{
    if (left > 0)
        bits = _mm256_slli_epi16(bits, left);
    if (left < 0)
        bits = _mm256_srli_epi16(bits, -left);
    return _mm256_or_si256(low, _mm256_and_si256(bits, mask));
}

QUANT_INLINE void load_nibbles(const enum weight_type type, const char *planes, __m256i w[8])
{
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i both = load_plane(planes, j);
        w[j] = _mm256_and_si256(both, low);
        w[4 + j] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    }
    if (!quant_is_listed(type))
        return;
    const __m256i list = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)weight_type_iq4));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = _mm256_shuffle_epi8(list, w[j]);
}

/* Adds a plane's two bits to each of eight quads, or sets them: at = 4 or 0 is the lower one's place in a value. */
QUANT_INLINE void add_pairs(const char *planes, int at, __m256i w[8])
{
    const __m256i mask = _mm256_set1_epi8((char)(3 << at));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m256i plane = load_plane(planes, i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            w[4 * i + k] = with_bits(w[4 * i + k], plane, at - 2 * k, mask);
    }
}

QUANT_INLINE void add_bits(const char *planes, int at, __m256i w[8])
{
    const __m256i mask = _mm256_set1_epi8((char)(1 << at));
    __m256i plane = load_plane(planes, 0);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = with_bits(w[j], plane, at - (int)quant_bit((uint32_t)j), mask);
}

/* The eight quads of one side: unsigned for weights of up to 6 bits, signed for 8. */
QUANT_INLINE void load_side(const enum weight_type type, const char *group, __m256i w[8])
{
    const enum quant_code code = quant_code(type);
    const __m256i flip = _mm256_set1_epi8((char)0x80);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = code == CODE_BYTES ? _mm256_xor_si256(load_plane(group, j), flip)
                                  : _mm256_setzero_si256();
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

/* A group's scales and least values for one side, one or two of eight rows. */
QUANT_INLINE void group_scales(const enum weight_type type, const char *block,
                               const struct quant_scales *scales, uint32_t g, int side, __m256 d[2],
                               __m256 m[2])
{
    const uint32_t n = quant_is_fine(type) ? 2 : 1;
    const int first = side * SIDE_ROWS;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < n; i++)
        if (quant_groups(type) == 1) {
            d[i] = load_halves(block + first * 2);
            m[i] =
                quant_has_least(type) ? load_halves(block + QUANT_HALVES_BYTES + first * 2) : d[i];
        } else {
            d[i] = _mm256_loadu_ps(scales->d[n * g + i] + first);
            m[i] = quant_has_least(type) ? _mm256_loadu_ps(scales->m[n * g + i] + first) : d[i];
        }
}

/* A quad of activations in every lane. */
QUANT_INLINE __m256i broadcast_quad(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm256_set1_epi32(quad);
}

/* Eight sums over one half: w holds its four quads. */
QUANT_INLINE __m256i half_sums(const enum weight_type type, const __m256i *w, const int8_t *q,
                               int32_t q_sum)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const bool is_signed = quant_offset(type) == 128;
    const int widen_every = is_signed ? 1 : quant_code(type) == CODE_NIBBLES_PAIRS ? 2 : 4;
    __m256i sums = _mm256_setzero_si256(), pairs = sums;
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i quad = broadcast_quad(q + 4 * j);
        __m256i two =
            is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), _mm256_sign_epi8(quad, w[j]))
                      : _mm256_maddubs_epi16(w[j], quad);
        pairs = j % widen_every == 0 ? two : _mm256_add_epi16(pairs, two);
        if (j % widen_every == widen_every - 1)
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
    }
    if (is_signed || quant_offset(type) == 0)
        return sums;
    return _mm256_sub_epi32(sums, _mm256_set1_epi32(quant_offset(type) * q_sum));
}

/* Group i of one activation row for eight weight rows. */
QUANT_INLINE __m256 row_group(const enum weight_type type, const struct quant_tile *t, int r,
                              uint32_t i, const __m256i w[8], const __m256 d[2], const __m256 m[2],
                              __m256 acc)
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)i * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)i;
    __m256 a = _mm256_cvtepi32_ps(half_sums(type, w, q, t->sum[s]));
    __m256 b = _mm256_cvtepi32_ps(half_sums(type, w + 4, q + ACT_BLOCK, t->sum[s + 1]));
    __m256 d_a = _mm256_set1_ps(t->d[s]), d_b = _mm256_set1_ps(t->d[s + 1]);
    a = _mm256_mul_ps(a, d_a);
    if (quant_is_fine(type)) {
        acc = _mm256_fmadd_ps(d[0], a, acc);
        acc = _mm256_fmadd_ps(d[1], _mm256_mul_ps(b, d_b), acc);
    } else {
        acc = _mm256_fmadd_ps(d[0], _mm256_fmadd_ps(b, d_b, a), acc);
    }
    if (quant_has_least(type) && quant_is_fine(type)) {
        acc = _mm256_fmadd_ps(m[0], _mm256_set1_ps(t->ds[s]), acc);
        acc = _mm256_fmadd_ps(m[1], _mm256_set1_ps(t->ds[s + 1]), acc);
    } else if (quant_has_least(type)) {
        acc = _mm256_fmadd_ps(m[0], _mm256_set1_ps(t->ds[s] + t->ds[s + 1]), acc);
    }
    return acc;
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

QUANT_INLINE void quant_tile(const enum weight_type type, const int rows,
                             const struct quant_tile *t)
{
    const uint32_t groups = quant_groups(type);
    struct quant_scales scales;
    __m256 acc[ROWS_ONE][SIDES];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < t->n_blocks * groups; i++) {
        const uint32_t g = i % groups;
        const char *block = t->w + i / groups * quant_block_bytes(type);
        const char *group = block + quant_head_bytes(type) + g * quant_group_bytes(type);
        if (t->stream)
            quant_prefetch(type, rows, t, i);
        if (groups > 1 && g == 0)
            load_scales(type, block, &scales);
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            __m256i w[8];
            __m256 d[2], m[2];
            load_side(type, group + side * SIDE_BYTES, w);
            group_scales(type, block, &scales, g, side, d, m);
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++)
                acc[r][side] = row_group(type, t, r, i, w, d, m, acc[r][side]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        store_outputs(t->out + (size_t)r * t->out_stride, acc[r], t->outputs);
}
