/* decoder_rig.c: memory for every group, whole contexts in one run of pages. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/decoder_rig.h"

#include <check.h>
#include <math.h>

#include "config/mem.h"

enum { LOGIT_ROWS = 64 };

static void take_memory(struct decoder_rig *rig)
{
    const struct graph *g = rig->model->graph;
    rig->memory.type = rig->model->kv_type;
    for (uint32_t i = 0; i < g->n_groups; i++) {
        struct decoder_group_memory *m = &rig->memory.groups[i];
        m->page_bytes = decoder_page_bytes(g, i, rig->model->kv_type);
        m->head_stride = m->page_bytes * rig->n_pages;
        m->layer_stride = m->head_stride * g->groups[i].n_heads;
        rig->memory_bytes[i] = m->layer_stride * g->groups[i].n_layers;
        m->base = mem_map(rig->memory_bytes[i]);
        ck_assert_ptr_nonnull(m->base);
        memset(m->base, 0xff, rig->memory_bytes[i]); /* NaN in every type: nothing may be read */
    }
}

void decoder_rig_init(struct decoder_rig *rig, const struct gguf *gguf, enum kv_type type,
                      const char *isa, uint32_t n_threads, uint32_t n_tokens_max)
{
    struct why why = {0};
    memset(rig, 0, sizeof *rig);
    if (isa == NULL)
        kernels_pick(isa_available(), &rig->kernels);
    else
        ck_assert_msg(kernels_pick_named(isa, &rig->kernels, &why) == OK, "%s", why.text);
    ck_assert_msg(workers_new(n_threads, &rig->workers, &why) == OK, "%s", why.text);
    ck_assert_msg(model_load(gguf, type, &rig->kernels, rig->workers, &rig->model, &why) == OK,
                  "%s", why.text);
    rig->n_pages = (n_tokens_max + PAGE_TOKENS - 1) / PAGE_TOKENS;
    take_memory(rig);
    struct decoder_limits limits = {.rows_max =
                                        n_tokens_max < LOGIT_ROWS ? LOGIT_ROWS : n_tokens_max,
                                    .sequences_max = 1,
                                    .logit_rows_max = LOGIT_ROWS,
                                    .context_max = rig->n_pages * PAGE_TOKENS};
    enum status s =
        decoder_new(rig->model, &rig->kernels, rig->workers, &limits, &rig->decoder, &why);
    uint32_t pool;
    if (s == OK)
        s = decoder_attach(rig->decoder, &rig->memory, &pool, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    ck_assert_uint_eq(pool, 0);
}

void decoder_rig_release(struct decoder_rig *rig)
{
    decoder_free(&rig->decoder);
    for (uint32_t i = 0; i < rig->model->graph->n_groups; i++)
        mem_unmap(rig->memory.groups[i].base, rig->memory_bytes[i]);
    model_free(&rig->model);
    workers_free(&rig->workers);
}

void decoder_rig_step(struct decoder_rig *rig, const uint32_t *ids, uint32_t first, uint32_t n)
{
    const struct graph *g = rig->model->graph;
    struct attention_sequence sequences[GRAPH_CACHE_GROUPS_MAX];
    for (uint32_t i = 0; i < g->n_groups; i++) {
        uint32_t window = g->groups[i].window;
        uint32_t page = window > 0 && first >= window ? (first - window + 1) / PAGE_TOKENS : 0;
        rig->runs[i] = (struct page_run){page, rig->n_pages - page};
        sequences[i] = (struct attention_sequence){.runs = &rig->runs[i],
                                                   .n_runs = 1,
                                                   .first_page = page,
                                                   .first_position = first,
                                                   .n_rows = n};
    }
    static const uint32_t one = 1;
    struct decoder_batch batch = {.n_rows = n,
                                  .n_sequences = 1,
                                  .ids = ids + first,
                                  .sequences = sequences,
                                  .n_asked = rig->asks_last_only ? &one : NULL};
    ck_assert_int_eq(decoder_step(rig->decoder, &batch), OK);
}

/* log softmax(z)[id] */
static double log_probability(const float *z, uint32_t n, uint32_t peak, uint32_t id)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)z[i] - (double)z[peak]);
    return (double)z[id] - (double)z[peak] - log(sum);
}

void decoder_rig_score(struct decoder_rig *rig, const uint32_t *ids, uint32_t n, uint32_t chunk,
                       double *ret_chosen, uint32_t *ret_top1)
{
    uint32_t vocab = rig->model->graph->vocab, rows[LOGIT_ROWS];
    const float *z = NULL;
    for (uint32_t t = 0; t < n; t++) {
        uint32_t first = t / chunk * chunk, end = n - first < chunk ? n : first + chunk;
        uint32_t r = (t - first) % LOGIT_ROWS, peak = 0;
        if (t == first)
            decoder_rig_step(rig, ids, first, end - first);
        if (r == 0) { /* the logits of this row and those after it */
            uint32_t n_rows = end - t < LOGIT_ROWS ? end - t : LOGIT_ROWS;
            for (uint32_t i = 0; i < n_rows; i++)
                rows[i] = t - first + i;
            z = decoder_logits(rig->decoder, rows, n_rows);
        }
        const float *row = z + (size_t)r * vocab;
        for (uint32_t i = 1; i < vocab; i++)
            peak = row[i] > row[peak] ? i : peak;
        ret_top1[t] = peak;
        if (t + 1 < n)
            ret_chosen[t] = log_probability(row, vocab, peak, ids[t + 1]);
    }
}
