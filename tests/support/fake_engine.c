/* fake_engine.c: an engine whose tokens come when the test wants them, on any lane alike.
 *
 * WHY     How the server treats slow, failing and endless requests must not depend on a model's speed.
 * HOW     One thread turns every millisecond over a fixed array of requests, under one lock; each gets what its seed says. Queue
 *         limits, cancelling, draining and counters behave as sched/engine.h says.
 * THREAD  as engine.h
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/pool_split.h"
#include "config/gguf_hash.h"
#include "config/graph.h"
#include "config/mem.h"
#include "sched/decoder.h"
#include "sched/model.h"
#include "sched/request_priv.h"
#include "sched/request_queue.h"
#include "tests/support/fake_engine.h"

enum { REQUESTS_MAX = 4096, TOKEN_FIRST = 100, TOKEN_COUNT = 20000, SLOW_TURNS = 20 };

struct lane {
    struct engine *engine;
    char id[SHA256_HEX];
    struct graph *graph;
    struct manifest *manifest;
    struct weights weights; /* their hash alone */
    struct model model;
    struct cache *cache; /* a few pages that nobody writes to, for receipts */
    struct kernels kernels;
    uint8_t namespace_id[SHA256_BYTES];
    enum lane_life life;
};

struct engine_port {
    struct engine *engine;
    void (*on_wake)(void *user);
    void *user;
    struct request_queue *ready;
    bool has_news;
    _Atomic uint32_t alive;
};

struct engine {
    struct engine_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    struct engine_port *ports[ENGINE_PORTS_MAX];
    uint32_t n_ports;
    struct lane *lanes[ENGINE_LANES_MAX];
    struct request *requests[REQUESTS_MAX]; /* the first n_running of them run */
    uint32_t n_requests, n_running;
    struct engine_stats stats;
    uint64_t turn;
    bool is_stopping, is_draining;
    _Atomic uint64_t progress_ns;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the thread, under the lock ---- */

static void tell(struct request *r, bool must_queue)
{
    if (!must_queue)
        return;
    struct engine_port *port = r->port;
    bool queued = request_queue_try_push(port->ready, r);
    ASSERT(queued);
    port->has_news = true;
}

static void push_token(struct engine *e, struct request *r)
{
    struct token_output output = {.id = TOKEN_FIRST + r->n_generated % TOKEN_COUNT,
                                  .has_logprob = r->logprobs >= 0,
                                  .logprob = -1};
    if (r->times.first_output_ns == 0)
        r->times.first_output_ns = now_ns();
    r->times.last_output_ns = now_ns();
    request_push(r, &output);
    e->stats.generated_tokens++;
}

/* The prompt's scores, which come before any token. */
static void push_prompt(struct request *r)
{
    for (uint32_t i = 0; r->prompt_logprobs && i < r->n_ids; i++) {
        struct token_output output = {
            .id = r->ids[i], .is_prompt = true, .has_logprob = i > 0, .logprob = -2};
        request_push(r, &output);
    }
}

/* How many tokens it gets this turn. */
static uint32_t tokens_due(const struct engine *e, const struct request *r)
{
    uint32_t left = r->max_tokens - r->n_generated;
    switch (r->sampling.seed) {
    case FAKE_FAST:
        return left;
    case FAKE_SLOW:
        return e->turn % SLOW_TURNS == 0 && left > 0;
    case FAKE_NEVER:
        return 0;
    default:
        return left > 0;
    }
}

static enum finish_reason turn_request(struct engine *e, struct request *r)
{
    if (request_asked(r) != REQUEST_KEEP)
        return request_asked(r) == REQUEST_STOP ? FINISH_STOP : FINISH_CANCELLED;
    if (r->sampling.seed == FAKE_FAIL_FIRST ||
        (r->sampling.seed == FAKE_FAIL_LATER && r->n_generated == 3))
        return FINISH_ERROR;
    uint32_t due = tokens_due(e, r);
    for (uint32_t i = 0; i < due; i++)
        push_token(e, r);
    if (r->n_generated == r->max_tokens && r->sampling.seed != FAKE_NEVER)
        return FINISH_LENGTH;
    if (due > 0)
        tell(r, request_announce(r));
    return FINISH_NONE;
}

static void end_request(struct engine *e, uint32_t i, enum finish_reason reason)
{
    struct request *r = e->requests[i];
    e->stats.requests_finished += reason == FINISH_STOP || reason == FINISH_LENGTH;
    e->stats.requests_aborted += reason == FINISH_CANCELLED;
    e->stats.requests_failed += reason == FINISH_ERROR;
    memmove(&e->requests[i], &e->requests[i + 1], (e->n_requests - i - 1) * sizeof e->requests[0]);
    e->n_requests--;
    e->n_running -= i < e->n_running;
    r->times.done_ns = now_ns();
    tell(r, request_finish(r, reason, reason == FINISH_ERROR ? STATUS_NUMERIC : OK));
}

static void fill_batch(struct engine *e)
{
    while (e->n_running < e->n_requests && e->n_running < e->options.running_max) {
        struct request *r = e->requests[e->n_running++];
        request_set_state(r, REQUEST_RUNNING);
        r->times.started_ns = now_ns();
        push_prompt(r);
    }
}

static void turn(struct engine *e)
{
    e->turn++;
    fill_batch(e);
    for (uint32_t i = e->n_requests; i-- > 0;) {
        bool is_running = i < e->n_running;
        enum finish_reason reason = is_running ? turn_request(e, e->requests[i])
                                    : request_asked(e->requests[i]) != REQUEST_KEEP
                                        ? FINISH_CANCELLED
                                        : FINISH_NONE;
        if (reason != FINISH_NONE)
            end_request(e, i, reason);
    }
    e->stats.requests_running = e->stats.blocks_used = e->n_running;
    e->stats.groups[0].blocks_used = e->n_running;
    e->stats.requests_waiting = e->n_requests - e->n_running;
    atomic_store(&e->progress_ns, now_ns());
}

static void wake_ports(struct engine *e)
{
    for (uint32_t i = 0; i < e->n_ports; i++) {
        struct engine_port *port = e->ports[i];
        if (port->has_news)
            port->on_wake(port->user);
        port->has_news = false;
    }
}

static void *run(void *arg)
{
    struct engine *e = arg;
    bool is_over = false;
    while (!is_over) {
        pthread_mutex_lock(&e->lock);
        turn(e);
        wake_ports(e);
        is_over = e->is_stopping;
        pthread_mutex_unlock(&e->lock);
        usleep(1000);
    }
    return NULL;
}

/* ---- engine.h ---- */

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    mem_fail_nth((uint64_t)info->si_value.sival_int);
}

enum status engine_new(const struct engine_options *options, struct engine **ret_engine,
                       struct why *ret_why)
{
    (void)ret_why;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct engine *e = mem_zalloc(1, sizeof *e);
    *ret_engine = e;
    if (e == NULL)
        return STATUS_NO_MEMORY;
    e->options = *options;
    e->stats.blocks = e->stats.blocks_free = 1000;
    e->stats.n_groups = 1;
    e->stats.groups[0] = (struct group_stats){.heads = 1, .blocks = 1000};
    e->progress_ns = now_ns();
    pthread_mutex_init(&e->lock, NULL);
    sigaction(SIGUSR1, &action, NULL);
    return pthread_create(&e->thread, NULL, run, e) == 0 ? OK : STATUS_UNAVAILABLE;
}

void engine_free(struct engine **engine)
{
    struct engine *e = *engine;
    *engine = NULL;
    if (e == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    e->is_stopping = true;
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        lane_free(&e->lanes[i]);
    for (uint32_t i = 0; i < e->n_ports; i++) {
        request_queue_free(&e->ports[i]->ready);
        mem_free(e->ports[i]);
    }
    mem_free(e);
}

enum status engine_add(struct engine *e, struct lane *lane, struct why *ret_why)
{
    enum status s = STATUS_UNAVAILABLE;
    (void)ret_why;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX && s != OK; i++) {
        if (e->lanes[i] != NULL)
            continue;
        e->lanes[i] = lane;
        s = OK;
    }
    pthread_mutex_unlock(&e->lock);
    return s;
}

void engine_remove(struct engine *e, struct lane **lane)
{
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        if (e->lanes[i] == *lane)
            e->lanes[i] = NULL;
    pthread_mutex_unlock(&e->lock);
    lane_free(lane);
}

void engine_stats_measure(struct engine *e, struct engine_stats *stats)
{
    stats->kv_measured_bytes = stats->groups[0].kv_measured_bytes = e->stats.kv_resident_bytes;
}

enum status engine_set_queue(struct engine *e, uint32_t queue_max, uint32_t queue_tokens_max,
                             struct why *ret_why)
{
    (void)ret_why;
    pthread_mutex_lock(&e->lock);
    e->options.queue_max = queue_max;
    e->options.queue_tokens_max = queue_tokens_max;
    pthread_mutex_unlock(&e->lock);
    return OK;
}

void engine_drain(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->is_draining = true;
    pthread_mutex_unlock(&e->lock);
}

uint32_t engine_active(struct engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_ports; i++)
        n += engine_port_active(e->ports[i]);
    return n;
}

uint64_t engine_progress_ns(const struct engine *e)
{
    return atomic_load(&e->progress_ns);
}

void engine_stats_copy(struct engine *e, struct engine_stats *ret_stats)
{
    pthread_mutex_lock(&e->lock);
    *ret_stats = e->stats;
    pthread_mutex_unlock(&e->lock);
    ret_stats->steps = mem_calls();
}

/* ---- engine_port.h ---- */

enum status engine_port_new(struct engine *e, void (*on_wake)(void *user), void *user,
                            struct engine_port **ret_port, struct why *ret_why)
{
    (void)ret_why;
    *ret_port = NULL;
    if (e->n_ports == ENGINE_PORTS_MAX)
        return STATUS_UNAVAILABLE;
    struct engine_port *port = mem_zalloc(1, sizeof *port);
    if (port == NULL || request_queue_new(2 * REQUESTS_MAX, &port->ready) != OK) {
        mem_free(port);
        return STATUS_NO_MEMORY;
    }
    port->engine = e;
    port->on_wake = on_wake;
    port->user = user;
    pthread_mutex_lock(&e->lock);
    e->ports[e->n_ports++] = port;
    pthread_mutex_unlock(&e->lock);
    *ret_port = port;
    return OK;
}

void engine_port_free(struct engine_port **port)
{
    *port = NULL; /* it goes with the engine */
}

static enum status submit(struct engine *e, struct request *r, struct why *ret_why)
{
    if (e->is_draining)
        return why_set(ret_why, STATUS_DRAINING, "", "the server is shutting down");
    if (e->n_requests >= e->options.queue_max + e->options.running_max ||
        e->n_requests >= REQUESTS_MAX)
        return why_set(ret_why, STATUS_QUEUE_FULL, "", "%u requests are waiting already",
                       e->options.queue_max);
    request_set_state(r, REQUEST_WAITING);
    e->requests[e->n_requests++] = r;
    e->stats.requests_admitted++;
    e->stats.requests_waiting = e->n_requests - e->n_running;
    e->stats.prompt_tokens += r->n_ids;
    return OK;
}

enum status engine_submit(struct engine_port *port, struct lane *lane, struct request **request,
                          struct why *ret_why)
{
    struct engine *e = port->engine;
    (*request)->port = port;
    (*request)->lane = lane;
    pthread_mutex_lock(&e->lock);
    enum status s = submit(e, *request, ret_why);
    pthread_mutex_unlock(&e->lock);
    if (s != OK)
        return s;
    atomic_fetch_add(&port->alive, 1);
    *request = NULL;
    return OK;
}

void engine_cancel(struct engine_port *port, struct request *request, bool is_stop)
{
    (void)port;
    request_ask(request, is_stop ? REQUEST_STOP : REQUEST_CANCEL);
}

struct request *engine_next_ready(struct engine_port *port)
{
    struct request *r = request_queue_pop(port->ready);
    if (r == NULL)
        return NULL;
    request_take_news(r);
    if (request_is_done(r))
        atomic_fetch_sub(&port->alive, 1);
    return r;
}

uint32_t engine_port_active(const struct engine_port *port)
{
    return atomic_load(&port->alive);
}

/* ---- lane.h ---- */

static enum status fake_cache(struct lane *lane, const struct lane_terms *terms,
                              struct why *ret_why)
{
    const struct graph *g = lane->graph;
    struct cache_shape shape = {
        .n_groups = g->n_groups, .context_max = g->context, .append_max = 64, .sequences_max = 1};
    for (uint32_t i = 0; i < g->n_groups; i++)
        shape.groups[i] = (struct cache_group_shape){
            .n_layers = g->groups[i].n_layers,
            .n_heads = g->groups[i].n_heads,
            .page_bytes = decoder_page_bytes(g, i, lane->model.kv_type),
            .window = g->groups[i].window};
    shape.pool_bytes = 4 * pool_split_sequence_bytes(&shape, 64);
    memcpy(shape.identity, lane->manifest->identity, SHA256_BYTES);
    memcpy(shape.namespace_id, terms->namespace_id, SHA256_BYTES);
    return cache_new(&shape, &lane->cache, ret_why);
}

static enum status fake_load(struct lane *lane, const struct gguf *gguf,
                             const struct lane_terms *terms, struct why *ret_why)
{
    kernels_pick(isa_available(), &lane->kernels);
    TRY(graph_from_gguf(gguf, &lane->graph, ret_why));
    TRY(model_kv_type(terms->cache_type, &lane->model.kv_type, ret_why));
    TRY(gguf_hash_file(gguf, lane->weights.checkpoint_sha256));
    TRY(model_manifest(lane->graph, lane->weights.checkpoint_sha256, lane->model.kv_type,
                       &lane->kernels, &lane->manifest, ret_why));
    lane->weights.holders = 1;
    lane->model.graph = lane->graph;
    lane->model.manifest = lane->manifest;
    lane->model.weights = &lane->weights;
    return fake_cache(lane, terms, ret_why);
}

enum status lane_check_room(const struct gguf *gguf, const struct lane_terms *terms,
                            struct engine *engine, struct why *ret_why)
{
    (void)gguf, (void)terms, (void)engine, (void)ret_why;
    return OK;
}

enum status lane_load(const struct gguf *gguf, const struct lane_terms *terms,
                      struct engine *engine, struct lane **ret_lane, struct why *ret_why)
{
    struct lane *lane = mem_zalloc(1, sizeof *lane);
    *ret_lane = NULL;
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    lane->engine = engine;
    memcpy(lane->id, terms->id, sizeof lane->id);
    memcpy(lane->namespace_id, terms->namespace_id, sizeof lane->namespace_id);
    enum status s = fake_load(lane, gguf, terms, ret_why);
    if (s != OK) {
        lane_free(&lane);
        return s;
    }
    *ret_lane = lane;
    return OK;
}

void lane_free(struct lane **lane)
{
    struct lane *l = *lane;
    *lane = NULL;
    if (l == NULL)
        return;
    cache_free(&l->cache);
    manifest_free(&l->manifest);
    graph_free(&l->graph);
    mem_free(l);
}

const char *lane_id(const struct lane *lane)
{
    return lane->id;
}

const struct model *lane_model(const struct lane *lane)
{
    return &lane->model;
}

const struct kernels *lane_kernels(const struct lane *lane)
{
    return &lane->kernels;
}

const uint8_t *lane_namespace(const struct lane *lane)
{
    return lane->namespace_id;
}

uint32_t lane_context(const struct lane *lane)
{
    return lane->graph->context;
}

uint64_t lane_pool_tokens(const struct lane *lane)
{
    return 2 * (uint64_t)lane->graph->context;
}

const struct cache_memory *lane_pool(const struct lane *lane, uint32_t *ret_n_groups)
{
    (void)lane;
    *ret_n_groups = 0;
    return NULL;
}

const struct cache *lane_cache(const struct lane *lane)
{
    return lane->cache;
}

uint64_t lane_workspace_bytes(const struct lane *lane)
{
    (void)lane;
    return 4096;
}

uint32_t lane_blocks(const struct lane *lane)
{
    return cache_blocks_total(lane->cache, 0);
}

void lane_set_quota(struct lane *lane, uint32_t blocks)
{
    (void)lane, (void)blocks;
}

void lane_lift_quota(struct lane *lane)
{
    (void)lane;
}

void lane_purge(struct lane *lane)
{
    (void)lane;
}

struct lane_collector *lane_evidence_collector(const struct lane *lane)
{
    (void)lane;
    return NULL;
}

void lane_want(struct lane *lane, enum lane_life life)
{
    lane->life = life > lane->life ? life : lane->life;
}

enum lane_life lane_wanted(const struct lane *lane)
{
    return lane->life;
}

enum lane_life lane_reached(const struct lane *lane)
{
    return lane->life;
}

uint32_t lane_in_flight(const struct lane *lane)
{
    (void)lane;
    return 0;
}

void lane_stats_copy(const struct lane *lane, struct engine_stats *ret_stats)
{
    engine_stats_copy(lane->engine, ret_stats);
}

void lane_stats_measure(struct lane *lane, struct engine_stats *stats)
{
    engine_stats_measure(lane->engine, stats);
}
