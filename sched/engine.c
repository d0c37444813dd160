/* engine.c: the engine's thread and its two queues.
 *
 * WHY     Steps take milliseconds; the loop thread must never wait for one, nor a step for the
 *         loop.
 * HOW     Submissions come over a bounded queue, news go back over another; cancels are a word in
 *         the request. A step, then the queues, then the counters; with nothing to do it sleeps at
 *         a doorbell. The clock is read here and handed down.
 * ALWAYS  (1) A request accepted here is handed back exactly once as done.
 *         engine_next_ready
 *         (2) No more requests are alive than the ready queue has room for, so it never fills.
 *         engine_submit
 * OWNS    All parts of engine_load.h; requests between engine_submit and their end.
 * THREAD  as said at each function in engine.h; engine_loop is the engine thread.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine.h"

#include <inttypes.h>
#include <pthread.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "sched/doorbell.h"
#include "sched/engine_load.h"
#include "sched/pool_warmer.h"
#include "sched/request_priv.h"
#include "sched/request_queue.h"
#include "sched/stats_board.h"

/* How long an idle engine sleeps at most: what /livez reads as progress. */
#define IDLE_NS 500000000u
/* Requests that ended but that the loop has not collected yet, beyond those that wait or run. */
enum { UNCOLLECTED_MAX = 4096 };

struct engine {
    struct engine_parts parts;
    struct pool_warmer *warmer;
    struct engine_options options;
    pthread_t thread;
    bool has_thread;
    struct request_queue *submitted;
    struct request_queue *ready;
    struct doorbell bell;
    bool has_bell;
    struct stats_board *board;
    atomic_bool is_stopping;
    atomic_bool is_draining;
    _Atomic uint64_t progress_ns;
    atomic_uint alive;         /* accepted and not yet collected as done; the loop thread writes */
    uint64_t n_submitted;      /* loop thread: ever accepted */
    uint64_t tokens_submitted; /* loop thread: their prompt tokens */
    bool has_news;             /* engine thread: something was queued since the last wake */
};

/* ---- engine thread ---- */

static void on_news(void *user, struct request *request)
{
    struct engine *e = user;
    bool queued = request_queue_try_push(e->ready, request);
    ASSERT(queued);
    e->has_news = true;
}

static void take_submitted(struct engine *e, uint64_t now)
{
    for (struct request *r; (r = request_queue_pop(e->submitted)) != NULL;)
        scheduler_submit(e->parts.scheduler, r, now);
}

static void note_use(struct engine *e, bool is_busy, const struct engine_stats *stats)
{
    uint32_t in_use[CACHE_GROUPS_MAX];
    for (uint32_t g = 0; g < stats->n_groups; g++)
        in_use[g] = (uint32_t)(stats->groups[g].blocks - stats->groups[g].blocks_free);
    pool_warmer_note(e->warmer, is_busy, in_use);
}

static void publish(struct engine *e, bool is_busy)
{
    struct engine_stats stats;
    scheduler_stats(e->parts.scheduler, &stats);
    note_use(e, is_busy, &stats);
    stats.blocks_touched = pool_warmer_blocks(e->warmer);
    stats_board_publish(e->board, &stats);
    atomic_store(&e->progress_ns, clock_now_ns());
    if (e->has_news)
        e->options.on_wake(e->options.user);
    e->has_news = false;
}

static void *engine_loop(void *arg)
{
    struct engine *e = arg;
    while (!atomic_load(&e->is_stopping)) {
        uint64_t start = clock_now_ns();
        take_submitted(e, start);
        bool worked = pass_step(e->parts.pass, start);
        if (worked) {
            pass_deliver(e->parts.pass, clock_now_ns());
            pass_observe(e->parts.pass, clock_now_ns() - start);
        }
        publish(e, worked);
        if (!worked)
            doorbell_wait(&e->bell, IDLE_NS);
    }
    take_submitted(e, clock_now_ns());
    scheduler_cancel_all(e->parts.scheduler);
    publish(e, false);
    return NULL;
}

/* ---- life ---- */

static enum status start(struct engine *e, struct why *ret_why)
{
    uint32_t waiting_most = e->options.queue_max + e->options.running_max;
    enum status s = request_queue_new(waiting_most, &e->submitted);
    if (s == OK)
        s = request_queue_new(waiting_most + UNCOLLECTED_MAX, &e->ready);
    if (s == OK)
        s = doorbell_init(&e->bell);
    e->has_bell = s == OK;
    e->board = s == OK ? mem_zalloc(1, sizeof *e->board) : NULL;
    if (e->board == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the engine's queues");
    uint32_t there[CACHE_GROUPS_MAX];
    for (uint32_t g = 0; g < cache_groups(e->parts.cache); g++)
        there[g] = engine_parts_ready_blocks(&e->parts, g);
    s = pool_warmer_new(e->parts.cache, there, &e->warmer);
    if (s != OK)
        return why_set(ret_why, s, "", "the thread that warms the page pool could not be made");
    publish(e, false);
    if (pthread_create(&e->thread, NULL, engine_loop, e) != 0)
        return why_set(ret_why, STATUS_UNAVAILABLE, "", "the engine thread could not be made");
    e->has_thread = true;
    return OK;
}

enum status engine_new(const struct gguf *gguf, const struct engine_options *options,
                       struct engine **ret_engine, struct why *ret_why)
{
    *ret_engine = NULL;
    struct engine *e = mem_zalloc(1, sizeof *e);
    if (e == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the engine");
    e->options = *options;
    enum status s = engine_parts_init(&e->parts, gguf, options, on_news, e, ret_why);
    if (s == OK)
        s = start(e, ret_why);
    if (s != OK)
        engine_free(&e);
    *ret_engine = e;
    return s;
}

void engine_free(struct engine **engine)
{
    struct engine *e = *engine;
    if (e == NULL)
        return;
    atomic_store(&e->is_stopping, true);
    if (e->has_thread) {
        doorbell_ring(&e->bell);
        pthread_join(e->thread, NULL);
    }
    if (e->has_bell)
        doorbell_release(&e->bell);
    pool_warmer_free(&e->warmer);
    engine_parts_release(&e->parts);
    request_queue_free(&e->submitted);
    request_queue_free(&e->ready);
    mem_free(e->board);
    mem_free(e);
    *engine = NULL;
}

/* ---- what the loop asks ---- */

const struct model *engine_model(const struct engine *engine)
{
    return engine->parts.model;
}

uint32_t engine_context(const struct engine *engine)
{
    return engine->parts.context_max;
}

uint64_t engine_pool_tokens(const struct engine *engine)
{
    uint32_t most = 0; /* groups without a window have equally many, the others fewer */
    for (uint32_t g = 0; g < cache_groups(engine->parts.cache); g++) {
        uint32_t blocks = cache_blocks_total(engine->parts.cache, g);
        most = blocks > most ? blocks : most;
    }
    return (uint64_t)most * CACHE_PAGE_TOKENS;
}

static enum status check_fits(const struct engine *e, const struct request *r, struct why *ret_why)
{
    uint32_t context = e->parts.context_max;
    if (r->n_ids > context || (r->n_ids == context && r->max_tokens > 0))
        return why_set(ret_why, STATUS_CONTEXT_LENGTH, "prompt",
                       "the prompt has %u tokens and the context holds %u: a completion needs at "
                       "least one more place",
                       r->n_ids, context);
    uint64_t whole = (uint64_t)r->n_ids + r->max_tokens;
    uint32_t tokens = whole < context ? (uint32_t)whole : context;
    uint32_t most = cache_tokens_max(e->parts.cache);
    if (tokens > most)
        return why_set(ret_why, STATUS_CACHE_TOO_SMALL, "max_tokens",
                       "prompt and max_tokens need %u tokens of K/V and the whole page pool holds "
                       "%u: ask for less or raise "
                       "cache.bytes",
                       tokens, most);
    return OK;
}

/* What waits is what the engine says waits and what it has not taken yet; slots free in the batch
 * count as room. */
static enum status check_queue(const struct engine *e, const struct request *r, struct why *ret_why)
{
    const struct engine_options *o = &e->options;
    struct engine_stats stats;
    engine_stats_copy(e, &stats);
    uint64_t waiting = stats.requests_waiting + e->n_submitted - stats.requests_admitted;
    uint64_t room = o->queue_max + o->running_max - stats.requests_running;
    if (waiting >= room ||
        atomic_load(&e->alive) >= o->queue_max + o->running_max + UNCOLLECTED_MAX)
        return why_set(ret_why, STATUS_QUEUE_FULL, "",
                       "%u requests are waiting already (engine.queue_max)", o->queue_max);
    uint64_t tokens = stats.waiting_tokens + e->tokens_submitted - stats.prompt_tokens;
    if (waiting > 0 && tokens + r->n_ids > o->queue_tokens_max)
        return why_set(
            ret_why, STATUS_QUEUE_FULL, "prompt",
            "%" PRIu64
            " prompt tokens are waiting already and this prompt has %u: the queue holds %u "
            "(engine.queue_tokens_max)",
            tokens, r->n_ids, o->queue_tokens_max);
    return OK;
}

enum status engine_submit(struct engine *e, struct request **request, struct why *ret_why)
{
    struct request *r = *request;
    if (atomic_load(&e->is_draining))
        return why_set(ret_why, STATUS_DRAINING, "", "the server is shutting down");
    TRY(check_fits(e, r, ret_why));
    TRY(check_queue(e, r, ret_why));
    uint32_t n_ids = r->n_ids; /* from the push on the request is the engine's */
    if (!request_queue_try_push(e->submitted, r))
        return why_set(ret_why, STATUS_QUEUE_FULL, "", "%u requests are waiting already",
                       e->options.queue_max);
    atomic_fetch_add(&e->alive, 1);
    e->n_submitted++;
    e->tokens_submitted += n_ids;
    *request = NULL;
    doorbell_ring(&e->bell);
    return OK;
}

void engine_cancel(struct engine *e, struct request *request, bool is_stop)
{
    request_ask(request, is_stop ? REQUEST_STOP : REQUEST_CANCEL);
    doorbell_ring(&e->bell);
}

struct request *engine_next_ready(struct engine *e)
{
    struct request *r = request_queue_pop(e->ready);
    if (r == NULL)
        return NULL;
    request_take_news(r);
    if (request_is_done(r))
        atomic_fetch_sub(&e->alive, 1);
    return r;
}

void engine_drain(struct engine *e)
{
    atomic_store(&e->is_draining, true);
}

uint32_t engine_active(const struct engine *e)
{
    return atomic_load(&e->alive);
}

uint64_t engine_progress_ns(const struct engine *e)
{
    return atomic_load(&e->progress_ns);
}

void engine_stats_measure(const struct engine *e, struct engine_stats *stats)
{
    stats->kv_measured_bytes = 0;
    for (uint32_t g = 0; g < stats->n_groups; g++) {
        stats->groups[g].kv_measured_bytes = cache_measured_bytes(e->parts.cache, g);
        stats->kv_measured_bytes += stats->groups[g].kv_measured_bytes;
    }
}

void engine_stats_copy(const struct engine *e, struct engine_stats *ret_stats)
{
    stats_board_read(e->board, ret_stats);
}
