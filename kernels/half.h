/* half.h: IEEE half precision and bfloat16 to and from f32 in plain C, exact, round to nearest even. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_HALF_H
#define FOLDKV_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bf16_to_float(uint16_t h)
{
    return float_from_bits((uint32_t)h << 16);
}

static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 31u;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 31) /* a signalling NaN becomes quiet, as the vector conversions do */
        return float_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    if (exponent != 0)
        return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return float_from_bits(sign | float_bits(tiny));
}

static inline uint16_t half_from_float(float x)
{
    uint32_t bits = float_bits(x);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 aligns the fraction and rounds it in one step */
        float aligned = float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(aligned) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

#endif
