/* ledger_report.c: the ledger's tables of one graph.
 *
 * HOW     One walk gathers the rows of every table by the formulas and hands each to a form, which
 *         prints it: ledger_report_json.c or ledger_report_text.c.
 * NOT     Nothing here is measured or allocated: what an allocator holds is metrics' to say.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger_report.h"

#include <inttypes.h>

#include "config/ledger_report_priv.h"
#include "config/mem.h"

enum { TEXT_MAX = 1 << 24 };

/* In the order of column_of. */
const char *const ledger_report_figures[REPORT_FIGURES] = {
    "kv_heads",         "projection_parameters",  "projection_flops_per_token",
    "qk_pv_flops_at_T", "append_bytes_per_token", "history_bytes_at_T",
    "scale_bytes_at_T", "repeated_bytes_at_T",    "fused_qkv_width",
};

struct ledger_shape ledger_report_shape(const struct ledger_report *r, uint32_t layer)
{
    const struct graph_layer *l = &r->graph->layers[layer];
    return (struct ledger_shape){.hidden = r->graph->hidden,
                                 .query_heads = l->n_query_heads,
                                 .k_heads = l->n_k_heads,
                                 .v_heads = l->n_v_heads,
                                 .d_qk = l->d_qk,
                                 .d_v = l->d_v,
                                 .kv_bytes = r->kv_bytes,
                                 .kv_scale_bytes = r->kv_scale_bytes,
                                 .window = l->window};
}

/* The layer with as many K/V heads as the arrangement has: its own, H_q or 1. */
static struct ledger_shape arranged(const struct ledger_report *r, uint32_t layer, int arrangement)
{
    struct ledger_shape s = ledger_report_shape(r, layer);
    if (arrangement > 0)
        s.k_heads = s.v_heads = arrangement == 1 ? s.query_heads : 1;
    return s;
}

static struct report_column column_of(const struct ledger_shape *s, uint64_t tokens)
{
    return (struct report_column){
        .figures = {s->k_heads, ledger_projection_parameters(s), ledger_projection_flops(s, 1),
                    ledger_qk_flops(s, 1, tokens) + ledger_pv_flops(s, 1, tokens),
                    ledger_append_bytes(s, 1), ledger_history_bytes(s, 1, tokens),
                    ledger_scale_bytes(s, 1, tokens), ledger_repeat_bytes(s, 1, tokens),
                    ledger_fused_width(s)},
        .intensity = ledger_intensity(s),
    };
}

static struct report_column all_layers(const struct ledger_report *r, int arrangement)
{
    struct report_column sum = {0};
    for (uint32_t l = 0; l < r->graph->n_layers; l++) {
        struct ledger_shape s = arranged(r, l, arrangement);
        struct report_column one = column_of(&s, r->tokens);
        for (int i = 0; i < REPORT_FIGURES; i++)
            sum.figures[i] += one.figures[i];
    }
    return sum;
}

/* The same shape, and the same map of K heads. */
static bool is_alike(const struct graph_layer *a, const struct graph_layer *b)
{
    return a->cache_group == b->cache_group && a->n_query_heads == b->n_query_heads &&
           memcmp(a->query_to_k_head, b->query_to_k_head,
                  a->n_query_heads * sizeof *a->query_to_k_head) == 0;
}

/* True if no layer before it is alike: the one that stands for all of them. */
static bool is_first_of_its_kind(const struct graph *g, uint32_t layer)
{
    for (uint32_t i = 0; i < layer; i++) {
        if (is_alike(&g->layers[i], &g->layers[layer]))
            return false;
    }
    return true;
}

/* ---- the walk ---- */

static void gather_placements(const struct ledger_report *r, uint32_t layer,
                              struct report_kind *kind)
{
    const struct graph_layer *l = &r->graph->layers[layer];
    struct ledger_shape s = ledger_report_shape(r, layer);
    uint64_t tokens = ledger_visible_tokens(&s, r->tokens);
    for (uint32_t ranks = 1; ranks <= REPORT_RANKS_MAX; ranks *= 2) {
        if (l->n_query_heads % ranks != 0)
            continue;
        struct ledger_placement p =
            ledger_place(l->query_to_k_head, l->n_query_heads, l->n_k_heads, ranks);
        kind->placements[kind->n_placements++] = (struct report_placement){
            .ranks = ranks,
            .replicas_most = p.replicas_most,
            .rank_bytes = ledger_rank_bytes(&s, &p, 1, tokens),
            .physical_bytes = ledger_physical_bytes(&s, &p, 1, tokens),
            .replica_append_bytes = ledger_replica_append_bytes(&s, &p, 1),
            .remote_bytes = ledger_remote_history_bytes(&s, &p, 1, tokens)};
    }
}

/* Query heads on the K head with the fewest, and on that with the most. */
static void gather_group_sizes(const struct graph_layer *l, struct report_kind *kind)
{
    kind->group_least = UINT32_MAX;
    for (uint32_t owner = 0; owner < l->n_k_heads; owner++) {
        uint32_t n = 0;
        for (uint32_t head = 0; head < l->n_query_heads; head++)
            n += l->query_to_k_head[head] == owner;
        kind->group_least = n < kind->group_least ? n : kind->group_least;
        kind->group_most = n > kind->group_most ? n : kind->group_most;
    }
}

static void walk_layers(struct text_buf *out, const struct ledger_report *r,
                        const struct report_form *form)
{
    struct report_column sums[REPORT_ARRANGEMENTS];
    for (uint32_t first = 0; first < r->graph->n_layers; first++) {
        struct report_kind kind = {.first = first};
        if (!is_first_of_its_kind(r->graph, first))
            continue;
        gather_group_sizes(&r->graph->layers[first], &kind);
        for (int a = 0; a < REPORT_ARRANGEMENTS; a++) {
            struct ledger_shape s = arranged(r, first, a);
            kind.columns[a] = column_of(&s, r->tokens);
        }
        gather_placements(r, first, &kind);
        form->kind(out, r, &kind);
    }
    for (int a = 0; a < REPORT_ARRANGEMENTS; a++)
        sums[a] = all_layers(r, a);
    form->all_layers(out, r, sums);
}

/* False if the layers are no pairs of one shape. Without memory out has failed, too. */
static bool share_layers(const struct ledger_report *r, struct text_buf *out,
                         struct report_shared *ret_shared)
{
    const struct graph *g = r->graph;
    struct ledger_shape *layers = NULL;
    uint32_t *source = NULL;
    if (g->n_groups != 1 || g->n_layers % 2 != 0)
        return false;
    layers = mem_zalloc(g->n_layers, sizeof *layers);
    source = mem_zalloc(g->n_layers, sizeof *source);
    bool is_made = layers != NULL && source != NULL;
    for (uint32_t step = 0; is_made && step < 2; step++) {
        for (uint32_t l = 0; l < g->n_layers; l++) {
            layers[l] = ledger_report_shape(r, l);
            source[l] = step == 0 ? l : l / 2 * 2;
        }
        ret_shared->producers[step] = ledger_producers(source, g->n_layers);
        ret_shared->projection_parameters[step] =
            ledger_model_projection_parameters(layers, source, g->n_layers);
        ret_shared->resident_bytes[step] =
            ledger_model_resident_bytes(layers, source, g->n_layers, 1, r->tokens);
        ret_shared->read_bytes[step] =
            ledger_model_history_bytes(layers, source, g->n_layers, 1, r->tokens);
    }
    out->is_failed |= !is_made;
    mem_free(source);
    mem_free(layers);
    return is_made;
}

static void walk(struct text_buf *out, const struct ledger_report *r,
                 const struct report_form *form)
{
    struct report_shared shared;
    form->begin(out, r);
    walk_layers(out, r, form);
    if (share_layers(r, out, &shared))
        form->shared(out, &shared);
    for (uint32_t i = 0; i < r->graph->n_groups; i++) {
        const struct graph_group *group = &r->graph->groups[i];
        struct ledger_shape s = ledger_report_shape(r, group->layers[0]);
        const struct report_group row = {
            .i = i,
            .group = group,
            .page_bytes = ledger_page_bytes(&s, r->page_tokens),
            .pages_pinned = ledger_pinned_pages(&s, r->tokens, r->page_tokens),
            .bytes_pinned = group->n_layers * ledger_pinned_bytes(&s, r->tokens, r->page_tokens)};
        form->group(out, &row);
    }
    form->end(out);
}

static char *print(const struct ledger_report *r, const struct report_form *form)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    walk(&out, r, form);
    char *text = text_buf_take(&out);
    text_buf_release(&out);
    return text;
}

void ledger_report_list_layers(struct text_buf *out, const struct graph *g, uint32_t first,
                               const char *between)
{
    for (uint32_t i = first; i < g->n_layers; i++) {
        if (is_alike(&g->layers[first], &g->layers[i]))
            text_buf_add(out, "%s%" PRIu32, i == first ? "" : between, i);
    }
}

char *ledger_report_json(const struct ledger_report *report)
{
    return print(report, &ledger_report_as_json);
}

char *ledger_report_text(const struct ledger_report *report)
{
    return print(report, &ledger_report_as_text);
}
