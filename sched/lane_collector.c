/* lane_collector.c: what is measured of a lane, when, and who may read it.
 *
 * WHY     A gate that nobody feeds passes nothing and stops nothing. What it needs lies in the engine's own
 *         thread, between steps, and must cost the streams next to nothing.
 * HOW     Counters are read after each step and their rise is added up. A row for the oracle is asked for
 *         when a share of the step time has been saved up that the last one took; books are walked when so
 *         much time has gone by that the walk is a share of it. The engine thread counts in a copy of its own
 *         and publishes it under a lock that is held for as long as copying takes.
 * ALWAYS  (1) The oracle takes at most its share of the lane's step time, but for one row and what a lane
 *         has to its credit when it is new, so that an evaluation of a small model has its samples.
 *                                                                                    ask_row
 *         (2) The ledger's figure is made from the graph, never from the cache's books.
 *                                                                              take_snapshot
 * OWNS    Its figures and scratch; all parts are loans.
 * THREAD  engine; lane_collector_copy any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_collector.h"

#include <pthread.h>

#include "cache/cache.h"
#include "cache/cache_reach.h"
#include "config/mem.h"
#include "sched/cache_misses.h"
#include "sched/clock.h"
#include "sched/kernel_use.h"
#include "sched/oracle_audit.h"

/* A new lane's credit with the oracle: some twenty rows. */
enum { ORACLE_CREDIT_NS = 2000000 };
/* One part in so many of the lane's step time for the oracle, of all time for snapshots; steps between counted
 * ones; least time between snapshots. */
enum { ORACLE_SHARE = 200, SNAPSHOT_SHARE = 1000, COUNTED_STEP = 16, SNAPSHOT_NS = 20000000 };

struct lane_collector {
    struct lane_collector_parts parts;
    struct decoder *decoder; /* NULL: in none */
    uint32_t pool;
    struct decoder_sums before;

    struct oracle_audit *audit;
    uint64_t pick; /* also whose turn it is: layers in order */
    bool is_asked;
    int64_t saved_ns; /* for the oracle; below zero after a long row */
    uint64_t row_ns;  /* what the longest took */

    void *scratch;
    uint64_t snapshot_due_ns;

    struct kernels seen; /* what n_differences was found with */
    uint32_t n_differences;
    size_t n_planned;
    const char *planned[KERNEL_USE_MAX]; /* names of kernels.def, or what was told */
    char planned_text[KERNEL_USE_MAX][64];

    struct lane_evidence evidence;
    pthread_mutex_t lock;
    struct lane_evidence published; /* under lock */
};

static void publish(struct lane_collector *c)
{
    pthread_mutex_lock(&c->lock);
    c->published = c->evidence;
    pthread_mutex_unlock(&c->lock);
}

/* What this thread has run for: what was interrupted has not cost more. */
static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- life ---- */

enum status lane_collector_new(const struct lane_collector_parts *parts,
                               struct lane_collector **ret_collector, struct why *ret_why)
{
    struct lane_collector *c = *ret_collector = mem_zalloc(1, sizeof *c);
    if (c == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a lane's evidence");
    c->parts = *parts;
    c->saved_ns = ORACLE_CREDIT_NS;
    pthread_mutex_init(&c->lock, NULL);
    c->evidence.host_has_counters = cache_misses_can_count(COUNT_CACHE_MISSES);
    c->scratch = mem_alloc(cache_reach_scratch_bytes(parts->cache));
    enum status s = c->scratch != NULL ? OK : STATUS_NO_MEMORY;
    if (s == OK)
        s = oracle_audit_new(parts->model->graph, parts->model->kv_type, &c->audit, ret_why);
    else
        why_set(ret_why, s, "", "no memory for walks over the page pool");
    if (s == OK)
        publish(c);
    else
        lane_collector_free(ret_collector);
    return s;
}

void lane_collector_free(struct lane_collector **collector)
{
    struct lane_collector *c = *collector;
    *collector = NULL;
    if (c == NULL)
        return;
    lane_collector_detach(c);
    oracle_audit_free(&c->audit);
    mem_free(c->scratch);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

void lane_collector_attach(struct lane_collector *c, struct decoder *decoder, uint32_t pool)
{
    lane_collector_detach(c);
    c->decoder = decoder;
    c->pool = pool;
    decoder_sums(decoder, pool, &c->before);
}

void lane_collector_detach(struct lane_collector *c)
{
    if (c->decoder != NULL)
        decoder_ask_row(c->decoder, c->pool, 0, 0, NULL, NULL);
    c->decoder = NULL;
    c->is_asked = false;
}

/* ---- the oracle ---- */

static void on_row(void *user, const struct decoder_row *row)
{
    struct lane_collector *c = user;
    uint64_t start = thread_ns();
    double difference;
    if (oracle_audit_row(c->audit, row, &difference))
        lane_evidence_add_sample(&c->evidence, difference);
    uint64_t took = thread_ns() - start;
    c->evidence.audit_ns += took;
    c->saved_ns -= (int64_t)took;
    c->row_ns = took > c->row_ns ? took : c->row_ns - (c->row_ns - took) / 4;
    c->is_asked = false;
}

/* The next step hands a row over if enough was saved up for one like the longest of late. */
static void ask_row(struct lane_collector *c, uint64_t step_ns)
{
    int64_t most = 2 * (int64_t)c->row_ns; /* nothing is saved up for a burst */
    if (c->saved_ns <= most)
        c->saved_ns += (int64_t)(step_ns / ORACLE_SHARE);
    if (c->is_asked || c->saved_ns < (int64_t)c->row_ns)
        return;
    uint32_t n_layers = c->parts.model->graph->n_layers;
    uint64_t pick = c->pick++;
    c->is_asked = true;
    decoder_ask_row(c->decoder, c->pool, (uint32_t)(pick % n_layers), pick * 2654435761u, on_row,
                    c);
}

/* ---- the books ---- */

/* What the ledger says of the group's blocks, with the padding that a mapping of so much has. */
static uint64_t ledger_bytes(const struct lane_collector *c, uint32_t group)
{
    const struct graph_group *g = &c->parts.model->graph->groups[group];
    struct ledger_shape shape = model_ledger_shape(c->parts.model, group);
    uint64_t tokens =
        (uint64_t)cache_blocks_total(c->parts.cache, group) * CACHE_PAGE_TOKENS * g->n_layers;
    return pool_memory_padded_bytes(g->n_layers, g->n_heads,
                                    ledger_history_bytes(&shape, 1, tokens) +
                                        ledger_scale_bytes(&shape, 1, tokens));
}

static void take_snapshot(struct lane_collector *c)
{
    uint64_t now = clock_now_ns();
    uint32_t n = cache_groups(c->parts.cache);
    struct allocation_term terms[CACHE_GROUPS_MAX];
    if (now < c->snapshot_due_ns)
        return;
    uint64_t start = thread_ns();
    for (uint32_t g = 0; g < n; g++)
        terms[g] = (struct allocation_term){ledger_bytes(c, g),
                                            cache_group_books(c->parts.cache, g).resident_bytes};
    lane_evidence_add_snapshot(&c->evidence, terms, n,
                               cache_unreachable_blocks(c->parts.cache, c->scratch));
    uint64_t rest = (thread_ns() - start) * SNAPSHOT_SHARE;
    c->snapshot_due_ns = now + (rest > SNAPSHOT_NS ? rest : SNAPSHOT_NS);
}

/* ---- kernels ---- */

void lane_collector_expect(struct lane_collector *c, const char *const *functions, size_t n)
{
    c->n_planned = n < KERNEL_USE_MAX ? n : KERNEL_USE_MAX;
    for (size_t i = 0; i < c->n_planned; i++) {
        snprintf(c->planned_text[i], sizeof c->planned_text[i], "%s", functions[i]);
        c->planned[i] = c->planned_text[i];
    }
    c->evidence.has_plan_receipt = n > 0;
    memset(&c->seen, 0, sizeof c->seen);
    publish(c);
}

static void count_fallbacks(struct lane_collector *c)
{
    if (!c->evidence.has_plan_receipt)
        return;
    if (memcmp(&c->seen, c->parts.kernels, sizeof c->seen) != 0) {
        struct kernel_use uses[KERNEL_USE_MAX];
        size_t n = kernel_use_list(c->parts.model, c->parts.kernels, uses);
        memcpy(&c->seen, c->parts.kernels, sizeof c->seen);
        c->n_differences = kernel_use_differences(uses, n, c->planned, c->n_planned);
    }
    c->evidence.n_fallbacks += c->n_differences > 0;
}

/* ---- turns ---- */

static void add_sums(struct lane_collector *c)
{
    struct lane_evidence *e = &c->evidence;
    struct decoder_sums now;
    decoder_sums(c->decoder, c->pool, &now);
    e->issued_bytes += now.issued_bytes - c->before.issued_bytes;
    e->logical_bytes += now.logical_bytes - c->before.logical_bytes;
    e->n_materialisations += now.allocations - c->before.allocations;
    e->hardware_bytes += now.miss_bytes - c->before.miss_bytes;
    e->hardware_logical_bytes += now.miss_logical_bytes - c->before.miss_logical_bytes;
    c->before = now;
}

void lane_collector_turn(struct lane_collector *c, uint64_t step_ns)
{
    c->evidence.n_steps++;
    c->evidence.step_ns += step_ns;
    count_fallbacks(c);
    if (c->decoder != NULL) {
        add_sums(c);
        ask_row(c, step_ns);
        if (c->evidence.n_steps % COUNTED_STEP == 0)
            decoder_count_misses(c->decoder);
    }
    take_snapshot(c);
    publish(c);
}

void lane_collector_idle(struct lane_collector *c)
{
    take_snapshot(c);
    publish(c);
}

void lane_collector_copy(struct lane_collector *c, struct lane_evidence *ret_evidence)
{
    pthread_mutex_lock(&c->lock);
    *ret_evidence = c->published;
    pthread_mutex_unlock(&c->lock);
}
