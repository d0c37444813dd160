/* quantise_avx512.c: activation rows to int8 per 16 columns, AVX-512: one register a block. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <immintrin.h>

#include "kernels/quantise_scale.h"

void quantise__avx512(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                      int32_t *sum)
{
    for (uint32_t b = 0; b < n / ACT_BLOCK; b++, x += ACT_BLOCK, quants += ACT_BLOCK) {
        __m512 v = _mm512_loadu_ps(x);
        __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
        struct quantise_scale s = quantise_scale((uint32_t)_mm512_reduce_max_epu32(magnitude));
        __m512i q = _mm512_setzero_si512();
        if (!s.flat)
            q = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(s.inverse)));
        _mm_storeu_si128((__m128i *)(void *)quants, _mm512_cvtepi32_epi8(q));
        int32_t total = _mm512_reduce_add_epi32(q);
        scale[b] = s.d;
        scaled_sum[b] = s.d * (float)total;
        sum[b] = total;
    }
}
