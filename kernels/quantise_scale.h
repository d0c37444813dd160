/* quantise_scale.h: the scale of numbers that become whole, from their greatest magnitude: activations, rows of K and V,
 * queries, weights of attention; one definition for every instruction set. Pure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_QUANTISE_SCALE_H
#define FOLDKV_KERNELS_QUANTISE_SCALE_H

#include <stdbool.h>

#include "kernels/half.h"

/* Bits of magnitudes; the constants are what every instruction set compares with. */
enum {
    QUANTISE_NO_NUMBER = 0x7f800000, /* from here on: NaN or inf */
    QUANTISE_ZERO_BELOW =
        0x0d800000, /* 2^-100: as good as zero, and neither quotient leaves the normal range */
    QUANTISE_NAN = 0x7fc00000,
};

/* The greatest whole number in a byte. */
#define QUANTISE_BYTE 127.0f

struct quantise_scale {
    float d;       /* what 1 stands for: amax / level; NaN if amax is no number */
    float inverse; /* level / amax; 0 if flat */
    bool flat;     /* all whole numbers are 0 */
};

static inline struct quantise_scale quantise_scale(uint32_t amax_bits, float level)
{
    if (amax_bits >= QUANTISE_NO_NUMBER)
        return (struct quantise_scale){.d = float_from_bits(QUANTISE_NAN), .flat = true};
    if (amax_bits < QUANTISE_ZERO_BELOW)
        return (struct quantise_scale){.flat = true};
    float amax = float_from_bits(amax_bits);
    return (struct quantise_scale){.d = amax / level, .inverse = level / amax};
}

#endif
