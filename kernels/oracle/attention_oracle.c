/* attention_oracle.c: paged attention one query head and one row at a time, over K/V in place or
 * over copies.
 *
 * HOW     A source says where unit u of a query head is. Rows, heads and chunks are plain loops;
 *         nothing is shared with the plan, the schedule or the run, so an error in those shows as a
 *         difference.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/attention_oracle.h"

#include <string.h>

enum { ADDRESSES = ATTEND_CHUNK_UNITS + 2 * ATTEND_STEP_UNITS };

/* Where the K or V parts of one query head lie: in pages, or one behind the other in a copy. */
struct source {
    const struct oracle_attention *pages; /* NULL: a copy */
    const char *base;
    size_t stride;      /* of a copy's units */
    uint32_t unit_first; /* those before it lie behind every row's window */
    uint32_t n_units;
};

struct head_sources {
    struct source k, v;
};

static size_t k_bytes(const struct attention_shape *shape)
{
    return kv_k_part_bytes(shape->type, shape->d_qk);
}

static size_t unit_bytes(const struct attention_shape *shape)
{
    return k_bytes(shape) + kv_v_part_bytes(shape->type, shape->d_v);
}

static uint32_t units_of(uint32_t n_tokens)
{
    return (n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
}

static uint32_t physical_page(const struct attention_sequence *s, uint32_t page)
{
    const struct page_run *run = s->runs;
    page -= s->first_page;
    while (page >= run->n_pages)
        page -= run++->n_pages;
    return run->first_page + page;
}

static const char *unit_address(const struct source *source, uint32_t u)
{
    u = u < source->unit_first ? source->unit_first : u < source->n_units ? u : source->n_units - 1;
    if (source->pages == NULL)
        return source->base + u * source->stride;
    const struct kv_layer *layer = source->pages->layer;
    return source->base +
           physical_page(source->pages->sequence, u / PAGE_UNITS) * layer->page_stride +
           u % PAGE_UNITS * layer->unit_stride;
}

/* The first token that a row at a position sees. */
static uint32_t token_first(const struct attention_shape *shape, uint32_t position)
{
    return shape->window == 0 || position < shape->window ? 0 : position - shape->window + 1;
}

static uint32_t unit_first(const struct oracle_attention *o)
{
    return token_first(o->shape, o->sequence->first_position) / ATTEND_UNIT;
}

static struct head_sources sources_in_pages(const struct oracle_attention *o, uint32_t head,
                                            uint32_t n_units)
{
    const struct kv_layer *layer = o->layer;
    const char *k = layer->base + o->shape->query_to_k_head[head] * layer->head_stride;
    const char *v =
        layer->base + o->shape->query_to_v_head[head] * layer->head_stride + layer->v_offset;
    uint32_t first = unit_first(o);
    return (struct head_sources){{o, k, 0, first, n_units}, {o, v, 0, first, n_units}};
}

static struct head_sources sources_in_copy(const struct oracle_attention *o, const char *copy,
                                           uint32_t n_units)
{
    size_t stride = unit_bytes(o->shape);
    uint32_t first = unit_first(o);
    return (struct head_sources){{NULL, copy, stride, first, n_units},
                                 {NULL, copy + k_bytes(o->shape), stride, first, n_units}};
}

/* One chunk of one row, which sees its tokens first..n_tokens-1, into m, l and acc. */
static void attend_chunk(const struct oracle_attention *o, const struct head_sources *from,
                         const float *q, uint32_t chunk, uint32_t first, uint32_t n_tokens,
                         float *m, float *l, float *acc)
{
    const void *k[ADDRESSES], *v[ADDRESSES];
    for (uint32_t i = 0; i < units_of(n_tokens) + 2 * ATTEND_STEP_UNITS; i++) {
        k[i] = unit_address(&from->k, chunk * ATTEND_CHUNK_UNITS + i);
        v[i] = unit_address(&from->v, chunk * ATTEND_CHUNK_UNITS + i);
    }
    uint16_t row_tokens = (uint16_t)n_tokens, row_first = (uint16_t)first;
    o->kernels->chunk[o->shape->type](&(struct attend_tile){
        .n_rows = 1,
        .d_qk = o->shape->d_qk,
        .d_v = o->shape->d_v,
        .q = q,
        .n_tokens = n_tokens,
        .row_tokens = &row_tokens,
        .row_first = &row_first,
        .k_units = k,
        .v_units = v,
        .k_ahead = k + ATTEND_STEP_UNITS,
        .v_ahead = v + ATTEND_STEP_UNITS,
        .k_far = k + 2 * ATTEND_STEP_UNITS,
        .v_far = v + 2 * ATTEND_STEP_UNITS,
        .m = m,
        .l = l,
        .acc = acc,
    });
}

/* The row at a position, of one query head. */
static void attend_row(const struct oracle_attention *o, const struct head_sources *from,
                       uint32_t position, const float *q, float *out)
{
    uint32_t first = token_first(o->shape, position), n_tokens = position + 1;
    uint32_t chunk_first = first / ATTEND_CHUNK;
    float scaled[ATTEND_Q_STRIDE];
    float acc[ATTEND_WIDTH_MAX], acc2[ATTEND_WIDTH_MAX];
    float m, l, m2, l2;
    for (uint32_t i = 0; i < o->shape->d_qk; i++)
        scaled[i] = q[i] * o->shape->scale;
    for (uint32_t chunk = chunk_first; chunk * ATTEND_CHUNK < n_tokens; chunk++) {
        uint32_t left = n_tokens - chunk * ATTEND_CHUNK;
        uint32_t n = left < ATTEND_CHUNK ? left : ATTEND_CHUNK;
        if (chunk == chunk_first) {
            attend_chunk(o, from, scaled, chunk, first % ATTEND_CHUNK, n, &m, &l, acc);
        } else {
            attend_chunk(o, from, scaled, chunk, 0, n, &m2, &l2, acc2);
            o->kernels->merge(o->shape->d_v, &m, &l, acc, m2, l2, acc2);
        }
    }
    o->kernels->finish(o->shape->d_v, l, acc, out);
}

static void attend_rows(const struct oracle_attention *o, const struct head_sources *from,
                        uint32_t head)
{
    const struct attention_sequence *s = o->sequence;
    for (uint32_t r = 0; r < s->n_rows; r++) {
        size_t head_row = (size_t)(s->row_first + r) * o->shape->n_query_heads + head;
        attend_row(o, from, s->first_position + r, o->q + head_row * o->shape->d_qk,
                   o->out + head_row * o->shape->d_v);
    }
}

void oracle_owner_map(const struct oracle_attention *o, uint32_t head_first, uint32_t head_end)
{
    uint32_t n_units = units_of(o->sequence->first_position + o->sequence->n_rows);
    for (uint32_t head = head_first; head < head_end; head++) {
        struct head_sources from = sources_in_pages(o, head, n_units);
        attend_rows(o, &from, head);
    }
}

size_t oracle_repeat_bytes(const struct attention_shape *shape, uint32_t n_tokens)
{
    return unit_bytes(shape) * units_of(n_tokens) * shape->n_query_heads;
}

void oracle_repeat(const struct oracle_attention *o, uint32_t head_first, uint32_t head_end,
                   char *copy)
{
    uint32_t n_units = units_of(o->sequence->first_position + o->sequence->n_rows);
    size_t bytes = unit_bytes(o->shape);
    for (uint32_t head = head_first; head < head_end; head++) {
        struct head_sources pages = sources_in_pages(o, head, n_units);
        char *to = copy + (head * n_units + unit_first(o)) * bytes;
        for (uint32_t u = unit_first(o); u < n_units; u++, to += bytes) {
            memcpy(to, unit_address(&pages.k, u), k_bytes(o->shape));
            memcpy(to + k_bytes(o->shape), unit_address(&pages.v, u), bytes - k_bytes(o->shape));
        }
    }
    for (uint32_t head = head_first; head < head_end; head++) {
        struct head_sources from = sources_in_copy(o, copy + head * n_units * bytes, n_units);
        attend_rows(o, &from, head);
    }
}
