/* decoder_step.c: one step of the decoder, walked by every worker together.
 *
 * WHY     At one row a step lives from the bytes of the weights; so it is one run of the pool with
 *         barriers inside, and what is cheap is done by every worker for itself rather than waited
 *         for.
 * HOW     A layer is a list of parts that the graph turns on or off (norms before and after, norms
 *         of heads, biases, the gate), never an architecture's own code. Each phase writes only
 *         what its worker owns (whole rows, whole outputs, whole items) and ends at a barrier:
 *             embed, rotate tables | add, norm, q k v, norm heads, rotate, store K/V | attend |
 *             merge, if a tile was cut | output | add, norm, gate up | down
 *         What a block gives waits in `product` until the next one enters: there it is normed,
 *         added to the residual, and the sum normed again, row by row. A step of one row does that
 *         on every worker, each on a residual of its own, which saves two barriers a layer.
 * ALWAYS  (1) No sum is split over workers: the thread count changes no bit.
 *         product
 *         (2) K and V are read from pages, after rounding, also those of this very step.
 *         decoder_heads before attend
 *         (3) All rows of a step pass through the same kernels as a row alone.        enter_row
 * THREAD  engine and its workers, inside workers_run
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

#include "kernels/elementary.h"

/* ---- the rows on their way into a product ---- */

/* The first n_columns of a row of activations that is wide enough. */
static struct act_rows act_of_width(struct act_rows act, uint32_t n_columns)
{
    act.n_columns = n_columns;
    return act;
}

/* What happens to a row between two blocks. */
struct entry {
    float *residual;      /* [rows][hidden] */
    const float *product; /* [rows][hidden], what the last block gave; NULL: there is none */
    const float *post;    /* [hidden], its norm; NULL: none */
    const float *pre;     /* [hidden], the next block's norm; NULL: none */
};

/* residual += norm(product), then norm(residual): where it stands, values or the residual itself.
 */
static const float *enter_row(const struct decoder *d, const struct entry *e, size_t at,
                              float *values)
{
    const struct graph *g = d->model->graph;
    const struct vector_kernels *v = &d->kernels->vector;
    float *residual = e->residual + at;
    if (e->product != NULL && e->post != NULL) {
        v->rms_norm(e->product + at, e->post, g->rms_eps, g->hidden, values);
        v->add(residual, values, g->hidden);
    } else if (e->product != NULL) {
        v->add(residual, e->product + at, g->hidden);
    }
    if (e->pre == NULL)
        return residual;
    v->rms_norm(residual, e->pre, g->rms_eps, g->hidden, values);
    return values;
}

/* Takes rows into a block. Ends at a barrier unless there is one row alone, which every worker
 * takes in for itself: e->residual is then its own. */
static struct activations enter(struct decoder *d, uint32_t tid, const struct entry *e,
                                const struct row_set *rows)
{
    uint32_t hidden = d->model->graph->hidden;
    if (rows->is_alone) {
        struct act_rows act = act_of_width(d->own_act[tid], hidden);
        const float *values = enter_row(d, e, 0, d->own_values + (size_t)tid * hidden);
        decoder_quantise(d, &act, values, 0, 0, hidden);
        return decoder_activations(&act, values);
    }
    for (uint32_t i = 0; i < rows->n_runs; i++) {
        struct span part = decoder_share_run(d, &rows->runs[i], tid);
        for (uint32_t r = part.first; r < part.end; r++) {
            size_t at = (size_t)r * hidden;
            const float *values = enter_row(d, e, at, d->normed + at);
            decoder_quantise(d, &d->hidden_act, values - at, r, 0, hidden);
        }
    }
    workers_barrier(d->workers);
    return decoder_activations(&d->hidden_act, e->pre == NULL ? e->residual : d->normed);
}

/* Where a worker adds up the rows of this step. */
static float *residual_of(const struct decoder *d, uint32_t tid)
{
    return d->all.is_alone && tid > 0 ? d->own_residual + (size_t)tid * d->model->graph->hidden
                                      : d->residual;
}

/* What attention gave goes in as it is. */
static struct activations attended_rows(struct decoder *d, uint32_t tid, uint32_t columns,
                                        const struct row_set *rows)
{
    if (rows->is_alone) {
        struct act_rows act = act_of_width(d->own_act[tid], columns);
        decoder_quantise(d, &act, d->attended, 0, 0, columns);
        return decoder_activations(&act, d->attended);
    }
    struct act_rows act = act_of_width(d->attended_act, columns);
    for (uint32_t i = 0; i < rows->n_runs; i++) {
        struct span part = decoder_share_run(d, &rows->runs[i], tid);
        for (uint32_t r = part.first; r < part.end; r++)
            decoder_quantise(d, &act, d->attended, r, 0, columns);
    }
    workers_barrier(d->workers);
    return decoder_activations(&act, d->attended);
}

/* ---- the phases of a layer ---- */

/* Whether only the rows that are asked for go through layer l: the last one, and what is left of a late step. */
static bool is_for_asked(const struct decoder *d, uint32_t l)
{
    bool is_last = l + 1 == d->model->graph->n_layers;
    return d->has_shed || (is_last && !d->is_asked_for_all);
}

static const struct attention_plan *plan_of(const struct decoder *d, uint32_t l, uint32_t type)
{
    const struct layer_plan *plan = d->layers[l].plans[type];
    return is_for_asked(d, l) ? plan->asked : plan->all;
}

static enum status attend(struct decoder *d, uint32_t tid, uint32_t l)
{
    for (uint32_t type = 0; d->types_used >> type != 0; type++)
        if ((d->types_used >> type & 1) != 0) /* a failure is that of every worker alike */
            TRY(attention_run(plan_of(d, l, type), tid, d->layers[l].memory,
                              d->model->manifest->architecture_hash, d->q, d->attended));
    workers_barrier(d->workers);
    bool is_cut = false;
    for (uint32_t type = 0; d->types_used >> type != 0; type++) {
        if ((d->types_used >> type & 1) == 0)
            continue;
        is_cut |= attention_is_cut(plan_of(d, l, type));
        attention_merge(plan_of(d, l, type), tid, d->attended);
    }
    if (is_cut)
        workers_barrier(d->workers);
    if (tid == 0 && d->watch.n_chosen > 0)
        decoder_watch_layer(d, l);
    return OK;
}

/* What a block gives, each worker its own outputs. */
static void leave(struct decoder *d, uint32_t tid, const struct packed_matrix *m,
                  const struct activations *x, const struct row_set *rows)
{
    decoder_product(d, m, x, rows, decoder_panel_share(d, m, tid), d->product);
    workers_barrier(d->workers);
}

/* Rows of gate and up that are made at once: their outputs are still in the second-level cache when they are multiplied
 * and quantised. */
enum { GATE_ROWS = 96 };

/* A worker's columns of some rows. A worker quantises the outputs it made itself: blocks of activations are as wide as a
 * panel. */
static void gate_rows(struct decoder *d, const struct layer_weights *w, const struct activations *x,
                      struct span rows, struct span panels)
{
    const struct vector_kernels *v = &d->kernels->vector;
    silu_mul_fn *gate = d->model->graph->gate == GATE_GELU ? v->gelu_mul : v->silu_mul;
    struct span columns = decoder_panel_columns(&w->gate, panels);
    struct row_set part = {.n_runs = 1, .runs = {rows}};
    decoder_product(d, &w->gate, x, &part, panels, d->gate);
    decoder_product(d, &w->up, x, &part, panels, d->up);
    for (uint32_t r = rows.first; r < rows.end; r++) {
        size_t at = (size_t)r * d->model->graph->ffn + columns.first;
        gate(d->gate + at, d->up + at, columns.end - columns.first, d->gate + at);
        decoder_quantise(d, &d->ffn_act, d->gate, r, columns.first, columns.end);
    }
}

static void gate_and_up(struct decoder *d, uint32_t tid, const struct layer_weights *w,
                        const struct activations *x, const struct row_set *rows)
{
    struct span panels = decoder_panel_share(d, &w->gate, tid);
    for (uint32_t i = 0; panels.first < panels.end && i < rows->n_runs; i++) {
        struct span run = rows->runs[i];
        for (uint32_t r = run.first, end; r < run.end; r = end) {
            end = run.end - r < GATE_ROWS ? run.end : r + GATE_ROWS;
            gate_rows(d, w, x, (struct span){r, end}, panels);
        }
    }
    workers_barrier(d->workers);
}

/* ---- the step ---- */

static void fill_rope(const struct rope_table *rope, uint32_t r, double position)
{
    uint32_t half = rope->n_dims / 2;
    for (uint32_t i = 0; i < half; i++) {
        double sine, cosine;
        elementary_sincos(position * rope->frequency[i], &sine, &cosine);
        rope->sine[(size_t)r * half + i] = (float)sine;
        rope->cosine[(size_t)r * half + i] = (float)cosine;
    }
}

static void embed_row(const struct decoder *d, uint32_t r, float *residual)
{
    const struct graph *g = d->model->graph;
    packed_row(&d->model->weights->embedding, d->batch->ids[r], residual);
    if (g->embedding_scale != 1.0f)
        d->kernels->vector.scale(residual, g->embedding_scale, g->hidden);
}

/* Embeds the rows that this worker takes into the first layer, and makes its share of the rotation
 * tables, which are read after a barrier: that of enter, or one of its own. */
static void embed_rows(struct decoder *d, uint32_t tid)
{
    uint32_t n = d->batch->n_rows;
    struct span rows = decoder_share(d, n, 1, tid);
    if (n == 1)
        embed_row(d, 0, residual_of(d, tid));
    for (uint32_t r = rows.first; n > 1 && r < rows.end; r++)
        embed_row(d, r, d->residual + (size_t)r * d->model->graph->hidden);
    struct span items = decoder_share(d, n * d->n_ropes, 1, tid);
    for (uint32_t i = items.first; i < items.end; i++) {
        uint32_t r = i / d->n_ropes;
        const struct attention_sequence *s = &d->batch->sequences[d->row_sequence[r]];
        fill_rope(&d->ropes[i % d->n_ropes], r, s->first_position + (r - s->row_first));
    }
    if (d->all.is_alone)
        workers_barrier(d->workers);
}

/* Every row has its K and V stored in the last layer, too; a late step has dropped the others before. */
static struct layer_rows rows_of(const struct decoder *d, uint32_t l)
{
    return (struct layer_rows){.in = d->has_shed ? &d->asked : &d->all,
                               .through = is_for_asked(d, l) ? &d->asked : &d->all};
}

/* One layer, from a pending product (e) to a pending product. */
static enum status run_layer(struct decoder *d, uint32_t tid, uint32_t l, struct entry *e)
{
    const struct graph *g = d->model->graph;
    const struct layer_weights *w = &d->model->weights->layers[l];
    const struct layer_rows of = rows_of(d, l);
    const struct row_set *rows = of.through;
    e->pre = w->attn_norm;
    struct activations x = enter(d, tid, e, of.in);
    decoder_heads(d, tid, l, &x, &of);
    if (rows->n_runs == 0)
        return OK;
    TRY(attend(d, tid, l));
    x = attended_rows(d, tid, g->layers[l].n_query_heads * g->layers[l].d_v, rows);
    leave(d, tid, &w->output, &x, rows);
    e->product = d->product;
    e->post = w->post_attn_norm;
    e->pre = w->ffn_norm;
    x = enter(d, tid, e, rows);
    gate_and_up(d, tid, w, &x, rows);
    x = decoder_activations(&d->ffn_act, d->gate);
    if (tid == 0)
        decoder_consider_shedding(d, l + 1);
    leave(d, tid, &w->down, &x, rows);
    e->post = w->post_ffn_norm;
    return OK;
}

/* The last product, into the residual that the logits are made of. */
static void finish_rows(struct decoder *d, uint32_t tid, struct entry *e)
{
    uint32_t hidden = d->model->graph->hidden;
    e->pre = NULL;
    e->residual = d->residual;
    for (uint32_t i = 0; i < d->asked.n_runs; i++) {
        struct span part = decoder_share_run(d, &d->asked.runs[i], tid);
        for (uint32_t r = part.first; r < part.end; r++)
            (void)enter_row(d, e, (size_t)r * hidden, d->normed + (size_t)r * hidden);
    }
}

static void walk_layers(struct decoder *d, uint32_t tid)
{
    struct entry e = {.residual = residual_of(d, tid)};
    embed_rows(d, tid);
    for (uint32_t l = 0; l < d->model->graph->n_layers; l++) {
        enum status s = run_layer(d, tid, l, &e);
        if (s != OK) {
            if (tid == 0)
                d->attention_status = s;
            return;
        }
    }
    finish_rows(d, tid, &e);
}

static void step_share(void *arg, uint32_t tid)
{
    struct decoder *d = arg;
    decoder_watch_enter(d, tid);
    walk_layers(d, tid);
    decoder_watch_leave(d, tid);
}

/* A plan gets the sequences of its own type, which are mostly all. */
static void schedule_plan(struct decoder *d, const struct layer_plan *plan)
{
    uint32_t n_sequences = d->batch->n_sequences, n = 0;
    const struct attention_sequence *from =
        d->batch->sequences + (size_t)plan->group * n_sequences;
    if (d->types_used == 1u << plan->type) {
        attention_schedule(plan->all, from, n_sequences);
        return;
    }
    for (uint32_t i = 0; i < n_sequences; i++)
        if (decoder_pool_type(d, from[i].pool) == plan->type)
            d->typed_sequences[n++] = from[i];
    if (n > 0)
        attention_schedule(plan->all, d->typed_sequences, n);
}

enum status decoder_step(struct decoder *d, const struct decoder_batch *batch)
{
    ASSERT(batch->n_rows > 0 && batch->n_rows <= d->limits.rows_max);
    ASSERT(batch->n_sequences <= d->limits.sequences_max);
    d->types_used = 0;
    d->has_shed = false;
    for (uint32_t i = 0; i < batch->n_sequences; i++) {
        const struct attention_sequence *s = &batch->sequences[i];
        TRY(decoder_check(d, s->pool));
        d->types_used |= 1u << decoder_pool_type(d, s->pool);
        for (uint32_t r = 0; r < s->n_rows; r++)
            d->row_sequence[s->row_first + r] = i;
    }
    d->batch = batch;
    d->attention_status = OK;
    d->all =
        (struct row_set){.is_alone = batch->n_rows == 1, .n_runs = 1, .runs = {{0, batch->n_rows}}};
    decoder_ask(d);
    for (uint32_t i = 0; i < d->n_plans; i++)
        schedule_plan(d, &d->plans[i]);
    decoder_watch_begin(d);
    workers_run(d->workers, step_share, d);
    decoder_watch_end(d, d->attention_status);
    return d->attention_status;
}

static void gather_logit_rows(struct decoder *d)
{
    size_t hidden = d->model->graph->hidden;
    for (uint32_t i = 0; i < d->n_logit_rows; i++)
        memcpy(d->product + i * hidden, d->residual + d->logit_rows[i] * hidden,
               hidden * sizeof(float));
}

static void logits_share(void *arg, uint32_t tid)
{
    struct decoder *d = arg;
    const struct packed_matrix *m = &d->model->weights->output;
    struct entry e = {.residual = d->product, .pre = d->model->weights->output_norm};
    struct row_set rows = {
        .is_alone = d->n_logit_rows == 1, .n_runs = 1, .runs = {{0, d->n_logit_rows}}};
    struct activations x = enter(d, tid, &e, &rows);
    decoder_product(d, m, &x, &rows, decoder_panel_share(d, m, tid), d->logits);
}

const float *decoder_logits(struct decoder *d, const uint32_t *rows, uint32_t n)
{
    ASSERT(n > 0 && n <= d->limits.logit_rows_max && n <= d->limits.rows_max);
    d->logit_rows = rows;
    d->n_logit_rows = n;
    gather_logit_rows(d);
    workers_run(d->workers, logits_share, d);
    return d->logits;
}
