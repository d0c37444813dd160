/* matmul_quant_neon.c: products with quantised weights, Armv8-A baseline.
 *
 * HOW     A quad (4 columns) of four weight rows fills a register; a panel is four groups of four rows. Signed bytes are
 *         multiplied to 16 bits, columns side by side, and folded to 32 bits before they can overflow: weights of
 *         up to 6 bits (-32..31) after a half group (4 * 32 * 127 < 2^15), of 8 after two quads (2 * 128 * 127 < 2^15).
 */
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#define QUANT_NAME(op) op##__neon

enum { ROWS_ONE = 4, ROWS_BYTES_MAX = 256 << 10 };

#include "kernels/arm/quant_groups.h"

/* Adds quad w (four rows x four columns) times q to 16-bit sums: low holds rows 0 and 1, high rows 2 and 3. */
QUANT_INLINE void add_quad(int8x16_t w, int8x8_t q, int16x8_t *low, int16x8_t *high)
{
    *low = vmlal_s8(*low, vget_low_s8(w), q);
    *high = vmlal_s8(*high, vget_high_s8(w), q);
}

QUANT_INLINE int32x4_t group_sums(const enum weight_type type, const int8x16_t w[4], int8x16_t q)
{
    int32x4_t low = vdupq_n_s32(0), high = low;
    int16x8_t low16 = vdupq_n_s16(0), high16 = low16;
    const int32x4_t quads = vreinterpretq_s32_s8(q);
    const int32_t quad[4] = {vgetq_lane_s32(quads, 0), vgetq_lane_s32(quads, 1),
                             vgetq_lane_s32(quads, 2), vgetq_lane_s32(quads, 3)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        add_quad(w[j], vreinterpret_s8_s32(vdup_n_s32(quad[j])), &low16, &high16);
        if (j == 3 || (j == 1 && quant_offset(type) == 128)) {
            low = vpadalq_s16(low, low16);
            high = vpadalq_s16(high, high16);
            low16 = high16 = vdupq_n_s16(0);
        }
    }
    return vpaddq_s32(low, high);
}

#include "kernels/arm/quant_tile_groups.h"
