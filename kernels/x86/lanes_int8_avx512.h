/* lanes_int8_avx512.h: exact sums by AVX-512 VNNI, which multiplies unsigned by signed bytes and does not saturate.
 *
 * Multipliers are two planes of bytes, a quad's high ones before its low ones: signed ones against the unsigned bytes of K,
 * unsigned ones against the signed bytes of V. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_X86_LANES_INT8_AVX512_H
#define FOLDKV_KERNELS_X86_LANES_INT8_AVX512_H

#include <string.h>

typedef __m512i i8_quads;
typedef struct {
    __m512i high, low;
} i8_sums;
typedef int i8_bias; /* none */

/* Bytes 1 of each quad's lanes, then bytes 0. */
LANES_INLINE void i8_store_planes(int8_t *m, __m512i x)
{
    const __m512i bytes = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 5, 9, 13, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m512i pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    x = _mm512_permutexvar_epi64(pairs, _mm512_shuffle_epi8(x, bytes));
    _mm256_storeu_si256((__m256i *)(void *)m, _mm512_castsi512_si256(x));
}

/* The low plane is signed too, so the high one is rounded to nearest. */
LANES_INLINE void i8_store_q(int8_t *m, v16 x)
{
    __m512i whole = _mm512_cvtps_epi32(x);
    __m512i rounded = _mm512_add_epi32(whole, _mm512_set1_epi32(128));
    i8_store_planes(m, _mm512_mask_mov_epi8(rounded, 0x1111111111111111u, whole));
}

LANES_INLINE void i8_store_p(int8_t *m, v16 x)
{
    i8_store_planes(m, _mm512_cvttps_epi32(x));
}

LANES_INLINE i8_quads i8_load_k(const void *p)
{
    return _mm512_loadu_si512(p);
}

LANES_INLINE i8_quads i8_load_v(const void *p)
{
    return _mm512_loadu_si512(p);
}

LANES_INLINE i8_sums i8_zero(void)
{
    return (i8_sums){_mm512_setzero_si512(), _mm512_setzero_si512()};
}

LANES_INLINE i8_bias i8_bias_zero(void)
{
    return 0;
}

/* A load alone: the integer form of a broadcast takes no vector port (Zen 4). */
LANES_INLINE __m512i i8_broadcast(const int8_t *m)
{
    int32_t quad;
    memcpy(&quad, m, sizeof quad);
    return _mm512_set1_epi32(quad);
}

LANES_INLINE i8_sums i8_add_k(i8_sums sums, i8_quads k, const int8_t *m)
{
    return (i8_sums){_mm512_dpbusd_epi32(sums.high, k, i8_broadcast(m)),
                     _mm512_dpbusd_epi32(sums.low, k, i8_broadcast(m + 4))};
}

LANES_INLINE i8_sums i8_add_v(i8_sums sums, i8_quads v, const int8_t *m)
{
    return (i8_sums){_mm512_dpbusd_epi32(sums.high, i8_broadcast(m), v),
                     _mm512_dpbusd_epi32(sums.low, i8_broadcast(m + 4), v)};
}

LANES_INLINE i8_bias i8_bias_add(i8_bias bias, i8_quads v)
{
    (void)v;
    return bias;
}

LANES_INLINE v16 i8_total_k(i8_sums sums, int32_t total)
{
    __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(sums.high, 8), sums.low);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(whole, _mm512_set1_epi32(128 * total)));
}

LANES_INLINE v16 i8_total_v(i8_sums sums, i8_bias bias)
{
    (void)bias;
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(sums.high, 8), sums.low));
}

#endif
