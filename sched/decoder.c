/* decoder.c: the decoder's life: buffers for the widest step that the limits allow.
 *
 * WHY     A step must not allocate, so the widest step is paid for here, once.
 * HOW     Every buffer is a row of one table: what it is for, how many elements; taken, counted and
 *         given back in one loop. Where layers differ, the widest one decides; a layer's rows stand
 *         as close as its own width allows.
 * THREAD  engine
 * NOT     The arithmetic: decoder_step.c. What layers share: decoder_layers.c. Pages: decoder_pools.c.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

#include "config/mem.h"

size_t decoder_page_bytes(const struct graph *graph, uint32_t group, enum kv_type type)
{
    const struct graph_group *g = &graph->groups[group];
    return PAGE_UNITS * (kv_k_part_bytes(type, g->d_qk) + kv_v_part_bytes(type, g->d_v));
}

enum status decoder_take_buffers(const struct buffer_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (__builtin_mul_overflow(rows[i].elements, rows[i].element_bytes, &bytes))
            return STATUS_NO_MEMORY;
        *rows[i].where = mem_aligned(bytes);
        if (*rows[i].where == NULL)
            return STATUS_NO_MEMORY;
    }
    return OK;
}

static enum status act_rows_init(struct act_rows *act, size_t rows, uint32_t columns)
{
    act->n_columns = columns;
    size_t blocks = rows * (columns / ACT_BLOCK);
    const struct buffer_row table[] = {
        {(void **)&act->quants, rows * columns, 1},
        {(void **)&act->scale, blocks, sizeof(float)},
        {(void **)&act->scaled_sum, blocks, sizeof(float)},
        {(void **)&act->sum, blocks, sizeof(int32_t)},
    };
    return decoder_take_buffers(table, ARRAY_LEN(table));
}

static void act_rows_release(struct act_rows *act)
{
    mem_free(act->quants);
    mem_free(act->scale);
    mem_free(act->scaled_sum);
    mem_free(act->sum);
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct decoder_widths widest(const struct graph *g)
{
    struct decoder_widths w = {0};
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        w.q = max_u32(w.q, l->n_query_heads * l->d_qk);
        w.k = max_u32(w.k, l->n_k_heads * l->d_qk);
        w.v = max_u32(w.v, l->n_v_heads * l->d_v);
        w.attended = max_u32(w.attended, l->n_query_heads * l->d_v);
    }
    return w;
}

static enum status take_row_buffers(struct decoder *d)
{
    const struct graph *g = d->model->graph;
    size_t rows = d->limits.rows_max;
    size_t own = (size_t)workers_count(d->workers) * g->hidden;
    const struct buffer_row table[] = {
        {(void **)&d->residual, rows * g->hidden, sizeof(float)},
        {(void **)&d->normed, rows * g->hidden, sizeof(float)},
        {(void **)&d->q, rows * d->widths.q, sizeof(float)},
        {(void **)&d->k, rows * d->widths.k, sizeof(float)},
        {(void **)&d->v, rows * d->widths.v, sizeof(float)},
        {(void **)&d->attended, rows * d->widths.attended, sizeof(float)},
        {(void **)&d->product, rows * g->hidden, sizeof(float)},
        {(void **)&d->gate, rows * g->ffn, sizeof(float)},
        {(void **)&d->up, rows * g->ffn, sizeof(float)},
        {(void **)&d->logits, (size_t)d->limits.logit_rows_max * g->vocab, sizeof(float)},
        {(void **)&d->row_sequence, rows, sizeof(uint32_t)},
        {(void **)&d->typed_sequences, d->limits.sequences_max, sizeof *d->typed_sequences},
        {(void **)&d->own_values, own, sizeof(float)},
        {(void **)&d->own_residual, own, sizeof(float)},
        {(void **)&d->own_act, workers_count(d->workers), sizeof(struct act_rows)},
    };
    TRY(decoder_take_buffers(table, ARRAY_LEN(table)));
    TRY(act_rows_init(&d->hidden_act, rows, g->hidden));
    TRY(act_rows_init(&d->attended_act, rows, d->widths.attended));
    TRY(act_rows_init(&d->ffn_act, rows, g->ffn));
    for (uint32_t t = 0; t < workers_count(d->workers); t++)
        TRY(act_rows_init(&d->own_act[t], 1, max_u32(g->hidden, d->widths.attended)));
    return OK;
}

enum status decoder_new(const struct model *model, const struct kernels *kernels,
                        struct workers *workers, const struct decoder_limits *limits,
                        struct decoder **ret_decoder, struct why *ret_why)
{
    *ret_decoder = NULL;
    struct decoder *d = mem_zalloc(1, sizeof *d);
    if (d == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the decoder");
    d->model = model;
    d->kernels = kernels;
    d->workers = workers;
    d->limits = *limits;
    d->widths = widest(model->graph);
    enum status s = take_row_buffers(d);
    if (s == OK)
        s = decoder_watch_init(d);
    if (s == OK)
        s = decoder_layers_init(d, ret_why);
    else
        why_set(ret_why, s, "", "no memory for the decoder's buffers");
    if (s != OK)
        decoder_free(&d);
    *ret_decoder = d;
    return s;
}

void decoder_free(struct decoder **decoder)
{
    struct decoder *d = *decoder;
    if (d == NULL)
        return;
    void *const buffers[] = {
        d->residual,     d->normed,         d->q,  d->k,      d->v,          d->attended,
        d->product,      d->gate,           d->up, d->logits, d->own_values, d->own_residual,
        d->row_sequence, d->typed_sequences};
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++)
        mem_free(buffers[i]);
    act_rows_release(&d->hidden_act);
    act_rows_release(&d->attended_act);
    act_rows_release(&d->ffn_act);
    for (uint32_t t = 0; d->own_act != NULL && t < workers_count(d->workers); t++)
        act_rows_release(&d->own_act[t]);
    mem_free(d->own_act);
    decoder_watch_release(d);
    decoder_layers_release(d);
    mem_free(d);
    *decoder = NULL;
}
