/* decoder_heads.c: a layer's heads for every row: q, k and v projected, normed, rotated; k and v stored.
 *
 * WHY     A worker that shares the products evenly ends in the middle of a head, and must wait for the
 *         others before it can rotate one. Where whole heads can be shared nearly as evenly, it goes
 *         on with those that it made: a barrier less in every layer, of the few that a step of one
 *         row has.
 * HOW     The heads stand in a row, each K head with its V head, then the query heads, as wide as
 *         their columns; a share ends at the head that begins nearest to where an even one would.
 *         Where that leaves a worker more than its part, steps of many rows keep to even shares, and
 *         meet between the products and the rotation; so do all steps where it is much more.
 * ALWAYS  (1) A K head and its V head are one worker's: they are stored together.  share_heads
 * THREAD  engine and its workers, inside workers_run; decoder_rows_by_heads by whoever makes the decoder
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

enum { ROWS_FEW = 4 }; /* an eighth more of their products is less than a barrier */

/* A worker's heads of a layer. */
struct head_share {
    struct span kv, q;
};

/* ---- who has which ---- */

/* Where head i of the row begins, in columns; i = n_k_heads + n_query_heads: the end. */
static uint64_t head_begin(const struct graph_layer *gl, uint32_t i)
{
    uint32_t n_kv = gl->n_k_heads, pair = gl->d_qk + gl->d_v;
    return i < n_kv ? (uint64_t)i * pair : (uint64_t)n_kv * pair + (uint64_t)(i - n_kv) * gl->d_qk;
}

/* The head at which worker tid's share begins. */
static uint32_t first_head(const struct graph_layer *gl, uint32_t tid, uint32_t n_threads)
{
    uint32_t n = gl->n_k_heads + gl->n_query_heads, i = 0;
    uint64_t even = head_begin(gl, n) * tid / n_threads;
    while (i < n && head_begin(gl, i + 1) <= even)
        i++;
    bool is_next_nearer = i < n && head_begin(gl, i + 1) - even < even - head_begin(gl, i);
    return is_next_nearer ? i + 1 : i;
}

uint32_t decoder_rows_by_heads(const struct graph_layer *gl, uint32_t n_threads)
{
    uint64_t all = head_begin(gl, gl->n_k_heads + gl->n_query_heads), most = 0;
    for (uint32_t tid = 0; tid < n_threads; tid++) {
        uint64_t mine = head_begin(gl, first_head(gl, tid + 1, n_threads)) -
                        head_begin(gl, first_head(gl, tid, n_threads));
        most = mine > most ? mine : most;
    }
    if (most * n_threads == all)
        return UINT32_MAX;
    return most * n_threads * 8 <= all * 9 ? ROWS_FEW : 0;
}

static struct head_share share_heads(const struct decoder *d, const struct graph_layer *gl,
                                     uint32_t tid)
{
    uint32_t n_kv = gl->n_k_heads, n = workers_count(d->workers);
    uint32_t first = first_head(gl, tid, n), end = first_head(gl, tid + 1, n);
    return (struct head_share){
        .kv = {first < n_kv ? first : n_kv, end < n_kv ? end : n_kv},
        .q = {first > n_kv ? first - n_kv : 0, end > n_kv ? end - n_kv : 0},
    };
}

/* ---- projected ---- */

/* out = x W^T + bias, in these panels. */
static void project(const struct decoder *d, const struct packed_matrix *m, const float *bias,
                    const struct activations *x, const struct row_set *rows, struct span panels,
                    float *out)
{
    struct span columns = decoder_panel_columns(m, panels);
    if (columns.first == columns.end)
        return;
    decoder_product(d, m, x, rows, panels, out);
    for (uint32_t i = 0; bias != NULL && i < rows->n_runs; i++)
        for (uint32_t r = rows->runs[i].first; r < rows->runs[i].end; r++)
            d->kernels->vector.add(out + (size_t)r * m->n_rows + columns.first,
                                   bias + columns.first, columns.end - columns.first);
}

/* The panels of whole heads of a width. */
static struct span head_panels(struct span heads, uint32_t width)
{
    return (struct span){heads.first * (width / PANEL_ROWS), heads.end * (width / PANEL_ROWS)};
}

static void project_heads(const struct decoder *d, uint32_t l, const struct head_share *share,
                          const struct activations *x, const struct layer_rows *rows)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    const struct layer_weights *w = &d->model->weights->layers[l];
    project(d, &w->k, w->k_bias, x, rows->in, head_panels(share->kv, gl->d_qk), d->k);
    project(d, &w->v, w->v_bias, x, rows->in, head_panels(share->kv, gl->d_v), d->v);
    project(d, &w->q, w->q_bias, x, rows->through, head_panels(share->q, gl->d_qk), d->q);
}

static void project_evenly(const struct decoder *d, uint32_t tid, uint32_t l,
                           const struct activations *x, const struct layer_rows *rows)
{
    const struct layer_weights *w = &d->model->weights->layers[l];
    project(d, &w->q, w->q_bias, x, rows->through, decoder_panel_share(d, &w->q, tid), d->q);
    project(d, &w->k, w->k_bias, x, rows->in, decoder_panel_share(d, &w->k, tid), d->k);
    project(d, &w->v, w->v_bias, x, rows->in, decoder_panel_share(d, &w->v, tid), d->v);
}

/* ---- turned and stored ---- */

static uint32_t page_of(const struct attention_sequence *s, uint32_t position)
{
    uint32_t page = position / PAGE_TOKENS - s->first_page;
    for (uint32_t i = 0; i < s->n_runs; i++) {
        if (page < s->runs[i].n_pages)
            return s->runs[i].first_page + page;
        page -= s->runs[i].n_pages;
    }
    ASSERT(!"a row's page is in its sequence's runs");
    return 0;
}

/* Norms one head of row r (weight NULL: does not) and rotates it (or does not). */
static void turn_head(const struct decoder *d, uint32_t l, uint32_t r, const float *weight,
                      float *head)
{
    const struct graph *g = d->model->graph;
    const struct vector_kernels *v = &d->kernels->vector;
    const struct rope_table *rope = d->layers[l].rope;
    if (weight != NULL)
        v->rms_norm(head, weight, g->rms_eps, g->layers[l].d_qk, head);
    if (rope == NULL)
        return;
    size_t at = (size_t)r * (rope->n_dims / 2);
    rope_fn *rotate = g->rope_order == ROPE_HALVES ? v->rope_halves : v->rope_neighbours;
    rotate(head, rope->cosine + at, rope->sine + at, rope->n_dims);
}

/* Writes K/V head h of row r to its page. */
static void store_head(const struct decoder *d, uint32_t l, uint32_t r, uint32_t h)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    const struct attention_sequence *s =
        &d->batch->sequences[gl->cache_group * d->batch->n_sequences + d->row_sequence[r]];
    const struct kv_layer *memory = &d->layers[l].memory[s->pool];
    uint32_t position = s->first_position + (r - s->row_first);
    const float *k = d->k + ((size_t)r * gl->n_k_heads + h) * gl->d_qk;
    const float *v = d->v + ((size_t)r * gl->n_v_heads + h) * gl->d_v;
    char *unit = memory->base + h * memory->head_stride +
                 page_of(s, position) * memory->page_stride +
                 position % PAGE_TOKENS / ATTEND_UNIT * memory->unit_stride;
    d->kernels->attention.store[memory->type](gl->d_qk, gl->d_v, position % ATTEND_UNIT, k, v, unit,
                                              unit + memory->v_offset);
}

static void finish_kv_head(const struct decoder *d, uint32_t l, uint32_t r, uint32_t h)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    turn_head(d, l, r, d->model->weights->layers[l].k_norm,
              d->k + ((size_t)r * gl->n_k_heads + h) * gl->d_qk);
    store_head(d, l, r, h);
}

static void finish_q_head(const struct decoder *d, uint32_t l, uint32_t r, uint32_t h)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    turn_head(d, l, r, d->model->weights->layers[l].q_norm,
              d->q + ((size_t)r * gl->n_query_heads + h) * gl->d_qk);
}

typedef void finish_head_fn(const struct decoder *d, uint32_t l, uint32_t r, uint32_t h);

/* The worker's own heads, of every row. */
static void finish_own_heads(const struct decoder *d, uint32_t l, const struct row_set *rows,
                             struct span heads, finish_head_fn *finish)
{
    for (uint32_t i = 0; i < rows->n_runs; i++)
        for (uint32_t r = rows->runs[i].first; r < rows->runs[i].end; r++)
            for (uint32_t h = heads.first; h < heads.end; h++)
                finish(d, l, r, h);
}

/* Of (row, head) a share of each run. */
static void finish_evenly(const struct decoder *d, uint32_t tid, uint32_t l,
                          const struct row_set *rows, uint32_t n_heads, finish_head_fn *finish)
{
    for (uint32_t i = 0; i < rows->n_runs; i++) {
        struct span run = rows->runs[i];
        struct span items = decoder_share(d, (run.end - run.first) * n_heads, 1, tid);
        for (uint32_t k = items.first; k < items.end; k++)
            finish(d, l, run.first + k / n_heads, k % n_heads);
    }
}

void decoder_heads(struct decoder *d, uint32_t tid, uint32_t l, const struct activations *x,
                   const struct layer_rows *rows)
{
    const struct graph_layer *gl = &d->model->graph->layers[l];
    if (d->batch->n_rows <= d->layers[l].rows_by_heads) {
        struct head_share share = share_heads(d, gl, tid);
        project_heads(d, l, &share, x, rows);
        finish_own_heads(d, l, rows->in, share.kv, finish_kv_head);
        finish_own_heads(d, l, rows->through, share.q, finish_q_head);
    } else {
        project_evenly(d, tid, l, x, rows);
        workers_barrier(d->workers);
        finish_evenly(d, tid, l, rows->in, gl->n_k_heads, finish_kv_head);
        finish_evenly(d, tid, l, rows->through, gl->n_query_heads, finish_q_head);
    }
    workers_barrier(d->workers);
}
