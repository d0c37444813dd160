/* quantise_avx2.c: activation rows to int8 per 16 columns, AVX2: two registers a block. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <immintrin.h>

#include "kernels/quantise_scale.h"

static inline __m256i magnitude(__m256 v)
{
    return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
}

/* The greatest of eight lanes that are not negative. */
static inline uint32_t fold_max(__m256i v)
{
    __m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

static inline int32_t fold_add(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return _mm_cvtsi128_si32(a);
}

void quantise__avx2(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                    int32_t *sum)
{
    for (uint32_t b = 0; b < n / ACT_BLOCK; b++, x += ACT_BLOCK, quants += ACT_BLOCK) {
        __m256 lo = _mm256_loadu_ps(x), hi = _mm256_loadu_ps(x + 8);
        struct quantise_scale s =
            quantise_scale(fold_max(_mm256_max_epi32(magnitude(lo), magnitude(hi))), QUANTISE_BYTE);
        __m256i q_lo = _mm256_setzero_si256(), q_hi = q_lo;
        if (!s.flat) {
            q_lo = _mm256_cvtps_epi32(_mm256_mul_ps(lo, _mm256_set1_ps(s.inverse)));
            q_hi = _mm256_cvtps_epi32(_mm256_mul_ps(hi, _mm256_set1_ps(s.inverse)));
        }
        /* packs works within halves of 128 bits: bring the four groups of four into order before the second */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q_lo, q_hi), 0xd8);
        __m128i bytes =
            _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)quants, bytes);
        int32_t total = fold_add(_mm256_add_epi32(q_lo, q_hi));
        scale[b] = s.d;
        scaled_sum[b] = s.d * (float)total;
        sum[b] = total;
    }
}
