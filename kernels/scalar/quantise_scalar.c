/* quantise_scalar.c: activation rows to int8 per 16 columns, in plain C: the definition. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <math.h>

#include "kernels/quantise_scale.h"

void quantise__scalar(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                      int32_t *sum)
{
    for (uint32_t b = 0; b < n / ACT_BLOCK; b++, x += ACT_BLOCK, quants += ACT_BLOCK) {
        uint32_t amax_bits = 0;
        for (uint32_t i = 0; i < ACT_BLOCK; i++) {
            uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
            amax_bits = bits > amax_bits ? bits : amax_bits;
        }
        struct quantise_scale s = quantise_scale(amax_bits, QUANTISE_BYTE);
        int32_t total = 0;
        for (uint32_t i = 0; i < ACT_BLOCK; i++) {
            quants[i] = s.flat ? 0 : (int8_t)lrintf(x[i] * s.inverse);
            total += quants[i];
        }
        scale[b] = s.d;
        scaled_sum[b] = s.d * (float)total;
        sum[b] = total;
    }
}
