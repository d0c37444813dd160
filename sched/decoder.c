/* decoder.c: the decoder's life: buffers for the widest step, the attention plan, rotation
 * frequencies.
 *
 * WHY     A step must not allocate, so the widest step that the limits allow is paid for here,
 *         once.
 * HOW     Every buffer is a row of one table: what it is for, how many elements; taken, counted and
 *         given back in one loop.
 * ALWAYS  (1) The plan is made for one architecture hash and one cache generation.     decoder_new
 * THREAD  engine
 * NOT     The arithmetic: decoder_step.c.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

#include "config/mem.h"
#include "kernels/elementary.h"

/* A buffer: where its pointer is kept, and its size. */
struct buffer_row {
    void **where;
    size_t elements;
    size_t element_bytes;
};

size_t decoder_page_bytes(const struct graph *graph, enum kv_type type)
{
    const struct graph_layer *l = &graph->layers[0];
    return PAGE_UNITS * (kv_k_part_bytes(type, l->d_qk) + kv_v_part_bytes(type, l->d_v));
}

static enum status take_buffers(const struct buffer_row *rows, size_t n)
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
    return take_buffers(table, ARRAY_LEN(table));
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

static enum status take_row_buffers(struct decoder *d)
{
    const struct graph *g = d->model->graph;
    const struct graph_layer *l = &g->layers[0];
    size_t rows = d->limits.rows_max;
    size_t half = l->rope_dims / 2;
    uint32_t attended = l->n_query_heads * l->d_v;
    d->own_columns = max_u32(g->hidden, attended);
    const struct buffer_row table[] = {
        {(void **)&d->residual, rows * g->hidden, sizeof(float)},
        {(void **)&d->normed, rows * g->hidden, sizeof(float)},
        {(void **)&d->q, rows * l->n_query_heads * l->d_qk, sizeof(float)},
        {(void **)&d->k, rows * l->n_k_heads * l->d_qk, sizeof(float)},
        {(void **)&d->v, rows * l->n_v_heads * l->d_v, sizeof(float)},
        {(void **)&d->attended, rows * attended, sizeof(float)},
        {(void **)&d->product, rows * g->hidden, sizeof(float)},
        {(void **)&d->gate, rows * g->ffn, sizeof(float)},
        {(void **)&d->up, rows * g->ffn, sizeof(float)},
        {(void **)&d->cosine, rows * half, sizeof(float)},
        {(void **)&d->sine, rows * half, sizeof(float)},
        {(void **)&d->rope_frequency, half, sizeof(double)},
        {(void **)&d->logits, (size_t)d->limits.logit_rows_max * g->vocab, sizeof(float)},
        {(void **)&d->row_sequence, rows, sizeof(uint32_t)},
        {(void **)&d->own_values, (size_t)workers_count(d->workers) * d->own_columns,
         sizeof(float)},
        {(void **)&d->own_act, workers_count(d->workers), sizeof(struct act_rows)},
    };
    TRY(take_buffers(table, ARRAY_LEN(table)));
    TRY(act_rows_init(&d->hidden_act, rows, g->hidden));
    TRY(act_rows_init(&d->attended_act, rows, attended));
    TRY(act_rows_init(&d->ffn_act, rows, g->ffn));
    for (uint32_t t = 0; t < workers_count(d->workers); t++)
        TRY(act_rows_init(&d->own_act[t], 1, d->own_columns));
    return OK;
}

/* base^(-2i / dims) for the i-th pair. */
static void fill_frequencies(struct decoder *d)
{
    const struct graph_layer *l = &d->model->graph->layers[0];
    double log_base = elementary_log(l->rope_base);
    for (uint32_t i = 0; i < l->rope_dims / 2; i++)
        d->rope_frequency[i] = elementary_exp(-log_base * 2.0 * (double)i / (double)l->rope_dims);
}

static enum status make_plan(struct decoder *d, struct why *ret_why)
{
    const struct graph_layer *l = &d->model->graph->layers[0];
    struct attention_shape shape = {
        .n_query_heads = l->n_query_heads,
        .n_kv_heads = l->n_k_heads,
        .d_qk = l->d_qk,
        .d_v = l->d_v,
        .type = d->model->kv_type,
        .scale = l->attention_scale,
        .query_to_k_head = l->query_to_k_head,
        .query_to_v_head = l->query_to_v_head,
        .n_threads = workers_count(d->workers),
        .rows_max = d->limits.rows_max,
        .sequences_max = d->limits.sequences_max,
        .context_max = d->limits.context_max,
    };
    memcpy(shape.architecture_hash, d->model->manifest->architecture_hash, SHA256_BYTES);
    memcpy(shape.cache_generation, d->memory.generation, SHA256_BYTES);
    return attention_plan_new(&shape, &d->kernels->attention, &d->plan, ret_why);
}

/* One plan, one frequency table and one set of buffers serve all layers: so all must have one
 * shape. */
static enum status check_one_shape(const struct graph *g, struct why *ret_why)
{
    const struct graph_layer *first = &g->layers[0];
    for (uint32_t i = 1; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        bool same = l->n_query_heads == first->n_query_heads && l->n_k_heads == first->n_k_heads &&
                    l->n_v_heads == first->n_v_heads && l->d_qk == first->d_qk &&
                    l->d_v == first->d_v && l->rope_dims == first->rope_dims;
        if (!same)
            return why_set(ret_why, STATUS_BAD_FILE, "block_count",
                           "layer %u has another head shape than layer 0", i);
    }
    return OK;
}

enum status decoder_new(const struct model *model, const struct kernels *kernels,
                        struct workers *workers, const struct decoder_limits *limits,
                        const struct decoder_memory *memory, struct decoder **ret_decoder,
                        struct why *ret_why)
{
    *ret_decoder = NULL;
    TRY(check_one_shape(model->graph, ret_why));
    struct decoder *d = mem_zalloc(1, sizeof *d);
    if (d == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the decoder");
    d->model = model;
    d->kernels = kernels;
    d->workers = workers;
    d->limits = *limits;
    d->memory = *memory;
    enum status s = take_row_buffers(d);
    if (s == OK) {
        fill_frequencies(d);
        s = make_plan(d, ret_why);
    } else {
        why_set(ret_why, s, "", "no memory for the decoder's buffers");
    }
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
    void *const buffers[] = {d->residual,   d->normed,         d->q,           d->k,
                             d->v,          d->attended,       d->product,     d->gate,
                             d->up,         d->cosine,         d->sine,        d->logits,
                             d->own_values, d->rope_frequency, d->row_sequence};
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++)
        mem_free(buffers[i]);
    act_rows_release(&d->hidden_act);
    act_rows_release(&d->attended_act);
    act_rows_release(&d->ffn_act);
    for (uint32_t t = 0; d->own_act != NULL && t < workers_count(d->workers); t++)
        act_rows_release(&d->own_act[t]);
    mem_free(d->own_act);
    attention_plan_free(&d->plan);
    mem_free(d);
    *decoder = NULL;
}

void decoder_copy_page(const struct decoder *d, uint32_t from_page, uint32_t to_page,
                       uint32_t n_tokens)
{
    uint32_t units = (n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
    size_t bytes = d->memory.page_bytes / PAGE_UNITS * units;
    const struct graph *g = d->model->graph;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        for (uint32_t h = 0; h < g->layers[l].n_k_heads; h++) {
            char *head = d->memory.base + l * d->memory.layer_stride + h * d->memory.head_stride;
            memcpy(head + to_page * d->memory.page_bytes, head + from_page * d->memory.page_bytes,
                   bytes);
        }
    }
}
