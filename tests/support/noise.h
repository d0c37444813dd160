/* noise.h: reproducible numbers for tests: a small generator whose whole state is one word. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_NOISE_H
#define FOLDKV_TESTS_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64: every state gives a good sequence, 0 too. */
static inline uint64_t noise_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint32_t noise_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((noise_next(state) >> 32) * n >> 32);
}

/* Evenly spread over [low, high). */
static inline double noise_between(double low, double high, uint64_t *state)
{
    return low + (high - low) * (double)(noise_next(state) >> 11) * 0x1p-53;
}

static inline void noise_fill(float *values, size_t n, double low, double high, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)noise_between(low, high, state);
}

#endif
