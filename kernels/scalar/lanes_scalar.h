/* lanes_scalar.h: sixteen lanes as plain C: the definition that the vector versions are compared with. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_SCALAR_LANES_SCALAR_H
#define FOLDKV_KERNELS_SCALAR_LANES_SCALAR_H

#include <math.h>
#include <string.h>

#include "kernels/half.h"

typedef struct {
    float lane[16];
} v16;
typedef struct {
    int32_t lane[16];
} v16i;

#define LANES_EACH(expr)                                                                           \
    v16 out_;                                                                                      \
    for (int i = 0; i < 16; i++)                                                                   \
        out_.lane[i] = (expr);                                                                     \
    return out_

LANES_INLINE v16 v16_set1(float x)
{
    LANES_EACH(x);
}

LANES_INLINE v16 v16_zero(void)
{
    return v16_set1(0.0f);
}

LANES_INLINE v16 v16_load(const float *p)
{
    LANES_EACH(p[i]);
}

LANES_INLINE void v16_store(float *p, v16 v)
{
    memcpy(p, v.lane, sizeof v.lane);
}

LANES_INLINE v16 v16_load_f16(const uint16_t *p)
{
    LANES_EACH(half_to_float(p[i]));
}

LANES_INLINE void v16_store_f16(uint16_t *p, v16 v)
{
    for (int i = 0; i < 16; i++)
        p[i] = half_from_float(v.lane[i]);
}

LANES_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    LANES_EACH(bf16_to_float(p[i]));
}

LANES_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    LANES_EACH(fmaf(a.lane[i], b.lane[i], c.lane[i]));
}

LANES_INLINE v16 v16_fma_at(const float *p, v16 b, v16 c)
{
    return v16_fma(v16_set1(*p), b, c);
}

LANES_INLINE v16 v16_add(v16 a, v16 b)
{
    LANES_EACH(a.lane[i] + b.lane[i]);
}

LANES_INLINE v16 v16_sub(v16 a, v16 b)
{
    LANES_EACH(a.lane[i] - b.lane[i]);
}

LANES_INLINE v16 v16_mul(v16 a, v16 b)
{
    LANES_EACH(a.lane[i] * b.lane[i]);
}

LANES_INLINE v16 v16_div(v16 a, v16 b)
{
    LANES_EACH(a.lane[i] / b.lane[i]);
}

LANES_INLINE v16 v16_sqrt(v16 a)
{
    LANES_EACH(sqrtf(a.lane[i]));
}

LANES_INLINE v16 v16_max(v16 a, v16 b)
{
    LANES_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}

LANES_INLINE v16 v16_keep(v16 v, int n)
{
    LANES_EACH(i < n ? v.lane[i] : -INFINITY);
}

LANES_INLINE bool v16_any_gt(v16 a, v16 b)
{
    bool any = false;
    for (int i = 0; i < 16; i++)
        any |= a.lane[i] > b.lane[i];
    return any;
}

LANES_INLINE uint32_t v16_ge_mask(v16 a, v16 b)
{
    uint32_t mask = 0;
    for (int i = 0; i < 16; i++)
        mask |= (uint32_t)(a.lane[i] >= b.lane[i]) << i;
    return mask;
}

LANES_INLINE void v16_load_pairs(const float *p, v16 *ret_even, v16 *ret_odd)
{
    for (int i = 0; i < 16; i++) {
        ret_even->lane[i] = p[2 * i];
        ret_odd->lane[i] = p[2 * i + 1];
    }
}

LANES_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    for (int i = 0; i < 16; i++) {
        p[2 * i] = even.lane[i];
        p[2 * i + 1] = odd.lane[i];
    }
}

LANES_INLINE float v16_fold_max(v16 v)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
    return v.lane[0];
}

LANES_INLINE v16 v16_trunc(v16 a)
{
    LANES_EACH((float)(int32_t)a.lane[i]);
}

LANES_INLINE v16 v16_magnitude(v16 a, v16 b)
{
    v16 out;
    for (int i = 0; i < 16; i++) {
        uint32_t x = float_bits(a.lane[i]) & 0x7fffffff, y = float_bits(b.lane[i]) & 0x7fffffff;
        out.lane[i] = float_from_bits(x > y ? x : y);
    }
    return out;
}

LANES_INLINE uint32_t v16_fold_magnitude(v16 v)
{
    uint32_t top = 0;
    for (int i = 0; i < 16; i++) {
        uint32_t x = float_bits(v.lane[i]) & 0x7fffffff;
        top = x > top ? x : top;
    }
    return top;
}

LANES_INLINE float v16_fold_add(v16 v)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}

/* The three pieces of v16_exp that each instruction set does its own way. */
LANES_INLINE v16i v16_round(v16 x)
{
    v16i out;
    for (int i = 0; i < 16; i++) {
        bool in_range = x.lane[i] > -2.0e9f && x.lane[i] < 2.0e9f;
        out.lane[i] = in_range ? (int32_t)rintf(x.lane[i]) : INT32_MIN;
    }
    return out;
}

LANES_INLINE v16 v16_from_int(v16i n)
{
    LANES_EACH((float)n.lane[i]);
}

/* p * 2^n by the bits of the exponent, for -126 <= n <= 127; anything for other n. */
LANES_INLINE v16 v16_scale2(v16 p, v16i n)
{
    LANES_EACH(p.lane[i] * float_from_bits(((uint32_t)n.lane[i] + 127u) << 23));
}

LANES_INLINE v16 v16_exp_select(v16 x, v16 y)
{
    LANES_EACH(x.lane[i] < -87.0f ? 0.0f : x.lane[i] > 88.3f ? INFINITY : y.lane[i]);
}

#undef LANES_EACH
#endif
