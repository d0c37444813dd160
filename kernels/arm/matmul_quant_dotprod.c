/* matmul_quant_dotprod.c: products with quantised weights, Armv8.2-A with dot products.
 *
 * HOW     SDOT by lane: four weight rows x four columns times one quad of the activation register, four sums.
 */
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#define QUANT_NAME(op) op##__dotprod

enum { ROWS_ONE = 4, ROWS_BYTES_MAX = 256 << 10 };

#include "kernels/arm/quant_groups.h"

QUANT_INLINE int32x4_t group_sums(const enum weight_type type, const int8x16_t w[4], int8x16_t q)
{
    (void)type;
    int32x4_t sums = vdotq_laneq_s32(vdupq_n_s32(0), w[0], q, 0);
    sums = vdotq_laneq_s32(sums, w[1], q, 1);
    sums = vdotq_laneq_s32(sums, w[2], q, 2);
    return vdotq_laneq_s32(sums, w[3], q, 3);
}

#include "kernels/arm/quant_tile_groups.h"
