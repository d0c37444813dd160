/* scheduler.h: who is in the batch: the waiting and running requests of one cache, step by step.
 *
 * It reads no clock and makes no thread. Nothing allocates after scheduler_new. Every output is a
 * function of its request and the model alone; what is decided here changes when it comes, never
 * what it is. The steps are those of the pass that it has joined (pass.h). */
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
    uint32_t context_max;
    const uint32_t *stop_ids; /* copied */
    uint32_t n_stop_ids;
};

/* Called when a request has news: outputs, or its end (it may not be touched afterwards then). */
typedef void scheduler_news_fn(void *user, struct request *request);

/* The model and the cache are loans until scheduler_free. Any thread, until it has joined a pass. */
enum status scheduler_new(const struct model *model, struct cache *cache,
                          const struct scheduler_limits *limits, scheduler_news_fn *on_news,
                          void *user, struct scheduler **ret_scheduler) MUST_USE;
/* Ends every request as cancelled first. It has left its pass. */
void scheduler_free(struct scheduler **scheduler);
/* Behind the last waiting one. */
void scheduler_submit(struct scheduler *scheduler, struct request *request, uint64_t now_ns);
/* Ends all, waiting and running, as cancelled. */
void scheduler_cancel_all(struct scheduler *scheduler);
/* Ends all with an error, those that gave no output yet with another. */
void scheduler_fail_all(struct scheduler *scheduler, enum status error, enum status silent_error);
/* Ends those that have not begun to run with an error; preempted ones are kept, they have begun. */
void scheduler_fail_waiting(struct scheduler *scheduler, enum status error);
/* How far its own clock is behind the time that it is handed (request.h, struct request_times); only
 * grows, between steps. */
void scheduler_set_lag(struct scheduler *scheduler, uint64_t lag_ns);
uint32_t scheduler_active(const struct scheduler *scheduler);
uint32_t scheduler_running_max(const struct scheduler *scheduler);
const struct model *scheduler_model(const struct scheduler *scheduler);
void scheduler_stats(const struct scheduler *scheduler, struct engine_stats *ret_stats);

#endif
