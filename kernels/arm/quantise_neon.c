/* quantise_neon.c: activation rows to int8 per 16 columns, NEON: four registers a block. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <arm_neon.h>

#include "kernels/quantise_scale.h"

void quantise__neon(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                    int32_t *sum)
{
    for (uint32_t b = 0; b < n / ACT_BLOCK; b++, x += ACT_BLOCK, quants += ACT_BLOCK) {
        uint32x4_t greatest = vdupq_n_u32(0);
        for (int i = 0; i < 4; i++) {
            uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
            greatest = vmaxq_u32(greatest, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
        }
        struct quantise_scale s = quantise_scale(vmaxvq_u32(greatest), QUANTISE_BYTE);
        int32x4_t q[4], total = vdupq_n_s32(0);
        for (int i = 0; i < 4; i++) {
            q[i] = s.flat ? vdupq_n_s32(0)
                          : vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), s.inverse));
            total = vaddq_s32(total, q[i]);
        }
        int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
        int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
        vst1q_s8(quants, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
        sum[b] = vaddvq_s32(total);
        scale[b] = s.d;
        scaled_sum[b] = s.d * (float)sum[b];
    }
}
