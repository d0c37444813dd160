/* lanes_int8_neon.h: exact sums by baseline NEON: bytes widened to words, multipliers words in order.
 *
 * Multipliers of V are stored - 32768, to be signed; the sum of V itself, times 32768, makes up for it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_LANES_INT8_NEON_H
#define FOLDKV_KERNELS_ARM_LANES_INT8_NEON_H

#include <string.h>

typedef int8x16x4_t i8_quads; /* [i]: byte i of each lane */
typedef int32x4x4_t i8_sums;
typedef int32x4x4_t i8_bias;

LANES_INLINE void i8_store_words(int8_t *m, const int32x4_t x[4])
{
    int16x8_t low = vcombine_s16(vmovn_s32(x[0]), vmovn_s32(x[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(x[2]), vmovn_s32(x[3]));
    vst1q_s8(m, vreinterpretq_s8_s16(low));
    vst1q_s8(m + 16, vreinterpretq_s8_s16(high));
}

LANES_INLINE void i8_store_q(int8_t *m, v16 x)
{
    int32x4_t whole[4];
    for (int i = 0; i < 4; i++)
        whole[i] = vcvtnq_s32_f32(x.val[i]);
    i8_store_words(m, whole);
}

LANES_INLINE void i8_store_p(int8_t *m, v16 x)
{
    int32x4_t whole[4];
    for (int i = 0; i < 4; i++)
        whole[i] = vsubq_s32(vcvtq_s32_f32(x.val[i]), vdupq_n_s32(32768));
    i8_store_words(m, whole);
}

LANES_INLINE i8_quads i8_load_v(const void *p)
{
    return vld4q_s8(p);
}

LANES_INLINE i8_quads i8_load_k(const void *p)
{
    i8_quads quads = i8_load_v(p);
    for (int i = 0; i < 4; i++)
        quads.val[i] = veorq_s8(quads.val[i], vdupq_n_s8(-128));
    return quads;
}

LANES_INLINE i8_sums i8_zero(void)
{
    int32x4_t zero = vdupq_n_s32(0);
    return (i8_sums){{zero, zero, zero, zero}};
}

LANES_INLINE i8_bias i8_bias_zero(void)
{
    return i8_zero();
}

LANES_INLINE i8_sums i8_add_words(i8_sums sums, i8_quads x, const int16_t words[4])
{
    for (int i = 0; i < 4; i++) {
        int16x8_t low = vmovl_s8(vget_low_s8(x.val[i]));
        int16x8_t high = vmovl_s8(vget_high_s8(x.val[i]));
        sums.val[0] = vmlal_n_s16(sums.val[0], vget_low_s16(low), words[i]);
        sums.val[1] = vmlal_n_s16(sums.val[1], vget_high_s16(low), words[i]);
        sums.val[2] = vmlal_n_s16(sums.val[2], vget_low_s16(high), words[i]);
        sums.val[3] = vmlal_n_s16(sums.val[3], vget_high_s16(high), words[i]);
    }
    return sums;
}

LANES_INLINE i8_sums i8_add_k(i8_sums sums, i8_quads k, const int8_t *m)
{
    int16_t words[4];
    memcpy(words, m, sizeof words);
    return i8_add_words(sums, k, words);
}

LANES_INLINE i8_sums i8_add_v(i8_sums sums, i8_quads v, const int8_t *m)
{
    return i8_add_k(sums, v, m);
}

LANES_INLINE i8_bias i8_bias_add(i8_bias bias, i8_quads v)
{
    static const int16_t ones[4] = {1, 1, 1, 1};
    return i8_add_words(bias, v, ones);
}

LANES_INLINE v16 i8_total_k(i8_sums sums, int32_t total)
{
    (void)total;
    v16 out;
    for (int i = 0; i < 4; i++)
        out.val[i] = vcvtq_f32_s32(sums.val[i]);
    return out;
}

LANES_INLINE v16 i8_total_v(i8_sums sums, i8_bias bias)
{
    for (int i = 0; i < 4; i++)
        sums.val[i] = vaddq_s32(sums.val[i], vshlq_n_s32(bias.val[i], 15));
    return i8_total_k(sums, 0);
}

#endif
