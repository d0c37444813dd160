/* latency_sketch.c: buckets by exponent and the next seven bits.
 *
 * WHY     A gate must compare tails of millions of requests in bounded memory, and a receipt must be
 *         able to carry what it compared.
 * HOW     bucket = 128 * (exponent - 10) + the seven bits under the leading one: integers alone, so
 *         that an edge is the same number on every machine.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/latency_sketch.h"

enum { EXPONENT_LEAST = 10, STEP_BITS = 7, STEPS = 1 << STEP_BITS };

uint32_t latency_sketch_bucket(uint64_t ns)
{
    if (ns < (uint64_t)1 << EXPONENT_LEAST)
        return 0;
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(ns);
    uint64_t steps = (ns >> (exponent - STEP_BITS)) & (STEPS - 1);
    uint64_t bucket = (uint64_t)STEPS * (exponent - EXPONENT_LEAST) + steps;
    return bucket < SKETCH_BUCKETS ? (uint32_t)bucket : SKETCH_BUCKETS - 1;
}

uint64_t latency_sketch_edge(uint32_t i)
{
    ASSERT(i <= SKETCH_BUCKETS);
    if (i == 0)
        return 0;
    uint32_t exponent = EXPONENT_LEAST + i / STEPS;
    return (uint64_t)(STEPS + i % STEPS) << (exponent - STEP_BITS);
}

void latency_sketch_add(struct latency_sketch *sketch, uint64_t ns)
{
    uint32_t *count = &sketch->bucket[latency_sketch_bucket(ns)];
    if (*count == UINT32_MAX)
        return; /* four thousand million in one bucket: one more says nothing */
    (*count)++;
    sketch->n++;
}

uint64_t latency_sketch_quantile(const struct latency_sketch *sketch, uint32_t per_million)
{
    uint64_t below = 0;
    uint64_t needed = (uint64_t)(((unsigned __int128)sketch->n * per_million + 999999) / 1000000);
    for (uint32_t i = 0; i < SKETCH_BUCKETS; i++) {
        below += sketch->bucket[i];
        if (below > 0 && below >= needed)
            return latency_sketch_edge(i + 1);
    }
    return 0;
}
