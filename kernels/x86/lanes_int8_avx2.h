/* lanes_int8_avx2.h: exact sums by AVX2, which has products of words: bytes 0 and 2 of each quad are one word vector, bytes 1
 * and 3 another, and the multipliers of a quad stand as (0, 2), (1, 3).
 *
 * Multipliers of V are stored - 32768, to be signed; the sum of V itself, times 32768, makes up for it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_X86_LANES_INT8_AVX2_H
#define FOLDKV_KERNELS_X86_LANES_INT8_AVX2_H

#include <string.h>

typedef struct {
    __m256i even[2], odd[2];
} i8_quads;
typedef struct {
    __m256i half[2];
} i8_sums;
typedef i8_sums i8_bias;

LANES_INLINE __m128i i8_words(__m256i x)
{
    const __m256i words = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
    return _mm256_castsi256_si128(
        _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, words), 0x08));
}

LANES_INLINE void i8_store_q(int8_t *m, v16 x)
{
    _mm_storeu_si128((__m128i *)(void *)m, i8_words(_mm256_cvtps_epi32(x.lo)));
    _mm_storeu_si128((__m128i *)(void *)(m + 16), i8_words(_mm256_cvtps_epi32(x.hi)));
}

LANES_INLINE void i8_store_p(int8_t *m, v16 x)
{
    const __m256i middle = _mm256_set1_epi32(32768);
    __m256i lo = _mm256_sub_epi32(_mm256_cvttps_epi32(x.lo), middle);
    __m256i hi = _mm256_sub_epi32(_mm256_cvttps_epi32(x.hi), middle);
    _mm_storeu_si128((__m128i *)(void *)m, i8_words(lo));
    _mm_storeu_si128((__m128i *)(void *)(m + 16), i8_words(hi));
}

LANES_INLINE i8_quads i8_load_k(const void *p)
{
    i8_quads quads;
    for (int h = 0; h < 2; h++) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)p + h);
        quads.even[h] = _mm256_and_si256(bytes, _mm256_set1_epi16(255));
        quads.odd[h] = _mm256_srli_epi16(bytes, 8);
    }
    return quads;
}

LANES_INLINE i8_quads i8_load_v(const void *p)
{
    i8_quads quads;
    for (int h = 0; h < 2; h++) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)p + h);
        quads.even[h] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        quads.odd[h] = _mm256_srai_epi16(bytes, 8);
    }
    return quads;
}

LANES_INLINE i8_sums i8_zero(void)
{
    return (i8_sums){{_mm256_setzero_si256(), _mm256_setzero_si256()}};
}

LANES_INLINE i8_bias i8_bias_zero(void)
{
    return i8_zero();
}

LANES_INLINE i8_sums i8_add_words(i8_sums sums, i8_quads x, __m256i even, __m256i odd)
{
    for (int h = 0; h < 2; h++)
        sums.half[h] = _mm256_add_epi32(sums.half[h],
                                        _mm256_add_epi32(_mm256_madd_epi16(x.even[h], even),
                                                         _mm256_madd_epi16(x.odd[h], odd)));
    return sums;
}

LANES_INLINE i8_sums i8_add_k(i8_sums sums, i8_quads k, const int8_t *m)
{
    int32_t pairs[2];
    memcpy(pairs, m, sizeof pairs);
    return i8_add_words(sums, k, _mm256_set1_epi32(pairs[0]), _mm256_set1_epi32(pairs[1]));
}

LANES_INLINE i8_sums i8_add_v(i8_sums sums, i8_quads v, const int8_t *m)
{
    return i8_add_k(sums, v, m);
}

LANES_INLINE i8_bias i8_bias_add(i8_bias bias, i8_quads v)
{
    return i8_add_words(bias, v, _mm256_set1_epi16(1), _mm256_set1_epi16(1));
}

LANES_INLINE v16 i8_total_k(i8_sums sums, int32_t total)
{
    const __m256i offset = _mm256_set1_epi32(128 * total);
    return (v16){_mm256_cvtepi32_ps(_mm256_sub_epi32(sums.half[0], offset)),
                 _mm256_cvtepi32_ps(_mm256_sub_epi32(sums.half[1], offset))};
}

LANES_INLINE v16 i8_total_v(i8_sums sums, i8_bias bias)
{
    for (int h = 0; h < 2; h++)
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_slli_epi32(bias.half[h], 15));
    return i8_total_k(sums, 0);
}

#endif
