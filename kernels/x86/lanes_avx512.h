/* lanes_avx512.h: sixteen lanes in one zmm register (AVX-512 F, BW, DQ, VL). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_X86_LANES_AVX512_H
#define FOLDKV_KERNELS_X86_LANES_AVX512_H

#include <immintrin.h>
#include <math.h>

typedef __m512 v16;
typedef __m512 v16i; /* whole numbers, but as floats: v16_exp needs no others */

LANES_INLINE v16 v16_zero(void)
{
    return _mm512_setzero_ps();
}

LANES_INLINE v16 v16_set1(float x)
{
    return _mm512_set1_ps(x);
}

LANES_INLINE v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

LANES_INLINE void v16_store(float *p, v16 v)
{
    _mm512_storeu_ps(p, v);
}

LANES_INLINE v16 v16_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

LANES_INLINE void v16_store_f16(uint16_t *p, v16 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

LANES_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* As an operand of its own: compilers load a number used more than once into a register, and that load shares a port with the
 * fused operations (Zen 4: 10 % of a loop of twelve). */
LANES_INLINE v16 v16_fma_at(const float *p, v16 b, v16 c)
{
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*p));
    return c;
}

LANES_INLINE v16 v16_add(v16 a, v16 b)
{
    return _mm512_add_ps(a, b);
}

LANES_INLINE v16 v16_sub(v16 a, v16 b)
{
    return _mm512_sub_ps(a, b);
}

LANES_INLINE v16 v16_mul(v16 a, v16 b)
{
    return _mm512_mul_ps(a, b);
}

LANES_INLINE v16 v16_div(v16 a, v16 b)
{
    return _mm512_div_ps(a, b);
}

LANES_INLINE v16 v16_sqrt(v16 a)
{
    return _mm512_sqrt_ps(a);
}

LANES_INLINE v16 v16_max(v16 a, v16 b)
{
    return _mm512_max_ps(a, b);
}

LANES_INLINE v16 v16_keep(v16 v, int n)
{
    uint32_t kept = n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u;
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)kept, v);
}

LANES_INLINE bool v16_any_gt(v16 a, v16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0;
}

LANES_INLINE uint32_t v16_ge_mask(v16 a, v16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

LANES_INLINE void v16_load_pairs(const float *p, v16 *ret_even, v16 *ret_odd)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 a = _mm512_loadu_ps(p);
    __m512 b = _mm512_loadu_ps(p + 16);
    *ret_even = _mm512_permutex2var_ps(a, even, b);
    *ret_odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

LANES_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, low, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd));
}

LANES_INLINE float v16_fold_max(v16 v)
{
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    b = _mm_max_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}

LANES_INLINE v16 v16_trunc(v16 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

LANES_INLINE v16 v16_magnitude(v16 a, v16 b)
{
    const __m512i mask = _mm512_set1_epi32(0x7fffffff);
    return _mm512_castsi512_ps(
        _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), mask),
                         _mm512_and_si512(_mm512_castps_si512(b), mask)));
}

LANES_INLINE uint32_t v16_fold_magnitude(v16 v)
{
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
    return _mm512_reduce_max_epu32(bits);
}

LANES_INLINE float v16_fold_add(v16 v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    b = _mm_add_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}

LANES_INLINE v16i v16_round(v16 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LANES_INLINE v16 v16_from_int(v16i n)
{
    return n;
}

LANES_INLINE v16 v16_scale2(v16 p, v16i n)
{
    /* scalef gives the same bits as adding to the exponent over the range that survives v16_exp_select. */
    return _mm512_scalef_ps(p, n);
}

LANES_INLINE v16 v16_exp_select(v16 x, v16 y)
{
    __mmask16 keep = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    __mmask16 over = _mm512_cmp_ps_mask(x, _mm512_set1_ps(88.3f), _CMP_GT_OQ);
    y = _mm512_maskz_mov_ps(keep, y);
    return _mm512_mask_mov_ps(y, over, _mm512_set1_ps(INFINITY));
}

#endif
