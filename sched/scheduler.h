/* scheduler.h: who is in the batch: waiting and running requests over one decoder and one cache,
 * step by step.
 *
 * It reads no clock and makes no thread: the engine (or a test) calls it with the time. Nothing
 * allocates after scheduler_new. Every output is a function of its request and the model alone;
 * what is decided here changes when it comes, never what it is. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SCHEDULER_H
#define FOLDKV_SCHED_SCHEDULER_H

#include "cache/cache.h"
#include "sched/decoder.h"
#include "sched/engine_stats.h"
#include "sched/request.h"

struct scheduler;

struct scheduler_limits {
    uint32_t running_max;
    uint32_t prefill_chunk; /* prompt rows of a step */
    uint32_t context_max;
    bool is_paced;            /* fewer prompt rows while others decode (pace.h) */
    const uint32_t *stop_ids; /* copied */
    uint32_t n_stop_ids;
};

/* What a scheduler works with; loans until scheduler_free. */
struct scheduler_parts {
    const struct model *model;
    const struct kernels *kernels;
    struct workers *workers;
    struct decoder *decoder;
    struct cache *cache;
};

/* Called when a request has news: outputs, or its end (it may not be touched afterwards then). */
typedef void scheduler_news_fn(void *user, struct request *request);

enum status scheduler_new(const struct scheduler_parts *parts,
                          const struct scheduler_limits *limits, scheduler_news_fn *on_news,
                          void *user, struct scheduler **ret_scheduler) MUST_USE;
/* Ends every request as cancelled first. */
void scheduler_free(struct scheduler **scheduler);
/* Behind the last waiting one. */
void scheduler_submit(struct scheduler *scheduler, struct request *request, uint64_t now_ns);
/* A step's layers: ends what was cancelled, admits, computes. False if there was nothing to
 * compute. */
bool scheduler_step(struct scheduler *scheduler, uint64_t now_ns);
/* A step's outputs: after each scheduler_step that computed, with the time then. */
void scheduler_deliver(struct scheduler *scheduler, uint64_t now_ns);
/* How long the last step took, for its pace. */
void scheduler_observe(struct scheduler *scheduler, uint64_t elapsed_ns);
/* Ends all, waiting and running, as cancelled. */
void scheduler_cancel_all(struct scheduler *scheduler);
uint32_t scheduler_active(const struct scheduler *scheduler);
void scheduler_stats(const struct scheduler *scheduler, struct engine_stats *ret_stats);
/* The widest step: what a decoder's limits must allow. */
uint32_t scheduler_rows_max(const struct scheduler_limits *limits);

enum { SCHEDULER_LOGIT_ROWS = 64 }; /* rows of logits at a time; a decoder's logit_rows_max */

#endif
