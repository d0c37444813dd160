/* philox.c: Philox4x32-10 as defined by Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3" (2011).
 *
 * HOW     A round multiplies two of the four words, xors high halves with a key word and swaps; the
 *         key grows by two odd constants a round (the golden ratio and the square root of 3 less 1,
 *         as fractions of 2^32).
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/philox.h"

struct philox_block philox(struct philox_block counter, uint64_t key)
{
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint32_t *c = counter.word;
        uint64_t a = (uint64_t)c[0] * 0xd2511f53u;
        uint64_t b = (uint64_t)c[2] * 0xcd9e8d57u;
        counter = (struct philox_block){{(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                                         (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a}};
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return counter;
}

double philox_uniform(uint64_t seed, uint32_t choice, uint32_t position)
{
    struct philox_block block = philox((struct philox_block){{choice, position, 0, 0}}, seed);
    uint64_t bits = (uint64_t)block.word[1] << 32 | block.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}
