/* ledger.c: M5.7's byte and FLOP terms.
 *
 * WHY     Expected bytes must come from the formulas, never from the allocator they are held
 *         against.
 * HOW     K and V keep their own head counts and widths throughout; MHA, GQA and MQA are only
 *         values of them.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger.h"

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    ASSERT(!__builtin_mul_overflow(a, b, &product));
    return product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum = 0;
    ASSERT(!__builtin_add_overflow(a, b, &sum));
    return sum;
}

/* Elements of K and V that one token has. */
static uint64_t kv_width(const struct ledger_shape *s)
{
    return plus(times(s->k_heads, s->d_qk), times(s->v_heads, s->d_v));
}

static uint64_t qo_width(const struct ledger_shape *s)
{
    return times(s->query_heads, plus(s->d_qk, s->d_v));
}

uint64_t ledger_visible_tokens(const struct ledger_shape *s, uint64_t tokens)
{
    return s->window != 0 && s->window < tokens ? s->window : tokens;
}

uint64_t ledger_projection_parameters(const struct ledger_shape *s)
{
    return times(s->hidden, plus(qo_width(s), kv_width(s)));
}

uint64_t ledger_projection_flops(const struct ledger_shape *s, uint64_t rows)
{
    return times(2, times(rows, ledger_projection_parameters(s)));
}

uint64_t ledger_qk_flops(const struct ledger_shape *s, uint64_t rows, uint64_t tokens)
{
    uint64_t products = times(rows, ledger_visible_tokens(s, tokens));
    return times(times(2, products), times(s->query_heads, s->d_qk));
}

uint64_t ledger_pv_flops(const struct ledger_shape *s, uint64_t rows, uint64_t tokens)
{
    uint64_t products = times(rows, ledger_visible_tokens(s, tokens));
    return times(times(2, products), times(s->query_heads, s->d_v));
}

uint64_t ledger_append_bytes(const struct ledger_shape *s, uint64_t rows)
{
    return times(rows, times(kv_width(s), s->kv_bytes));
}

uint64_t ledger_history_bytes(const struct ledger_shape *s, uint64_t requests, uint64_t tokens)
{
    uint64_t rows = times(requests, ledger_visible_tokens(s, tokens));
    return times(rows, times(kv_width(s), s->kv_bytes));
}

uint64_t ledger_scale_bytes(const struct ledger_shape *s, uint64_t requests, uint64_t tokens)
{
    uint64_t rows = times(requests, ledger_visible_tokens(s, tokens));
    return times(rows, times(plus(s->k_heads, s->v_heads), s->kv_scale_bytes));
}

uint64_t ledger_fused_width(const struct ledger_shape *s)
{
    return plus(times(s->query_heads, s->d_qk), kv_width(s));
}

uint64_t ledger_repeat_bytes(const struct ledger_shape *s, uint64_t requests, uint64_t tokens)
{
    uint64_t rows = times(requests, ledger_visible_tokens(s, tokens));
    return times(rows, times(qo_width(s), s->kv_bytes));
}

double ledger_intensity(const struct ledger_shape *s)
{
    return 2.0 * (double)qo_width(s) / (double)times(kv_width(s), s->kv_bytes);
}

double ledger_intensity_repeated(const struct ledger_shape *s)
{
    return 2.0 / (double)s->kv_bytes;
}

uint64_t ledger_pinned_pages(const struct ledger_shape *s, uint64_t tokens, uint64_t page_tokens)
{
    ASSERT(page_tokens > 0);
    if (tokens == 0)
        return 0;
    uint64_t last = tokens - 1, window = s->window != 0 ? s->window : tokens;
    uint64_t first = last >= window ? last - window + 1 : 0;
    return last / page_tokens - first / page_tokens + 1;
}

uint64_t ledger_page_bytes(const struct ledger_shape *s, uint64_t page_tokens)
{
    uint64_t row = times(plus(s->d_qk, s->d_v), s->kv_bytes);
    return times(page_tokens, plus(row, times(2, s->kv_scale_bytes)));
}

uint64_t ledger_pinned_bytes(const struct ledger_shape *s, uint64_t tokens, uint64_t page_tokens)
{
    ASSERT(s->k_heads == s->v_heads);
    uint64_t pages = times(s->k_heads, ledger_pinned_pages(s, tokens, page_tokens));
    return times(pages, ledger_page_bytes(s, page_tokens));
}

/* True if one of the rank's query heads reads K/V head `kv`. */
static bool rank_reads(const uint16_t *map, uint32_t heads_a_rank, uint32_t rank, uint32_t kv)
{
    for (uint32_t i = 0; i < heads_a_rank; i++) {
        if (map[rank * heads_a_rank + i] == kv)
            return true;
    }
    return false;
}

struct ledger_placement ledger_place(const uint16_t *map, uint32_t query_heads, uint32_t kv_heads,
                                     uint32_t ranks)
{
    ASSERT(ranks > 0 && query_heads % ranks == 0);
    struct ledger_placement p = {.kv_heads = kv_heads};
    for (uint32_t kv = 0; kv < kv_heads; kv++) {
        uint64_t replicas = 0;
        for (uint32_t rank = 0; rank < ranks; rank++)
            replicas += rank_reads(map, query_heads / ranks, rank, kv);
        p.replicas += replicas;
        p.replicas_most = replicas > p.replicas_most ? replicas : p.replicas_most;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t heads = 0;
        for (uint32_t kv = 0; kv < kv_heads; kv++)
            heads += rank_reads(map, query_heads / ranks, rank, kv);
        p.rank_heads_most = heads > p.rank_heads_most ? heads : p.rank_heads_most;
    }
    return p;
}

/* Bytes that one K/V head of the layer has a token. */
static uint64_t head_bytes(const struct ledger_shape *s)
{
    ASSERT(s->k_heads == s->v_heads);
    return times(plus(s->d_qk, s->d_v), s->kv_bytes);
}

uint64_t ledger_physical_bytes(const struct ledger_shape *s, const struct ledger_placement *p,
                               uint64_t requests, uint64_t tokens)
{
    return times(times(requests, tokens), times(head_bytes(s), p->replicas));
}

uint64_t ledger_rank_bytes(const struct ledger_shape *s, const struct ledger_placement *p,
                           uint64_t requests, uint64_t tokens)
{
    return times(times(requests, tokens), times(head_bytes(s), p->rank_heads_most));
}

uint64_t ledger_replica_append_bytes(const struct ledger_shape *s, const struct ledger_placement *p,
                                     uint64_t rows)
{
    return times(rows, times(head_bytes(s), p->replicas - p->kv_heads));
}

uint64_t ledger_remote_history_bytes(const struct ledger_shape *s, const struct ledger_placement *p,
                                     uint64_t requests, uint64_t tokens)
{
    return times(times(requests, tokens), times(head_bytes(s), p->replicas - p->kv_heads));
}

uint32_t ledger_producers(const uint32_t *source, uint32_t n_layers)
{
    uint32_t producers = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        producers += source[l] == l;
    return producers;
}

uint64_t ledger_model_projection_parameters(const struct ledger_shape *layers,
                                            const uint32_t *source, uint32_t n_layers)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++) {
        uint64_t width = plus(qo_width(&layers[l]), source[l] == l ? kv_width(&layers[l]) : 0);
        sum = plus(sum, times(layers[l].hidden, width));
    }
    return sum;
}

uint64_t ledger_model_resident_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                     uint32_t n_layers, uint64_t requests, uint64_t tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        sum = plus(sum, source[l] == l ? ledger_history_bytes(&layers[l], requests, tokens) : 0);
    return sum;
}

uint64_t ledger_model_history_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                    uint32_t n_layers, uint64_t requests, uint64_t tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++) {
        ASSERT(source[l] < n_layers && source[source[l]] == source[l]);
        sum = plus(sum, ledger_history_bytes(&layers[source[l]], requests, tokens));
    }
    return sum;
}

uint64_t ledger_model_append_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                   uint32_t n_layers, uint64_t rows)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        sum = plus(sum, source[l] == l ? ledger_append_bytes(&layers[l], rows) : 0);
    return sum;
}

uint64_t ledger_model_attention_flops(const struct ledger_shape *layers, uint32_t n_layers,
                                      uint64_t rows, uint64_t tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        sum = plus(sum, plus(ledger_qk_flops(&layers[l], rows, tokens),
                             ledger_pv_flops(&layers[l], rows, tokens)));
    return sum;
}

uint64_t ledger_model_scale_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                  uint32_t n_layers, uint64_t requests, uint64_t tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        sum = plus(sum, source[l] == l ? ledger_scale_bytes(&layers[l], requests, tokens) : 0);
    return sum;
}

uint64_t ledger_model_pinned_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                   uint32_t n_layers, uint64_t tokens, uint64_t page_tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < n_layers; l++)
        sum = plus(sum, source[l] == l ? ledger_pinned_bytes(&layers[l], tokens, page_tokens) : 0);
    return sum;
}

uint64_t ledger_stage_append_bytes(const struct ledger_shape *s, uint64_t crossings, uint64_t rows)
{
    return times(crossings, ledger_append_bytes(s, rows));
}
