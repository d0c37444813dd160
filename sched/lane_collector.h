/* lane_collector.h: watches one lane from inside the engine and keeps its evidence (lane_evidence.h).
 *
 * The engine calls turn after each step in which the lane had rows, before the next step: pages are then
 * still what the step has read. What a turn does of its own is bounded to 1 % of the lane's step time. Nothing
 * allocates after lane_collector_new. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LANE_COLLECTOR_H
#define FOLDKV_SCHED_LANE_COLLECTOR_H

#include "sched/decoder_watch.h"
#include "sched/lane_evidence.h"

struct cache;
struct lane_collector;

/* Loans until lane_collector_free. */
struct lane_collector_parts {
    const struct model *model;
    const struct cache *cache;
    const struct kernels *kernels; /* those that the lane runs with */
};

/* On any thread, before the lane's first step. NO_MEMORY. */
enum status lane_collector_new(const struct lane_collector_parts *parts,
                               struct lane_collector **ret_collector, struct why *ret_why) MUST_USE;
void lane_collector_free(struct lane_collector **collector);

/* The kernel plan receipt's functions, "attend_chunk_f16__avx2" and so on: from now on a step with
 * another one, in an operation that the model uses, is a fallback. Without this there is no receipt, and
 * the fallback gate has no data. Before the lane's first step, or on the engine thread. */
void lane_collector_expect(struct lane_collector *collector, const char *const *functions,
                           size_t n);

/* Engine thread: the lane's rows are in this decoder's steps from now on, under this pool. */
void lane_collector_attach(struct lane_collector *collector, struct decoder *decoder,
                           uint32_t pool);
/* Engine thread: and no longer; before the decoder goes. Nothing to do if it is in none. */
void lane_collector_detach(struct lane_collector *collector);

/* Engine thread: a step with rows of this lane has ended and took step_ns. */
void lane_collector_turn(struct lane_collector *collector, uint64_t step_ns);
/* Engine thread: a cycle without rows of this lane; not once its pages are given back. */
void lane_collector_idle(struct lane_collector *collector);

/* A copy of one moment. Any thread; never waits for a step. */
void lane_collector_copy(struct lane_collector *collector, struct lane_evidence *ret_evidence);

#endif
