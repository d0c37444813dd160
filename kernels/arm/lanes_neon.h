/* lanes_neon.h: sixteen lanes in four q registers (Armv8-A baseline). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_LANES_NEON_H
#define FOLDKV_KERNELS_ARM_LANES_NEON_H

#include <arm_neon.h>
#include <math.h>

typedef float32x4x4_t v16;
typedef int32x4x4_t v16i;

#define LANES_EACH(expr)                                                                           \
    v16 out_;                                                                                      \
    for (int i = 0; i < 4; i++)                                                                    \
        out_.val[i] = (expr);                                                                      \
    return out_

LANES_INLINE v16 v16_set1(float x)
{
    LANES_EACH(vdupq_n_f32(x));
}

LANES_INLINE v16 v16_zero(void)
{
    return v16_set1(0.0f);
}

LANES_INLINE v16 v16_load(const float *p)
{
    LANES_EACH(vld1q_f32(p + 4 * i));
}

LANES_INLINE void v16_store(float *p, v16 v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.val[i]);
}

LANES_INLINE v16 v16_load_f16(const uint16_t *p)
{
    LANES_EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}

LANES_INLINE void v16_store_f16(uint16_t *p, v16 v)
{
    for (int i = 0; i < 4; i++)
        vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.val[i])));
}

LANES_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    LANES_EACH(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}

LANES_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    LANES_EACH(vfmaq_f32(c.val[i], a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_fma_at(const float *p, v16 b, v16 c)
{
    return v16_fma(v16_set1(*p), b, c);
}

LANES_INLINE v16 v16_add(v16 a, v16 b)
{
    LANES_EACH(vaddq_f32(a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_sub(v16 a, v16 b)
{
    LANES_EACH(vsubq_f32(a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_mul(v16 a, v16 b)
{
    LANES_EACH(vmulq_f32(a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_div(v16 a, v16 b)
{
    LANES_EACH(vdivq_f32(a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_sqrt(v16 a)
{
    LANES_EACH(vsqrtq_f32(a.val[i]));
}

LANES_INLINE v16 v16_max(v16 a, v16 b)
{
    LANES_EACH(vbslq_f32(vcgtq_f32(a.val[i], b.val[i]), a.val[i], b.val[i]));
}

LANES_INLINE v16 v16_keep(v16 v, int n)
{
    static const int32_t index[4] = {0, 1, 2, 3};
    int32x4_t first = vld1q_s32(index);
    LANES_EACH(vbslq_f32(vcgtq_s32(vdupq_n_s32(n - 4 * i), first), v.val[i], vdupq_n_f32(-INFINITY)));
}

LANES_INLINE bool v16_any_gt(v16 a, v16 b)
{
    uint32x4_t gt = vdupq_n_u32(0);
    for (int i = 0; i < 4; i++)
        gt = vorrq_u32(gt, vcgtq_f32(a.val[i], b.val[i]));
    return vmaxvq_u32(gt) != 0;
}

LANES_INLINE uint32_t v16_ge_mask(v16 a, v16 b)
{
    static const uint32_t bits[4] = {1, 2, 4, 8};
    uint32_t mask = 0;
    for (int i = 0; i < 4; i++)
        mask |= vaddvq_u32(vandq_u32(vcgeq_f32(a.val[i], b.val[i]), vld1q_u32(bits))) << 4 * i;
    return mask;
}

LANES_INLINE void v16_load_pairs(const float *p, v16 *ret_even, v16 *ret_odd)
{
    for (int i = 0; i < 4; i++) {
        float32x4x2_t pairs = vld2q_f32(p + 8 * i);
        ret_even->val[i] = pairs.val[0];
        ret_odd->val[i] = pairs.val[1];
    }
}

LANES_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    for (int i = 0; i < 4; i++)
        vst2q_f32(p + 8 * i, (float32x4x2_t){{even.val[i], odd.val[i]}});
}

LANES_INLINE float32x4_t lanes_greater(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

LANES_INLINE float v16_fold_max(v16 v)
{
    float32x4_t a = lanes_greater(lanes_greater(v.val[0], v.val[2]), lanes_greater(v.val[1], v.val[3]));
    a = lanes_greater(a, vextq_f32(a, a, 2));
    a = lanes_greater(a, vextq_f32(a, a, 1));
    return vgetq_lane_f32(a, 0);
}

LANES_INLINE v16 v16_trunc(v16 a)
{
    LANES_EACH(vrndq_f32(a.val[i]));
}

LANES_INLINE float32x4_t lanes_magnitude4(float32x4_t a, float32x4_t b)
{
    const uint32x4_t mask = vdupq_n_u32(0x7fffffff);
    return vreinterpretq_f32_u32(vmaxq_u32(vandq_u32(vreinterpretq_u32_f32(a), mask),
                                           vandq_u32(vreinterpretq_u32_f32(b), mask)));
}

LANES_INLINE v16 v16_magnitude(v16 a, v16 b)
{
    LANES_EACH(lanes_magnitude4(a.val[i], b.val[i]));
}

LANES_INLINE uint32_t v16_fold_magnitude(v16 v)
{
    float32x4_t a = lanes_magnitude4(lanes_magnitude4(v.val[0], v.val[1]),
                                     lanes_magnitude4(v.val[2], v.val[3]));
    return vmaxvq_u32(vreinterpretq_u32_f32(a));
}

LANES_INLINE float v16_fold_add(v16 v)
{
    float32x4_t a = vaddq_f32(vaddq_f32(v.val[0], v.val[2]), vaddq_f32(v.val[1], v.val[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

LANES_INLINE v16i v16_round(v16 x)
{
    v16i out;
    for (int i = 0; i < 4; i++)
        out.val[i] = vcvtnq_s32_f32(x.val[i]);
    return out;
}

LANES_INLINE v16 v16_from_int(v16i n)
{
    LANES_EACH(vcvtq_f32_s32(n.val[i]));
}

LANES_INLINE v16 v16_scale2(v16 p, v16i n)
{
    LANES_EACH(vmulq_f32(
        p.val[i], vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.val[i], vdupq_n_s32(127)), 23))));
}

LANES_INLINE float32x4_t lanes_exp_select4(float32x4_t x, float32x4_t y)
{
    uint32x4_t under = vcltq_f32(x, vdupq_n_f32(-87.0f));
    uint32x4_t over = vcgtq_f32(x, vdupq_n_f32(88.3f));
    y = vbslq_f32(under, vdupq_n_f32(0.0f), y);
    return vbslq_f32(over, vdupq_n_f32(INFINITY), y);
}

LANES_INLINE v16 v16_exp_select(v16 x, v16 y)
{
    LANES_EACH(lanes_exp_select4(x.val[i], y.val[i]));
}

#undef LANES_EACH
#endif
