/* philox.h: the counter-based generator Philox4x32-10: a random number is a function of where it is
 * used, so a request that is computed again draws the same numbers. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PHILOX_H
#define FOLDKV_SCHED_PHILOX_H

#include <stdint.h>

struct philox_block {
    uint32_t word[4];
};

/* Ten rounds over counter with the 64-bit key, whose low half is the first key word. */
struct philox_block philox(struct philox_block counter, uint64_t key);
/* Evenly spread over [0, 1) in steps of 2^-53: key = seed, counter = (choice, position, 0, 0), the
 * first two words of the block. */
double philox_uniform(uint64_t seed, uint32_t choice, uint32_t position);

#endif
