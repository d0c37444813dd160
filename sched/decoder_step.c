/* decoder_step.c: one step of the decoder, walked by every worker together.
 *
 * WHY     At one row a step lives from the bytes of the weights; so it is one run of the pool with
 *         barriers inside, and what is cheap is done by every worker for itself rather than waited
 *         for.
 * HOW     Each phase writes only what its worker owns (whole rows, whole outputs, whole items) and
 *         ends at a barrier:
 *             embed, rotate tables | norm, q k v | rotate, store K/V | attend | merge | output, add
 *             | norm, gate up, silu | down, add
 *         A step of one row norms and quantises that row on every worker, which saves two barriers
 *         a layer.
 * ALWAYS  (1) No sum is split over workers: the thread count changes no bit.
 *         product
 *         (2) K and V are read from pages, after rounding, also those of this very step.
 *         store_rows before attend
 *         (3) All rows of a step pass through the same kernels as a row alone.
 * THREAD  engine and its workers, inside workers_run
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

#include "kernels/elementary.h"

struct span {
    uint32_t first, end;
};

static struct span share(const struct decoder *d, uint32_t n, uint32_t grain, uint32_t tid)
{
    struct span s;
    workers_share(n, grain, tid, workers_count(d->workers), &s.first, &s.end);
    return s;
}

/* Outputs are shared in pairs of panels, the kernels' widest tile. */
static struct span panel_share(const struct decoder *d, const struct packed_matrix *m, uint32_t tid)
{
    return share(d, packed_panels(m->n_rows), 2, tid);
}

static struct span panel_columns(const struct packed_matrix *m, struct span panels)
{
    uint32_t first = panels.first * PANEL_ROWS, end = panels.end * PANEL_ROWS;
    return (struct span){first < m->n_rows ? first : m->n_rows, end < m->n_rows ? end : m->n_rows};
}

static struct activations act_view(const struct act_rows *act, const float *values)
{
    return (struct activations){.n_columns = act->n_columns,
                                .values = values,
                                .quants = act->quants,
                                .scale = act->scale,
                                .scaled_sum = act->scaled_sum,
                                .sum = act->sum};
}

/* Quantises columns [first, end) of row r of x[.][n_columns] into act. */
static void act_rows_quantise(const struct decoder *d, const struct act_rows *act, const float *x,
                              uint32_t r, uint32_t first, uint32_t end)
{
    size_t column = (size_t)r * act->n_columns + first;
    size_t block = column / ACT_BLOCK;
    d->kernels->quantise(x + column, end - first, act->quants + column, act->scale + block,
                         act->scaled_sum + block, act->sum + block);
}

static void product(const struct decoder *d, const struct packed_matrix *m,
                    const struct activations *x, uint32_t n_rows, struct span panels, float *out)
{
    d->kernels->matmul[m->type](m, x, 0, n_rows, panels.first, panels.end, out, m->n_rows);
}

/* ---- the rows on their way into a product ---- */

/* One worker's own copy of a one-row activation, all of it. */
static struct act_rows own_row(const struct decoder *d, uint32_t tid, uint32_t n_columns)
{
    struct act_rows act = d->own_act[tid];
    act.n_columns = n_columns;
    return act;
}

/* Normalises n rows of source into activations. Ends at a barrier unless there is one row. */
static struct activations norm_rows(struct decoder *d, uint32_t tid, const float *source,
                                    const float *weight, uint32_t n_rows)
{
    const struct graph *g = d->model->graph;
    if (n_rows == 1) {
        struct act_rows act = own_row(d, tid, g->hidden);
        float *values = d->own_values + (size_t)tid * d->own_columns;
        d->kernels->vector.rms_norm(source, weight, g->rms_eps, g->hidden, values);
        act_rows_quantise(d, &act, values, 0, 0, g->hidden);
        return act_view(&act, values);
    }
    struct span rows = share(d, n_rows, 1, tid);
    for (uint32_t r = rows.first; r < rows.end; r++) {
        size_t at = (size_t)r * g->hidden;
        d->kernels->vector.rms_norm(source + at, weight, g->rms_eps, g->hidden, d->normed + at);
        act_rows_quantise(d, &d->hidden_act, d->normed, r, 0, g->hidden);
    }
    workers_barrier(d->workers);
    return act_view(&d->hidden_act, d->normed);
}

/* The same without a norm, for what attention gave. */
static struct activations attended_rows(struct decoder *d, uint32_t tid, uint32_t n_rows)
{
    uint32_t columns = d->attended_act.n_columns;
    if (n_rows == 1) {
        struct act_rows act = own_row(d, tid, columns);
        act_rows_quantise(d, &act, d->attended, 0, 0, columns);
        return act_view(&act, d->attended);
    }
    struct span rows = share(d, n_rows, 1, tid);
    for (uint32_t r = rows.first; r < rows.end; r++)
        act_rows_quantise(d, &d->attended_act, d->attended, r, 0, columns);
    workers_barrier(d->workers);
    return act_view(&d->attended_act, d->attended);
}

/* ---- the phases of a layer ---- */

static void project_qkv(struct decoder *d, uint32_t tid, const struct layer_weights *w)
{
    uint32_t n = d->batch->n_rows;
    struct activations x = norm_rows(d, tid, d->residual, w->attn_norm, n);
    product(d, &w->q, &x, n, panel_share(d, &w->q, tid), d->q);
    product(d, &w->k, &x, n, panel_share(d, &w->k, tid), d->k);
    product(d, &w->v, &x, n, panel_share(d, &w->v, tid), d->v);
    workers_barrier(d->workers);
}

static uint32_t page_of(const struct attention_sequence *s, uint32_t position)
{
    uint32_t page = position / PAGE_TOKENS;
    for (uint32_t i = 0; i < s->n_runs; i++) {
        if (page < s->runs[i].n_pages)
            return s->runs[i].first_page + page;
        page -= s->runs[i].n_pages;
    }
    ASSERT(!"a row's page is in its sequence's runs");
    return 0;
}

static struct kv_layer layer_memory(const struct decoder *d, uint32_t l)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    enum kv_type type = d->model->kv_type;
    return (struct kv_layer){
        .base = d->memory.base + l * d->memory.layer_stride,
        .head_stride = d->memory.head_stride,
        .page_stride = d->memory.page_bytes,
        .unit_stride = d->memory.page_bytes / PAGE_UNITS,
        .v_offset = kv_k_part_bytes(type, gl->d_qk),
        .n_heads = (uint16_t)gl->n_k_heads,
        .d_qk = (uint16_t)gl->d_qk,
        .d_v = (uint16_t)gl->d_v,
        .type = type,
    };
}

static rope_fn *rope_of(const struct decoder *d)
{
    const struct vector_kernels *v = &d->kernels->vector;
    return d->model->graph->rope_order == ROPE_HALVES ? v->rope_halves : v->rope_neighbours;
}

/* Rotates K/V head h of row r and writes both rows to its page. */
static void store_head(const struct decoder *d, const struct kv_layer *memory, uint32_t l,
                       uint32_t r, uint32_t h)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    const struct attention_sequence *s = &d->batch->sequences[d->row_sequence[r]];
    uint32_t position = s->first_position + (r - s->row_first);
    uint32_t half = gl->rope_dims / 2;
    float *k = d->k + ((size_t)r * gl->n_k_heads + h) * gl->d_qk;
    const float *v = d->v + ((size_t)r * gl->n_v_heads + h) * gl->d_v;
    rope_of(d)(k, d->cosine + (size_t)r * half, d->sine + (size_t)r * half, gl->rope_dims);
    char *unit = memory->base + h * memory->head_stride +
                 page_of(s, position) * memory->page_stride +
                 position % PAGE_TOKENS / ATTEND_UNIT * memory->unit_stride;
    d->kernels->attention.store[memory->type](gl->d_qk, gl->d_v, position % ATTEND_UNIT, k, v, unit,
                                              unit + memory->v_offset);
}

/* Items are (row, head): the query heads of a row, then its K/V heads. */
static void rotate_and_store(struct decoder *d, uint32_t tid, uint32_t l)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    struct kv_layer memory = layer_memory(d, l);
    uint32_t heads = gl->n_query_heads + gl->n_k_heads;
    uint32_t half = gl->rope_dims / 2;
    struct span items = share(d, d->batch->n_rows * heads, 1, tid);
    for (uint32_t i = items.first; i < items.end; i++) {
        uint32_t r = i / heads, h = i % heads;
        if (h >= gl->n_query_heads)
            store_head(d, &memory, l, r, h - gl->n_query_heads);
        else
            rope_of(d)(d->q + ((size_t)r * gl->n_query_heads + h) * gl->d_qk,
                       d->cosine + (size_t)r * half, d->sine + (size_t)r * half, gl->rope_dims);
    }
    workers_barrier(d->workers);
}

static enum status attend(struct decoder *d, uint32_t tid, uint32_t l)
{
    struct kv_layer memory = layer_memory(d, l);
    enum status s = attention_run(d->plan, tid, &memory, d->model->manifest->architecture_hash,
                                  d->memory.generation, d->q, d->attended);
    if (s != OK) /* on every worker alike */
        return s;
    workers_barrier(d->workers);
    attention_merge(d->plan, tid, d->attended);
    workers_barrier(d->workers);
    return OK;
}

/* residual += x W^T, each worker its own outputs. */
static void add_product(struct decoder *d, uint32_t tid, const struct packed_matrix *m,
                        const struct activations *x)
{
    uint32_t n = d->batch->n_rows;
    struct span panels = panel_share(d, m, tid);
    struct span columns = panel_columns(m, panels);
    product(d, m, x, n, panels, d->product);
    for (uint32_t r = 0; columns.first < columns.end && r < n; r++) {
        size_t at = (size_t)r * m->n_rows + columns.first;
        d->kernels->vector.add(d->residual + at, d->product + at, columns.end - columns.first);
    }
    workers_barrier(d->workers);
}

/* A worker quantises the outputs it made itself: blocks of activations are as wide as a panel. */
static void gate_and_up(struct decoder *d, uint32_t tid, const struct layer_weights *w)
{
    uint32_t n = d->batch->n_rows, ffn = d->model->graph->ffn;
    struct activations x = norm_rows(d, tid, d->residual, w->ffn_norm, n);
    struct span panels = panel_share(d, &w->gate, tid);
    struct span columns = panel_columns(&w->gate, panels);
    product(d, &w->gate, &x, n, panels, d->gate);
    product(d, &w->up, &x, n, panels, d->up);
    for (uint32_t r = 0; columns.first < columns.end && r < n; r++) {
        size_t at = (size_t)r * ffn + columns.first;
        d->kernels->vector.silu_mul(d->gate + at, d->up + at, columns.end - columns.first,
                                    d->gate + at);
        act_rows_quantise(d, &d->ffn_act, d->gate, r, columns.first, columns.end);
    }
    workers_barrier(d->workers);
}

/* ---- the step ---- */

/* Embeds a worker's rows and makes their rotation tables. */
static void embed_rows(struct decoder *d, uint32_t tid)
{
    const struct graph *g = d->model->graph;
    uint32_t half = g->layers[0].rope_dims / 2;
    struct span rows = share(d, d->batch->n_rows, 1, tid);
    for (uint32_t r = rows.first; r < rows.end; r++) {
        const struct attention_sequence *s = &d->batch->sequences[d->row_sequence[r]];
        double position = s->first_position + (r - s->row_first);
        packed_row(&d->model->embedding, d->batch->ids[r], d->residual + (size_t)r * g->hidden);
        for (uint32_t i = 0; i < half; i++) {
            double sine, cosine;
            elementary_sincos(position * d->rope_frequency[i], &sine, &cosine);
            d->sine[(size_t)r * half + i] = (float)sine;
            d->cosine[(size_t)r * half + i] = (float)cosine;
        }
    }
    workers_barrier(d->workers);
}

static void step_share(void *arg, uint32_t tid)
{
    struct decoder *d = arg;
    embed_rows(d, tid);
    for (uint32_t l = 0; l < d->model->graph->n_layers; l++) {
        const struct layer_weights *w = &d->model->layers[l];
        project_qkv(d, tid, w);
        rotate_and_store(d, tid, l);
        enum status s = attend(d, tid, l);
        if (s != OK) {
            if (tid == 0)
                d->attention_status = s;
            return;
        }
        struct activations attended = attended_rows(d, tid, d->batch->n_rows);
        add_product(d, tid, &w->output, &attended);
        gate_and_up(d, tid, w);
        struct activations inner = act_view(&d->ffn_act, d->gate);
        add_product(d, tid, &w->down, &inner);
    }
}

enum status decoder_step(struct decoder *d, const struct decoder_batch *batch)
{
    ASSERT(batch->n_rows > 0 && batch->n_rows <= d->limits.rows_max);
    ASSERT(batch->n_sequences <= d->limits.sequences_max);
    for (uint32_t i = 0; i < batch->n_sequences; i++) {
        const struct attention_sequence *s = &batch->sequences[i];
        for (uint32_t r = 0; r < s->n_rows; r++)
            d->row_sequence[s->row_first + r] = i;
    }
    d->batch = batch;
    d->attention_status = OK;
    attention_schedule(d->plan, batch->sequences, batch->n_sequences);
    workers_run(d->workers, step_share, d);
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
    const struct packed_matrix *m = &d->model->output;
    struct activations x = norm_rows(d, tid, d->product, d->model->output_norm, d->n_logit_rows);
    product(d, m, &x, d->n_logit_rows, panel_share(d, m, tid), d->logits);
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
