/* quantise_avx512.c: activation rows to int8 per 16 columns, AVX-512: one register a block.
 *
 * WHY     A block alone folds its maximum, divides twice and folds its sum, one number at a time: longer than all else
 *         that is done to it.
 * HOW     Sixteen blocks at once: their folds share the registers, the divisions are of vectors, and the bytes of four
 *         blocks are put together there, too: to read again what was just stored in smaller parts is a wait. Shorter rows
 *         go block by block, by the definition in quantise_scale.h.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <immintrin.h>

#include "kernels/quantise_scale.h"

#define FOLD static inline __attribute__((always_inline))

enum { BLOCKS = 16 };

static inline __m512i magnitude(__m512 v)
{
    return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}

FOLD __m512i join(const bool adds, __m512i a, __m512i b)
{
    return adds ? _mm512_add_epi32(a, b) : _mm512_max_epu32(a, b);
}

/* The halves of a and b, one above the other, by their greater lanes. */
static inline __m512i max_halves(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_shuffle_i64x2(a, b, 0xee));
}

static inline __m512i max_quarters(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
}

/* Lane 4i + k of what it is applied to is lane 4k + i. */
static inline __m512i quarters_in_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/* quarter[i]: four lanes for each of the blocks 4i..4i+3. Lane b of the result: block b's four, added up or the
 * greatest of them. */
FOLD __m512i fold_quarters(const bool adds, const __m512i quarter[4])
{
    __m512 pairs[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        pairs[i] = _mm512_castsi512_ps(
            join(adds, _mm512_unpacklo_epi64(quarter[2 * i], quarter[2 * i + 1]),
                 _mm512_unpackhi_epi64(quarter[2 * i], quarter[2 * i + 1])));
    __m512i folded = join(adds, _mm512_castps_si512(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88)),
                          _mm512_castps_si512(_mm512_shuffle_ps(pairs[0], pairs[1], 0xdd)));
    return _mm512_permutexvar_epi32(quarters_in_order(), folded);
}

/* Lane b: the bits of the greatest magnitude in block b. */
static inline __m512i fold_max(const float *x)
{
    __m512i quarter[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i half[2];
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            const float *at = x + (4 * i + 2 * k) * ACT_BLOCK;
            half[k] = max_halves(magnitude(_mm512_loadu_ps(at)),
                                 magnitude(_mm512_loadu_ps(at + ACT_BLOCK)));
        }
        quarter[i] = max_quarters(half[0], half[1]);
    }
    return fold_quarters(false, quarter);
}

/* quantise_scale of sixteen blocks; where one is flat its inverse is 0. */
static inline __m512 scales(__m512i amax_bits, __m512 *ret_inverse)
{
    const __m512 level = _mm512_set1_ps(QUANTISE_BYTE);
    __m512 amax = _mm512_castsi512_ps(amax_bits);
    __mmask16 large = _mm512_cmpge_epu32_mask(amax_bits, _mm512_set1_epi32(QUANTISE_NO_NUMBER));
    __mmask16 small = _mm512_cmplt_epu32_mask(amax_bits, _mm512_set1_epi32(QUANTISE_ZERO_BELOW));
    *ret_inverse = _mm512_maskz_div_ps((__mmask16) ~(large | small), level, amax);
    __m512 d = _mm512_maskz_div_ps((__mmask16)~small, amax, level);
    return _mm512_mask_mov_ps(d, large, _mm512_castsi512_ps(_mm512_set1_epi32(QUANTISE_NAN)));
}

/* Four blocks of x times the lanes of by, those that stand in one quarter, rounded: their bytes in order. A NaN or inf
 * times 0 becomes an integer whose low byte is 0. */
static inline __m512i quantise_four(const float *x, __m512 by)
{
    __m512 factor[] = {_mm512_permute_ps(by, 0x00), _mm512_permute_ps(by, 0x55),
                       _mm512_permute_ps(by, 0xaa), _mm512_permute_ps(by, 0xff)};
    __m512i q[4];
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + b * ACT_BLOCK), factor[b]);
        q[b] = _mm512_and_si512(_mm512_cvtps_epi32(v), _mm512_set1_epi32(0xff));
    }
    __m512i low = _mm512_packus_epi32(q[0], q[1]), high = _mm512_packus_epi32(q[2], q[3]);
    return _mm512_permutexvar_epi32(quarters_in_order(), _mm512_packus_epi16(low, high));
}

static inline void quantise_blocks(const float *x, int8_t *quants, float *scale, float *scaled_sum,
                                   int32_t *sum)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512 by;
    __m512 d = scales(fold_max(x), &by);
    __m512 quarter[] = {_mm512_shuffle_f32x4(by, by, 0x00), _mm512_shuffle_f32x4(by, by, 0x55),
                        _mm512_shuffle_f32x4(by, by, 0xaa), _mm512_shuffle_f32x4(by, by, 0xff)};
    __m512i sums[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i q = quantise_four(x + 4 * i * ACT_BLOCK, quarter[i]);
        _mm512_storeu_si512(quants + 4 * i * ACT_BLOCK, q);
        sums[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, q);
    }
    __m512i total = fold_quarters(true, sums);
    _mm512_storeu_ps(scale, d);
    _mm512_storeu_ps(scaled_sum, _mm512_mul_ps(d, _mm512_cvtepi32_ps(total)));
    _mm512_storeu_si512(sum, total);
}

static inline void quantise_block(const float *x, int8_t *quants, float *scale, float *scaled_sum,
                                  int32_t *sum)
{
    __m512 v = _mm512_loadu_ps(x);
    struct quantise_scale s =
        quantise_scale((uint32_t)_mm512_reduce_max_epu32(magnitude(v)), QUANTISE_BYTE);
    __m512i q = _mm512_setzero_si512();
    if (!s.flat)
        q = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(s.inverse)));
    _mm_storeu_si128((__m128i *)(void *)quants, _mm512_cvtepi32_epi8(q));
    int32_t total = _mm512_reduce_add_epi32(q);
    *scale = s.d;
    *scaled_sum = s.d * (float)total;
    *sum = total;
}

void quantise__avx512(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                      int32_t *sum)
{
    uint32_t n_blocks = n / ACT_BLOCK;
    if (n_blocks < BLOCKS) {
        for (uint32_t b = 0; b < n_blocks; b++)
            quantise_block(x + (size_t)b * ACT_BLOCK, quants + (size_t)b * ACT_BLOCK, scale + b,
                           scaled_sum + b, sum + b);
        return;
    }
    for (uint32_t b = 0; b < n_blocks; b += BLOCKS) {
        uint32_t left = n_blocks - b;
        uint32_t at = left < BLOCKS ? n_blocks - BLOCKS : b; /* some of the last once again */
        quantise_blocks(x + (size_t)at * ACT_BLOCK, quants + (size_t)at * ACT_BLOCK, scale + at,
                        scaled_sum + at, sum + at);
    }
}
