/* quantise_scale.h: the scale of a block of activations from its greatest magnitude; one definition for every
 * instruction set. Pure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_QUANTISE_SCALE_H
#define FOLDKV_KERNELS_QUANTISE_SCALE_H

#include <stdbool.h>

#include "kernels/half.h"

struct quantise_scale {
    float d;
    float inverse; /* 127 / amax */
    bool flat;     /* all q are 0 */
};

static inline struct quantise_scale quantise_scale(uint32_t amax_bits)
{
    if (amax_bits >= 0x7f800000u) /* NaN or inf */
        return (struct quantise_scale){.d = float_from_bits(0x7fc00000u), .flat = true};
    if (amax_bits <
        0x0d800000u) /* under 2^-100: as good as zero, and neither d nor 127 / amax leaves the normal range */
        return (struct quantise_scale){.flat = true};
    float amax = float_from_bits(amax_bits);
    return (struct quantise_scale){.d = amax / 127.0f, .inverse = 127.0f / amax};
}

#endif
