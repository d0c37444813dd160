/* lanes_int8_scalar.h: exact sums in plain C; multipliers are words in order. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_SCALAR_LANES_INT8_SCALAR_H
#define FOLDKV_KERNELS_SCALAR_LANES_INT8_SCALAR_H

#include <string.h>

typedef struct {
    uint8_t byte[64];
} i8_quads;
typedef struct {
    int32_t lane[16];
} i8_sums;
typedef int i8_bias; /* none */

LANES_INLINE void i8_store_q(int8_t *m, v16 x)
{
    int16_t words[16];
    for (int i = 0; i < 16; i++)
        words[i] = (int16_t)x.lane[i];
    memcpy(m, words, sizeof words);
}

LANES_INLINE void i8_store_p(int8_t *m, v16 x)
{
    uint16_t words[16];
    for (int i = 0; i < 16; i++)
        words[i] = (uint16_t)x.lane[i];
    memcpy(m, words, sizeof words);
}

LANES_INLINE i8_quads i8_load_k(const void *p)
{
    i8_quads quads;
    memcpy(&quads, p, sizeof quads);
    return quads;
}

LANES_INLINE i8_quads i8_load_v(const void *p)
{
    return i8_load_k(p);
}

LANES_INLINE i8_sums i8_zero(void)
{
    return (i8_sums){{0}};
}

LANES_INLINE i8_bias i8_bias_zero(void)
{
    return 0;
}

LANES_INLINE i8_sums i8_add_k(i8_sums sums, i8_quads k, const int8_t *m)
{
    int16_t q[4];
    memcpy(q, m, sizeof q);
    for (int lane = 0; lane < 16; lane++)
        for (int i = 0; i < 4; i++)
            sums.lane[lane] += (k.byte[4 * lane + i] - 128) * q[i];
    return sums;
}

LANES_INLINE i8_sums i8_add_v(i8_sums sums, i8_quads v, const int8_t *m)
{
    uint16_t p[4];
    memcpy(p, m, sizeof p);
    for (int lane = 0; lane < 16; lane++)
        for (int i = 0; i < 4; i++)
            sums.lane[lane] += (int8_t)v.byte[4 * lane + i] * p[i];
    return sums;
}

LANES_INLINE i8_bias i8_bias_add(i8_bias bias, i8_quads v)
{
    (void)v;
    return bias;
}

LANES_INLINE v16 i8_total_k(i8_sums sums, int32_t total)
{
    (void)total;
    v16 out;
    for (int i = 0; i < 16; i++)
        out.lane[i] = (float)sums.lane[i];
    return out;
}

LANES_INLINE v16 i8_total_v(i8_sums sums, i8_bias bias)
{
    return i8_total_k(sums, bias);
}

#endif
