/* lanes_avx2.h: sixteen lanes in two ymm registers (AVX2, FMA, F16C). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_X86_LANES_AVX2_H
#define FOLDKV_KERNELS_X86_LANES_AVX2_H

#include <immintrin.h>
#include <math.h>

typedef struct {
    __m256 lo, hi;
} v16;
typedef struct {
    __m256i lo, hi;
} v16i;

#define LANES_BOTH(expr_lo, expr_hi)                                                               \
    return (v16)                                                                                   \
    {                                                                                              \
        (expr_lo), (expr_hi)                                                                       \
    }

LANES_INLINE v16 v16_set1(float x)
{
    LANES_BOTH(_mm256_set1_ps(x), _mm256_set1_ps(x));
}

LANES_INLINE v16 v16_zero(void)
{
    LANES_BOTH(_mm256_setzero_ps(), _mm256_setzero_ps());
}

LANES_INLINE v16 v16_load(const float *p)
{
    LANES_BOTH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

LANES_INLINE void v16_store(float *p, v16 v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}

LANES_INLINE __m128i lanes_load8(const uint16_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

LANES_INLINE v16 v16_load_f16(const uint16_t *p)
{
    LANES_BOTH(_mm256_cvtph_ps(lanes_load8(p)), _mm256_cvtph_ps(lanes_load8(p + 8)));
}

LANES_INLINE void v16_store_f16(uint16_t *p, v16 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE __m256 lanes_widen_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

LANES_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    LANES_BOTH(lanes_widen_bf16(lanes_load8(p)), lanes_widen_bf16(lanes_load8(p + 8)));
}

LANES_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    LANES_BOTH(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}

/* Loaded again for each use: kept for a second one it takes a register more than there are. */
LANES_INLINE v16 v16_fma_at(const float *p, v16 b, v16 c)
{
    __m256 a;
    __asm__ volatile("vbroadcastss %1, %0" : "=x"(a) : "m"(*p));
    return v16_fma((v16){a, a}, b, c);
}

LANES_INLINE v16 v16_add(v16 a, v16 b)
{
    LANES_BOTH(_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi));
}

LANES_INLINE v16 v16_sub(v16 a, v16 b)
{
    LANES_BOTH(_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi));
}

LANES_INLINE v16 v16_mul(v16 a, v16 b)
{
    LANES_BOTH(_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi));
}

LANES_INLINE v16 v16_div(v16 a, v16 b)
{
    LANES_BOTH(_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi));
}

LANES_INLINE v16 v16_sqrt(v16 a)
{
    LANES_BOTH(_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi));
}

LANES_INLINE v16 v16_max(v16 a, v16 b)
{
    LANES_BOTH(_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi));
}

LANES_INLINE __m256 lanes_keep8(__m256 v, int n)
{
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i kept = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index);
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, _mm256_castsi256_ps(kept));
}

LANES_INLINE v16 v16_keep(v16 v, int n)
{
    LANES_BOTH(lanes_keep8(v.lo, n), lanes_keep8(v.hi, n - 8));
}

LANES_INLINE bool v16_any_gt(v16 a, v16 b)
{
    __m256 gt = _mm256_or_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ));
    return _mm256_movemask_ps(gt) != 0;
}

LANES_INLINE uint32_t v16_ge_mask(v16 a, v16 b)
{
    uint32_t lo = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ));
    uint32_t hi = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ));
    return lo | hi << 8;
}

/* Within each 128-bit half a shuffle takes a0 a2 b0 b2; the middle pairs then stand crossed. */
LANES_INLINE __m256 lanes_uncross(__m256 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), _MM_SHUFFLE(3, 1, 2, 0)));
}

LANES_INLINE void lanes_load_pairs8(const float *p, __m256 *ret_even, __m256 *ret_odd)
{
    __m256 a = _mm256_loadu_ps(p);
    __m256 b = _mm256_loadu_ps(p + 8);
    *ret_even = lanes_uncross(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    *ret_odd = lanes_uncross(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

LANES_INLINE void v16_load_pairs(const float *p, v16 *ret_even, v16 *ret_odd)
{
    lanes_load_pairs8(p, &ret_even->lo, &ret_odd->lo);
    lanes_load_pairs8(p + 16, &ret_even->hi, &ret_odd->hi);
}

LANES_INLINE void lanes_store_pairs8(float *p, __m256 even, __m256 odd)
{
    __m256 a = _mm256_unpacklo_ps(even, odd);
    __m256 b = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(a, b, 0x31));
}

LANES_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    lanes_store_pairs8(p, even.lo, odd.lo);
    lanes_store_pairs8(p + 16, even.hi, odd.hi);
}

LANES_INLINE float v16_fold_max(v16 v)
{
    __m256 a = _mm256_max_ps(v.lo, v.hi);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    b = _mm_max_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}

LANES_INLINE v16 v16_trunc(v16 a)
{
    LANES_BOTH(_mm256_round_ps(a.lo, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
               _mm256_round_ps(a.hi, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}

LANES_INLINE __m256i lanes_magnitude8(__m256 a, __m256 b)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return _mm256_max_epu32(_mm256_and_si256(_mm256_castps_si256(a), mask),
                            _mm256_and_si256(_mm256_castps_si256(b), mask));
}

LANES_INLINE v16 v16_magnitude(v16 a, v16 b)
{
    LANES_BOTH(_mm256_castsi256_ps(lanes_magnitude8(a.lo, b.lo)),
               _mm256_castsi256_ps(lanes_magnitude8(a.hi, b.hi)));
}

LANES_INLINE uint32_t v16_fold_magnitude(v16 v)
{
    __m256i eight = lanes_magnitude8(v.lo, v.hi);
    __m128i four =
        _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(four);
}

LANES_INLINE float v16_fold_add(v16 v)
{
    __m256 a = _mm256_add_ps(v.lo, v.hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    b = _mm_add_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}

LANES_INLINE v16i v16_round(v16 x)
{
    return (v16i){_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)};
}

LANES_INLINE v16 v16_from_int(v16i n)
{
    LANES_BOTH(_mm256_cvtepi32_ps(n.lo), _mm256_cvtepi32_ps(n.hi));
}

LANES_INLINE __m256 lanes_scale8(__m256 p, __m256i n)
{
    __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(exponent));
}

LANES_INLINE v16 v16_scale2(v16 p, v16i n)
{
    LANES_BOTH(lanes_scale8(p.lo, n.lo), lanes_scale8(p.hi, n.hi));
}

LANES_INLINE __m256 lanes_exp_select8(__m256 x, __m256 y)
{
    __m256 keep = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ);
    __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(88.3f), _CMP_GT_OQ);
    return _mm256_blendv_ps(_mm256_and_ps(keep, y), _mm256_set1_ps(INFINITY), over);
}

LANES_INLINE v16 v16_exp_select(v16 x, v16 y)
{
    LANES_BOTH(lanes_exp_select8(x.lo, y.lo), lanes_exp_select8(x.hi, y.hi));
}

#undef LANES_BOTH
#endif
