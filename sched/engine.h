/* engine.h: the thread that owns the steps: continuous batching over the lanes of several
 * generations.
 *
 * An engine starts without a lane (lane.h); other threads reach it through ports (engine_port.h).
 * Each cycle runs at most one step of each lane that has work, so that all lanes see the same cycle;
 * lanes that share weights and kernels run in one pass. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_H
#define FOLDKV_SCHED_ENGINE_H

#include "sched/engine_port.h"
#include "sched/engine_stats.h"
#include "sched/lane.h"

enum { ENGINE_LANES_MAX = 8 };

struct engine_options {
    uint32_t n_threads;
    uint32_t running_max;      /* sequences in the batch of a lane */
    uint32_t queue_max;        /* requests waiting for a lane */
    uint32_t queue_tokens_max; /* prompt tokens waiting for a lane */
    uint32_t prefill_chunk;    /* most prompt tokens a step takes while others decode */
    /* When a lane has reached a state; NULL: nobody is told. From the engine's threads; must not
     * block. */
    void (*on_lane_change)(void *user);
    void *user;
};

/* Starts the thread, without a lane and without a port. On failure all is undone and ret_why says
 * why. */
enum status engine_new(const struct engine_options *options, struct engine **ret_engine,
                       struct why *ret_why) MUST_USE;
/* Cancels what runs, ends the threads, frees all, lanes and ports too. Requests that a port's thread
 * still holds must be freed by it first or after. */
void engine_free(struct engine **engine);

/* Lets requests in; the lane is the engine's then. UNAVAILABLE (it stays the caller's) if there are
 * ENGINE_LANES_MAX. Any thread. */
enum status engine_add(struct engine *engine, struct lane *lane, struct why *ret_why) MUST_USE;
/* Wants it freed, waits until it is and no step can see it, then frees it and sets *lane NULL. By
 * then nobody else may use the pointer. Its counters stay in the sum. Any thread but the engine's. */
void engine_remove(struct engine *engine, struct lane **lane);

/* Changes options' numbers of the queue; what waits already goes on waiting. BAD_OPTION, and nothing
 * changed, if the queues that the start made cannot hold so many. Any thread. */
enum status engine_set_queue(struct engine *engine, uint32_t queue_max, uint32_t queue_tokens_max,
                             struct why *ret_why) MUST_USE;
/* No request is accepted any more. */
void engine_drain(struct engine *engine);
/* Accepted and not yet collected as done, over all ports; any thread. */
uint32_t engine_active(struct engine *engine);
/* Nanoseconds (CLOCK_MONOTONIC) of the last step's end or of the last idle turn; any thread. For
 * /livez. */
uint64_t engine_progress_ns(const struct engine *engine);
/* The sum over all lanes, those removed too; any thread, never waits for a step. Groups of one shape
 * are one; weights that lanes share count once. */
void engine_stats_copy(struct engine *engine, struct engine_stats *ret_stats);
/* Fills in what the system says of the K/V memory (kv_measured_bytes); any thread. */
void engine_stats_measure(struct engine *engine, struct engine_stats *stats);

#endif
