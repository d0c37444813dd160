/* latency_sketch.h: how many latencies fell where: counts in buckets whose edges are whole
 * nanoseconds.
 *
 * 128 buckets an octave from 1024 ns to 2^42 ns (73 minutes): a bucket is at most 1/128 = 0.78 % wider
 * than its lower edge, and that is the error of any quantile read from it. 16 KiB, whatever comes. A
 * value; one owner. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LATENCY_SKETCH_H
#define FOLDKV_SCHED_LATENCY_SKETCH_H

#include "config/base.h"

enum { SKETCH_BUCKETS = 32 * 128 };

struct latency_sketch {
    uint64_t n;                      /* sum of the buckets */
    uint32_t bucket[SKETCH_BUCKETS]; /* the first and the last also hold what lies beyond them */
};

void latency_sketch_add(struct latency_sketch *sketch, uint64_t ns);
/* The bucket in which ns lies. */
uint32_t latency_sketch_bucket(uint64_t ns);
/* The least ns of bucket i; for SKETCH_BUCKETS the first ns behind the last. The first bucket's is 0. */
uint64_t latency_sketch_edge(uint32_t i);
/* The least edge at or below which at least per_million millionths lie, as its bucket's upper edge: at
 * most 0.78 % over the true quantile. 0 if nothing was added. */
uint64_t latency_sketch_quantile(const struct latency_sketch *sketch, uint32_t per_million);

#endif
