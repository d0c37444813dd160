/* oracle_audit.c: the oracle, one query head at a time.
 *
 * WHY     Kernels are held against the oracle in tests; a candidate is held against it in service, with
 *         its own shapes, its own pages and the plan that it was loaded with.
 * HOW     A head is a shape of its own with one query head, so that the copy holds one head's K/V and not
 *         the layer's. Which heads are looked at goes round.
 * OWNS    The copy.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/oracle_audit.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/oracle/attention_oracle.h"

/* Tokens times heads of one sample: the scalar kernels take some 200 ns for each. Many small samples see more
 * than a few large ones. */
enum { SAMPLE_TOKENS = 256 };

struct oracle_audit {
    const struct graph *graph;
    enum kv_type type;
    struct kernels kernels; /* scalar */
    char *copy;
    size_t copy_bytes;
    uint32_t tokens_max;
    uint32_t next_head;
};

static struct attention_shape head_shape(const struct oracle_audit *a,
                                         const struct graph_layer *layer, uint32_t head)
{
    return (struct attention_shape){
        .n_query_heads = 1,
        .n_kv_heads = layer->n_k_heads,
        .d_qk = layer->d_qk,
        .d_v = layer->d_v,
        .window = layer->window,
        .type = a->type,
        .scale = layer->attention_scale,
        .query_to_k_head = layer->query_to_k_head + head,
        .query_to_v_head = layer->query_to_v_head + head,
    };
}

enum status oracle_audit_new(const struct graph *graph, enum kv_type type,
                             struct oracle_audit **ret_audit, struct why *ret_why)
{
    struct oracle_audit *a = *ret_audit = mem_zalloc(1, sizeof *a);
    if (a == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the oracle");
    a->graph = graph;
    a->type = type;
    a->tokens_max = graph->context < ORACLE_TOKENS_MAX ? graph->context : ORACLE_TOKENS_MAX;
    kernels_pick(1u << ISA_SCALAR, &a->kernels);
    for (uint32_t l = 0; l < graph->n_layers; l++) {
        struct attention_shape shape = head_shape(a, &graph->layers[l], 0);
        size_t bytes = oracle_repeat_bytes(&shape, a->tokens_max);
        a->copy_bytes = bytes > a->copy_bytes ? bytes : a->copy_bytes;
    }
    a->copy = mem_map(a->copy_bytes);
    if (a->copy != NULL) {
        a->copy[0] = 1; /* the system gives its first piece now, not to the first row */
        return OK;
    }
    oracle_audit_free(ret_audit);
    return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the oracle's copy of %u tokens",
                   graph->context);
}

void oracle_audit_free(struct oracle_audit **audit)
{
    if (*audit != NULL)
        mem_unmap((*audit)->copy, (*audit)->copy_bytes);
    mem_free(*audit);
    *audit = NULL;
}

struct difference {
    double most, largest; /* of got - want, of want */
    bool is_finite;
};

static void compare(const float *got, const float *want, uint32_t n, struct difference *d)
{
    for (uint32_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - (double)want[i]), size = fabs((double)want[i]);
        d->is_finite = d->is_finite && isfinite(got[i]) && isfinite(want[i]);
        d->most = off > d->most ? off : d->most;
        d->largest = size > d->largest ? size : d->largest;
    }
}

static void audit_head(const struct oracle_audit *a, const struct decoder_row *row, uint32_t head,
                       struct difference *d)
{
    const struct graph_layer *layer = &a->graph->layers[row->layer];
    struct attention_shape shape = head_shape(a, layer, head);
    struct attention_sequence one = row->sequence;
    float want[ATTEND_WIDTH_MAX];
    one.row_first = 0;
    oracle_repeat(&(struct oracle_attention){.shape = &shape,
                                             .kernels = &a->kernels.attention,
                                             .layer = row->memory,
                                             .sequence = &one,
                                             .q = row->q + (size_t)head * layer->d_qk,
                                             .out = want},
                  0, 1, a->copy);
    compare(row->attended + (size_t)head * layer->d_v, want, layer->d_v, d);
}

bool oracle_audit_row(struct oracle_audit *a, const struct decoder_row *row,
                      double *ret_difference)
{
    const struct graph_layer *layer = &a->graph->layers[row->layer];
    uint32_t n_tokens = row->sequence.first_position + 1;
    ASSERT(row->sequence.n_rows == 1);
    if (n_tokens > a->tokens_max)
        return false;
    uint32_t n_heads = SAMPLE_TOKENS / n_tokens;
    n_heads = n_heads < 1 ? 1 : n_heads > layer->n_query_heads ? layer->n_query_heads : n_heads;
    struct difference d = {.is_finite = true};
    for (uint32_t i = 0; i < n_heads; i++)
        audit_head(a, row, (a->next_head + i) % layer->n_query_heads, &d);
    a->next_head += n_heads;
    *ret_difference = !d.is_finite ? NAN : d.largest > 0.0 ? d.most / d.largest : d.most;
    return true;
}
