/* lane_load.c: from an opened file to a lane that the engine can take.
 *
 * WHY     A candidate is loaded while streams run: packing must not stall them, a file that is loaded
 *         already must not be held twice, and what does not fit must be refused before it is tried.
 * HOW     A thread of its own does it, so that the workers it makes inherit its low priority. While
 *         the engine has lanes the file is looked for among them by its hash, which is taken first if
 *         it is not known; without any the hash is taken beside the packing, on all cores. In a kept
 *         lane's stead nothing but the pool is made; where somebody waits to be served by it that is
 *         done at once, and its memory comes later.
 * THREAD  the caller waits; the loader works (what is urgent the caller itself)
 */
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/gguf_hash.h"
#include "config/mem.h"
#include "sched/available_memory.h"
#include "sched/engine_priv.h"
#include "sched/kernel_use.h"
#include "sched/request_priv.h"

enum { NICE_MOST = 19, THREADS_BESIDE = 2 };

struct loading {
    struct engine *engine;
    const struct gguf *gguf;
    const struct lane_terms *terms;
    struct lane *lane;
    struct workers *workers;
    struct weights *weights; /* shared, held for the loading; NULL: none */
    bool is_beside;          /* others run */
    enum status status;
    struct why *ret_why;
};

/* The engine thread's: news go back by the port that the request came from. */
static void on_news(void *user, struct request *request)
{
    (void)user;
    struct engine_port *port = request->port;
    bool queued = request_queue_try_push(port->ready, request);
    ASSERT(queued);
    port->has_news = true;
}

/* ---- what it may share, and whether it fits ---- */

static enum status find_weights(struct loading *l)
{
    static const uint8_t unknown[SHA256_BYTES];
    uint8_t sha256[SHA256_BYTES];
    if (!l->is_beside)
        return OK;
    memcpy(sha256, l->terms->checkpoint, sizeof sha256);
    if (memcmp(sha256, unknown, sizeof sha256) == 0 && gguf_hash_file(l->gguf, sha256) != OK)
        return why_set(l->ret_why, STATUS_NO_MEMORY, "", "no memory to hash the file");
    l->weights = engine_find_weights(l->engine, sha256);
    return OK;
}

static enum status own_weights_bytes(const struct loading *l, size_t *ret_bytes)
{
    struct graph *graph = NULL;
    *ret_bytes = 0;
    if (l->weights != NULL || l->terms->kept != NULL)
        return OK;
    enum status s = graph_from_gguf(l->gguf, &graph, l->ret_why);
    if (s == OK)
        s = weights_bytes_of(l->gguf, graph, ret_bytes, l->ret_why);
    graph_free(&graph);
    return s == STATUS_NO_MEMORY ? why_set(l->ret_why, s, "", "no memory to look at the file") : s;
}

/* Beside others nothing is tried that cannot end well: the system would take memory from them. */
static enum status check_room(const struct loading *l)
{
    size_t weights;
    if (!l->is_beside)
        return OK;
    TRY(own_weights_bytes(l, &weights));
    uint64_t pool = l->terms->cache_bytes, control = l->terms->control_bytes;
    uint64_t available = available_memory_bytes();
    const double mib = 1048576.0;
    if (weights <= available && pool <= available - weights &&
        control <= available - weights - pool)
        return OK;
    (void)why_set(l->ret_why, STATUS_NO_MEMORY, "",
                  "beside what is loaded the weights take %.1f MiB, the page pool %.1f MiB "
                  "and that of a control arm %.1f MiB: %.1f MiB are available",
                  (double)weights / mib, (double)pool / mib, (double)control / mib,
                  (double)available / mib);
    why_add_number(l->ret_why, "weights_bytes", weights);
    why_add_number(l->ret_why, "cache_bytes", pool);
    why_add_number(l->ret_why, "control_bytes", control);
    why_add_number(l->ret_why, "available_bytes", available);
    return STATUS_NO_MEMORY;
}

enum status lane_check_room(const struct gguf *gguf, const struct lane_terms *terms,
                            struct engine *engine, struct why *ret_why)
{
    struct loading l = {.gguf = gguf,
                        .terms = terms,
                        .is_beside = engine_lane_count(engine) > 0,
                        .ret_why = ret_why};
    if (l.is_beside)
        l.weights = engine_find_weights(engine, terms->checkpoint);
    enum status s = check_room(&l);
    weights_let_go(&l.weights);
    return s;
}

/* ---- building ---- */

static void name_lane(struct lane *lane, const struct lane_terms *terms)
{
    if (terms->id[0] != '\0')
        memcpy(lane->id, terms->id, sizeof lane->id);
    else
        sha256_hex(lane->parts.model->manifest->identity, lane->id);
    lane->id[sizeof lane->id - 1] = '\0';
}

static void settle(struct lane *lane, const struct lane_terms *terms)
{
    const struct cache *cache = lane->parts.cache;
    name_lane(lane, terms);
    uint32_t most = 0; /* groups without a window have equally many, the others fewer */
    lane->n_groups = cache_groups(cache);
    for (uint32_t g = 0; g < lane->n_groups; g++) {
        lane->pool[g] = cache_memory(cache, g);
        uint32_t blocks = cache_blocks_total(cache, g);
        most = blocks > most ? blocks : most;
    }
    lane->pool_tokens = (uint64_t)most * CACHE_PAGE_TOKENS;
    lane->pool_blocks = most;
    atomic_store(&lane->blocks, most);
    atomic_store(&lane->tokens_max, cache_tokens_max(cache));
}

/* The lane's own kernels are what its plan receipt is made from; its pass's are those that run. */
static enum status start_watching(struct lane *lane, struct why *ret_why)
{
    struct lane_collector_parts watched = {
        .model = lane->parts.model, .cache = lane->parts.cache, .kernels = &lane->pass->kernels};
    const char *names[KERNEL_USE_MAX];
    TRY(lane_collector_new(&watched, &lane->collector, ret_why));
    lane_collector_expect(lane->collector, names,
                          kernel_use_names(lane->parts.model, &lane->parts.kernels, names));
    return OK;
}

static enum status start_warmer(struct lane *lane, bool is_touched, struct why *ret_why)
{
    uint32_t there[CACHE_GROUPS_MAX];
    for (uint32_t g = 0; g < cache_groups(lane->parts.cache); g++)
        there[g] = is_touched ? lane_parts_ready_blocks(&lane->parts, g) : 0;
    enum status s = pool_warmer_new(lane->parts.cache, there, &lane->warmer);
    return s == OK
               ? OK
               : why_set(ret_why, s, "", "the thread that warms the page pool could not be made");
}

static bool is_urgent(const struct loading *l)
{
    return l->terms->kept != NULL && l->terms->is_urgent;
}

/* Where the model comes from. */
static enum status prepare(struct loading *l)
{
    struct lane_parts *parts = &l->lane->parts;
    const struct lane *kept = l->terms->kept;
    uint32_t n = l->lane->engine->options.n_threads;
    if (kept != NULL) {
        parts->kernels = kept->parts.kernels;
        parts->model = model_hold(kept->parts.model);
    }
    if (is_urgent(l))
        return OK;
    TRY(workers_new(l->is_beside && n > THREADS_BESIDE ? THREADS_BESIDE : n, &l->workers,
                    l->ret_why));
    return kept != NULL ? OK : find_weights(l);
}

static enum status build(struct loading *l)
{
    struct lane *lane = l->lane;
    struct engine *e = lane->engine;
    TRY(prepare(l));
    TRY(check_room(l));
    TRY(lane_parts_init(&lane->parts, l->gguf, l->terms, &e->limits, l->workers, l->weights,
                        on_news, lane, l->ret_why));
    settle(lane, l->terms);
    TRY(engine_take_seat(e, &lane->parts, &lane->pass, l->ret_why));
    TRY(start_watching(lane, l->ret_why));
    TRY(start_warmer(lane, l->workers != NULL, l->ret_why));
    lane_publish(lane, false);
    return OK;
}

static void *load(void *arg)
{
    struct loading *l = arg;
    l->is_beside = engine_lane_count(l->engine) > 0;
    if (l->is_beside && !is_urgent(l)) /* a courtesy to those who run */
        (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_MOST);
    l->status = build(l);
    weights_let_go(&l->weights);
    workers_free(&l->workers);
    return NULL;
}

enum status lane_load(const struct gguf *gguf, const struct lane_terms *terms,
                      struct engine *engine, struct lane **ret_lane, struct why *ret_why)
{
    *ret_lane = NULL;
    struct lane *lane = mem_aligned(sizeof *lane);
    if (lane == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the lane");
    lane->engine = engine;
    pthread_mutex_init(&lane->pool_lock, NULL);
    struct loading l = {
        .engine = engine, .gguf = gguf, .terms = terms, .lane = lane, .ret_why = ret_why};
    pthread_t loader;
    if (is_urgent(&l)) {
        (void)load(&l);
    } else if (pthread_create(&loader, NULL, load, &l) == 0) {
        (void)pthread_setname_np(loader, "lane loader");
        pthread_join(loader, NULL);
    } else {
        l.status =
            why_set(ret_why, STATUS_UNAVAILABLE, "", "the thread that loads could not be made");
    }
    if (l.status != OK)
        lane_free(&lane);
    *ret_lane = lane;
    return l.status;
}
