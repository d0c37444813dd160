/* lanes_int8_dotprod.h: exact sums by Armv8.2 dot products of signed bytes.
 *
 * Multipliers are two planes of signed bytes, a quad's high ones before its low ones. Those of V are stored - 32768, to be
 * signed; the sum of V itself, times 32768, makes up for it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_LANES_INT8_DOTPROD_H
#define FOLDKV_KERNELS_ARM_LANES_INT8_DOTPROD_H

#include <string.h>

typedef struct {
    int8x16_t four[4]; /* quads of four lanes each */
} i8_quads;
typedef struct {
    int32x4_t high[4], low[4];
} i8_sums;
typedef int32x4x4_t i8_bias;

LANES_INLINE int8x16_t i8_bytes(const int32x4_t x[4])
{
    int16x8_t low = vcombine_s16(vmovn_s32(x[0]), vmovn_s32(x[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(x[2]), vmovn_s32(x[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

/* The low plane is signed, so the high one is rounded to nearest. */
LANES_INLINE void i8_store_planes(int8_t *m, const int32x4_t whole[4])
{
    int32x4_t rounded[4];
    for (int i = 0; i < 4; i++)
        rounded[i] = vshrq_n_s32(vaddq_s32(whole[i], vdupq_n_s32(128)), 8);
    int32x4x2_t planes = {
        {vreinterpretq_s32_s8(i8_bytes(rounded)), vreinterpretq_s32_s8(i8_bytes(whole))}};
    int32_t quads[8];
    vst2q_s32(quads, planes);
    memcpy(m, quads, sizeof quads);
}

LANES_INLINE void i8_store_q(int8_t *m, v16 x)
{
    int32x4_t whole[4];
    for (int i = 0; i < 4; i++)
        whole[i] = vcvtnq_s32_f32(x.val[i]);
    i8_store_planes(m, whole);
}

LANES_INLINE void i8_store_p(int8_t *m, v16 x)
{
    int32x4_t whole[4];
    for (int i = 0; i < 4; i++)
        whole[i] = vsubq_s32(vcvtq_s32_f32(x.val[i]), vdupq_n_s32(32768));
    i8_store_planes(m, whole);
}

LANES_INLINE i8_quads i8_load_v(const void *p)
{
    i8_quads quads;
    for (int i = 0; i < 4; i++)
        quads.four[i] = vld1q_s8((const int8_t *)p + 16 * i);
    return quads;
}

LANES_INLINE i8_quads i8_load_k(const void *p)
{
    i8_quads quads = i8_load_v(p);
    for (int i = 0; i < 4; i++)
        quads.four[i] = veorq_s8(quads.four[i], vdupq_n_s8(-128));
    return quads;
}

LANES_INLINE i8_sums i8_zero(void)
{
    i8_sums sums;
    for (int i = 0; i < 4; i++)
        sums.high[i] = sums.low[i] = vdupq_n_s32(0);
    return sums;
}

LANES_INLINE i8_bias i8_bias_zero(void)
{
    int32x4_t zero = vdupq_n_s32(0);
    return (i8_bias){{zero, zero, zero, zero}};
}

LANES_INLINE i8_sums i8_add_k(i8_sums sums, i8_quads k, const int8_t *m)
{
    int32_t planes[2];
    memcpy(planes, m, sizeof planes);
    int8x16_t high = vreinterpretq_s8_s32(vdupq_n_s32(planes[0]));
    int8x16_t low = vreinterpretq_s8_s32(vdupq_n_s32(planes[1]));
    for (int i = 0; i < 4; i++) {
        sums.high[i] = vdotq_s32(sums.high[i], k.four[i], high);
        sums.low[i] = vdotq_s32(sums.low[i], k.four[i], low);
    }
    return sums;
}

LANES_INLINE i8_sums i8_add_v(i8_sums sums, i8_quads v, const int8_t *m)
{
    return i8_add_k(sums, v, m);
}

LANES_INLINE i8_bias i8_bias_add(i8_bias bias, i8_quads v)
{
    for (int i = 0; i < 4; i++)
        bias.val[i] = vdotq_s32(bias.val[i], v.four[i], vdupq_n_s8(1));
    return bias;
}

LANES_INLINE v16 i8_total_k(i8_sums sums, int32_t total)
{
    (void)total;
    v16 out;
    for (int i = 0; i < 4; i++)
        out.val[i] = vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(sums.high[i], 8), sums.low[i]));
    return out;
}

LANES_INLINE v16 i8_total_v(i8_sums sums, i8_bias bias)
{
    for (int i = 0; i < 4; i++)
        sums.low[i] = vaddq_s32(sums.low[i], vshlq_n_s32(bias.val[i], 15));
    return i8_total_k(sums, 0);
}

#endif
