/* decoder_watch.c: picks a row before a step, copies it when its layer has been attended, hands it over after
 * the step; counts.
 *
 * WHY     A step's buffers are overwritten by the next layer, its pages by the next step: who wants to check
 *         a row must say so before.
 * HOW     Asking is a few words a pool. In a step that was not asked for a row and is not counted, watching
 *         costs a comparison a layer.
 * ALWAYS  (1) The row is whole when it is copied: after the barrier behind the merge.
 *                                                                     decoder_watch_layer
 *         (2) Allocations by a thread of the step are counted whoever makes them.
 *                                                                     decoder_watch_enter
 * OWNS    Its copies and counters.
 * THREAD  engine; enter, leave and layer: every worker
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_watch.h"

#include "config/mem.h"
#include "sched/decoder_priv.h"

enum status decoder_watch_init(struct decoder *d)
{
    struct decoder_watch *w = &d->watch;
    const struct buffer_row table[] = {
        {(void **)&w->q, (size_t)DECODER_POOLS_MAX * d->widths.q, sizeof(float)},
        {(void **)&w->attended, (size_t)DECODER_POOLS_MAX * d->widths.attended, sizeof(float)},
    };
    TRY(decoder_take_buffers(table, ARRAY_LEN(table)));
    return cache_misses_can_count(COUNT_CACHE_MISSES)
               ? cache_misses_new(COUNT_CACHE_MISSES, workers_count(d->workers), &w->misses)
               : OK;
}

void decoder_watch_release(struct decoder *d)
{
    mem_free(d->watch.q);
    mem_free(d->watch.attended);
    cache_misses_free(&d->watch.misses);
}

void decoder_ask_row(struct decoder *d, uint32_t pool, uint32_t layer, uint64_t pick,
                     decoder_row_fn *on_row, void *user)
{
    ASSERT(pool < DECODER_POOLS_MAX && layer < d->model->graph->n_layers);
    d->watch.asked[pool] =
        (struct watched_row){.layer = layer, .pick = pick, .on_row = on_row, .user = user};
}

/* ---- the row ---- */

/* The pick-th of the pool's sequences in the batch that have a row to give; false if none has. */
static bool choose_sequence(const struct decoder *d, uint32_t pool, bool is_last, uint64_t pick,
                            uint32_t *ret_sequence)
{
    const struct decoder_batch *b = d->batch;
    uint32_t n = 0, at = 0;
    for (int pass = 0; pass < 2; pass++, at = 0) {
        for (uint32_t i = 0; i < b->n_sequences; i++) {
            const struct attention_sequence *s = &b->sequences[i];
            if (s->pool != pool || s->n_rows == 0 ||
                (is_last && b->n_asked != NULL && b->n_asked[i] == 0))
                continue;
            if (pass == 1 && at++ == pick % n) {
                *ret_sequence = i;
                return true;
            }
            n += pass == 0;
        }
        if (n == 0)
            return false;
    }
    return false;
}

static void choose_row(struct decoder *d, uint32_t pool)
{
    struct watched_row *r = &d->watch.asked[pool];
    const struct graph_layer *layer = &d->model->graph->layers[r->layer];
    bool is_last = r->layer + 1 == d->model->graph->n_layers;
    uint32_t i;
    r->is_chosen = choose_sequence(d, pool, is_last, r->pick, &i);
    if (!r->is_chosen)
        return;
    r->sequence = d->batch->sequences[(size_t)layer->cache_group * d->batch->n_sequences + i];
    /* A sequence's last row is in every layer. */
    uint32_t back = is_last ? 0 : (uint32_t)(r->pick / 7919 % r->sequence.n_rows);
    uint32_t at = r->sequence.n_rows - 1 - back;
    r->row = r->sequence.row_first + at;
    r->sequence.first_position += at;
    r->sequence.n_rows = 1;
    d->watch.n_chosen++;
}

void decoder_watch_layer(struct decoder *d, uint32_t l)
{
    for (uint32_t pool = 0; pool < DECODER_POOLS_MAX; pool++) {
        struct watched_row *r = &d->watch.asked[pool];
        if (r->on_row == NULL || !r->is_chosen || r->layer != l)
            continue;
        if (d->has_shed && !decoder_is_asked(d, r->row)) {
            r->is_chosen = false; /* it is asked for again in the next step */
            continue;
        }
        const struct graph_layer *layer = &d->model->graph->layers[l];
        size_t q = (size_t)layer->n_query_heads * layer->d_qk;
        size_t attended = (size_t)layer->n_query_heads * layer->d_v;
        memcpy(d->watch.q + (size_t)pool * d->widths.q, d->q + r->row * q, q * sizeof(float));
        memcpy(d->watch.attended + (size_t)pool * d->widths.attended,
               d->attended + r->row * attended, attended * sizeof(float));
    }
}

static void hand_over(struct decoder *d, uint32_t pool)
{
    struct watched_row r = d->watch.asked[pool];
    struct decoder_row row = {.layer = r.layer,
                              .memory = &d->layers[r.layer].memory[pool],
                              .sequence = r.sequence,
                              .q = d->watch.q + (size_t)pool * d->widths.q,
                              .attended =
                                  d->watch.attended + (size_t)pool * d->widths.attended};
    d->watch.asked[pool] = (struct watched_row){0};
    r.on_row(r.user, &row);
}

/* ---- the counters ---- */

static void add_traffic(const struct attention_plan *plan, uint32_t pool,
                        struct decoder_sums *sums)
{
    struct attention_traffic traffic = attention_plan_traffic(plan, pool);
    sums->issued_bytes += traffic.issued_bytes;
    sums->logical_bytes += traffic.logical_bytes;
}

void decoder_sums(const struct decoder *d, uint32_t pool, struct decoder_sums *ret_sums)
{
    ASSERT(pool < DECODER_POOLS_MAX);
    *ret_sums = (struct decoder_sums){.allocations = d->watch.allocations,
                                      .miss_bytes = d->watch.miss_bytes,
                                      .miss_logical_bytes = d->watch.miss_logical_bytes};
    for (uint32_t i = 0; i < d->n_plans; i++) {
        add_traffic(d->plans[i].all, pool, ret_sums);
        add_traffic(d->plans[i].asked, pool, ret_sums);
    }
}

void decoder_count_misses(struct decoder *d)
{
    d->watch.is_count_due = d->watch.misses != NULL;
}

static uint64_t logical_bytes(const struct decoder *d)
{
    struct decoder_sums sums;
    uint64_t all = 0;
    for (uint32_t pool = 0; pool < DECODER_POOLS_MAX; pool++) {
        decoder_sums(d, pool, &sums);
        all += sums.logical_bytes;
    }
    return all;
}

static void end_count(struct decoder *d)
{
    struct decoder_watch *w = &d->watch;
    uint64_t total;
    w->is_counting = w->is_count_due = false;
    if (!cache_misses_total(w->misses, &total)) {
        cache_misses_free(&w->misses);
        return;
    }
    w->miss_bytes = total * CACHE_LINE_BYTES;
    w->miss_logical_bytes +=
        d->model->weights->bytes + (logical_bytes(d) - w->logical_before);
}

/* A step with more than one row a sequence computes more than it reads, and waits for no memory. */
static bool is_decoding(const struct decoder_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_sequences; i++)
        if (batch->sequences[i].n_rows > 1)
            return false;
    return true;
}

/* ---- a step ---- */

void decoder_watch_begin(struct decoder *d)
{
    d->watch.n_chosen = 0;
    for (uint32_t pool = 0; pool < DECODER_POOLS_MAX; pool++)
        if (d->watch.asked[pool].on_row != NULL)
            choose_row(d, pool);
    d->watch.is_counting = d->watch.is_count_due && is_decoding(d->batch);
    if (d->watch.is_counting)
        d->watch.logical_before = logical_bytes(d);
}

void decoder_watch_enter(struct decoder *d, uint32_t tid)
{
    (void)mem_watch_thread(&d->watch.allocations);
    if (d->watch.is_counting)
        cache_misses_enter(d->watch.misses, tid);
}

void decoder_watch_leave(struct decoder *d, uint32_t tid)
{
    (void)mem_watch_thread(NULL);
    if (d->watch.is_counting)
        cache_misses_leave(d->watch.misses, tid);
}

void decoder_watch_end(struct decoder *d, enum status status)
{
    if (d->watch.is_counting)
        end_count(d);
    for (uint32_t pool = 0; d->watch.n_chosen > 0 && pool < DECODER_POOLS_MAX; pool++)
        if (status == OK && d->watch.asked[pool].on_row != NULL && d->watch.asked[pool].is_chosen)
            hand_over(d, pool);
}
