/* engine.h: the thread that owns the steps: continuous batching over one model and one page pool.
 *
 * Loop and engine exchange requests over two bounded queues: engine_submit/engine_cancel one way,
 * engine_next_ready (after the wake callback) the other. The engine never waits for the loop. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_H
#define FOLDKV_SCHED_ENGINE_H

#include "config/gguf.h"
#include "sched/engine_stats.h"
#include "sched/request.h"

struct engine;
struct model;

struct engine_options {
    uint32_t n_threads;
    uint32_t running_max;      /* sequences in the batch */
    uint32_t queue_max;        /* requests waiting */
    uint32_t queue_tokens_max; /* prompt tokens waiting */
    uint32_t prefill_chunk;    /* most prompt tokens a step takes while others decode */
    uint64_t
        cache_bytes; /* page pool; 0: a quarter of the available memory, at most 2 GiB, at least one context */
    const char *cache_type;   /* "f16", "f32" or "int8" */
    const char *isa;          /* NULL: the best */
    const uint32_t *stop_ids; /* end-of-generation tokens, copied */
    uint32_t n_stop_ids;
    void (*on_wake)(
        void *
            user); /* from the engine thread, when requests have news; must not block (uv_async_send) */
    void *user;
};

/* Loads an opened file (which may be closed afterwards) and starts the thread. On failure all is
 * undone and ret_why says why. */
enum status engine_new(const struct gguf *gguf, const struct engine_options *options,
                       struct engine **ret_engine, struct why *ret_why) MUST_USE;
/* Cancels what runs, ends the thread, frees all. Requests that the loop still holds must be freed
 * by it first or after. */
void engine_free(struct engine **engine);

const struct model *engine_model(const struct engine *engine);
/* Tokens a sequence may hold. */
uint32_t engine_context(const struct engine *engine);
/* Tokens that the page pool can hold, over all sequences: those of the groups without a window. */
uint64_t engine_pool_tokens(const struct engine *engine);

/* Takes the request (NULL afterwards) if OK. QUEUE_FULL, CONTEXT_LENGTH, CACHE_TOO_SMALL or
 * DRAINING leave it with the caller. */
enum status engine_submit(struct engine *engine, struct request **request,
                          struct why *ret_why) MUST_USE;
/* Asks the engine to stop it; it ends up done as FINISH_CANCELLED within a step, unless it ended by
 * itself first. FINISH_STOP if is_stop (a stop string matched). */
void engine_cancel(struct engine *engine, struct request *request, bool is_stop);
/* The next request with news (outputs or done), each at most once a wake-up; NULL if there is none.
 * Loop thread. */
struct request *engine_next_ready(struct engine *engine);
/* No request is accepted any more. */
void engine_drain(struct engine *engine);
/* Accepted and not yet collected as done; any thread. */
uint32_t engine_active(const struct engine *engine);
/* Nanoseconds (CLOCK_MONOTONIC) of the last step's end or of the last idle turn; any thread. For
 * /livez. */
uint64_t engine_progress_ns(const struct engine *engine);
/* A consistent copy of the counters; any thread, never waits for a step. */
void engine_stats_copy(const struct engine *engine, struct engine_stats *ret_stats);
/* Fills in what the system says of the K/V memory (kv_measured_bytes), which takes it a few
 * milliseconds for a pool of gigabytes; any thread. */
void engine_stats_measure(const struct engine *engine, struct engine_stats *stats);

#endif
