/* ledger_report.c: the ledger's tables of one graph.
 *
 * HOW     Every table is a list of rows of (name, unit, one figure for each column), gathered by
 *         the formulas; the two forms print the same rows.
 * NOT     Nothing here is measured or allocated: what an allocator holds is metrics' to say.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger_report.h"

#include <inttypes.h>

#include "config/mem.h"
#include "config/text_buf.h"

enum { TEXT_MAX = 1 << 24, ARRANGEMENTS = 3, FIGURES = 9, RANKS_MAX = 16 };

static const char *const arrangement_names[ARRANGEMENTS] = {"model", "mha", "mqa"};

/* The figures of one layer, in the order of figure_names. */
static const char *const figure_names[FIGURES] = {
    "kv_heads",         "projection_parameters",  "projection_flops_per_token",
    "qk_pv_flops_at_T", "append_bytes_per_token", "history_bytes_at_T",
    "scale_bytes_at_T", "repeated_bytes_at_T",    "fused_qkv_width",
};

struct column {
    uint64_t figures[FIGURES];
    double intensity;
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

static struct column column_of(const struct ledger_shape *s, uint64_t tokens)
{
    return (struct column){
        .figures = {s->k_heads, ledger_projection_parameters(s), ledger_projection_flops(s, 1),
                    ledger_qk_flops(s, 1, tokens) + ledger_pv_flops(s, 1, tokens),
                    ledger_append_bytes(s, 1), ledger_history_bytes(s, 1, tokens),
                    ledger_scale_bytes(s, 1, tokens), ledger_repeat_bytes(s, 1, tokens),
                    ledger_fused_width(s)},
        .intensity = ledger_intensity(s),
    };
}

static struct column all_layers(const struct ledger_report *r, int arrangement)
{
    struct column sum = {0};
    for (uint32_t l = 0; l < r->graph->n_layers; l++) {
        struct ledger_shape s = arranged(r, l, arrangement);
        struct column one = column_of(&s, r->tokens);
        for (int i = 0; i < FIGURES; i++)
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

/* The numbers of the layers alike. */
static void list_layers(struct text_buf *out, const struct graph *g, uint32_t first,
                        const char *between)
{
    for (uint32_t i = first; i < g->n_layers; i++) {
        if (is_alike(&g->layers[first], &g->layers[i]))
            text_buf_add(out, "%s%" PRIu32, i == first ? "" : between, i);
    }
}

/* Query heads on the K head with the fewest, and on that with the most. */
static void group_sizes(const struct graph_layer *l, uint32_t *ret_least, uint32_t *ret_most)
{
    *ret_least = UINT32_MAX;
    *ret_most = 0;
    for (uint32_t owner = 0; owner < l->n_k_heads; owner++) {
        uint32_t n = 0;
        for (uint32_t head = 0; head < l->n_query_heads; head++)
            n += l->query_to_k_head[head] == owner;
        *ret_least = n < *ret_least ? n : *ret_least;
        *ret_most = n > *ret_most ? n : *ret_most;
    }
}

/* What is done for each number of ranks that the query heads divide into. */
typedef void placement_fn(struct text_buf *out, uint32_t ranks,
                          const struct ledger_placement *placement, const struct ledger_shape *s,
                          uint64_t tokens);

static void each_placement(struct text_buf *out, const struct ledger_report *r, uint32_t layer,
                           placement_fn *print)
{
    const struct graph_layer *l = &r->graph->layers[layer];
    struct ledger_shape s = ledger_report_shape(r, layer);
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
        if (l->n_query_heads % ranks != 0)
            continue;
        struct ledger_placement p =
            ledger_place(l->query_to_k_head, l->n_query_heads, l->n_k_heads, ranks);
        print(out, ranks, &p, &s, ledger_visible_tokens(&s, r->tokens));
    }
}

static void placement_json(struct text_buf *out, uint32_t ranks, const struct ledger_placement *p,
                           const struct ledger_shape *s, uint64_t tokens)
{
    text_buf_add(out,
                 "%s{\"ranks\":%" PRIu32 ",\"replicas_per_kv_head\":%" PRIu64
                 ",\"per_rank_bytes\":%" PRIu64 ",\"physical_bytes\":%" PRIu64
                 ",\"replica_append_bytes_per_token\":%" PRIu64
                 ",\"remote_history_bytes_if_not_replicated\":%" PRIu64 "}",
                 ranks == 1 ? "" : ",", ranks, p->replicas_most, ledger_rank_bytes(s, p, 1, tokens),
                 ledger_physical_bytes(s, p, 1, tokens), ledger_replica_append_bytes(s, p, 1),
                 ledger_remote_history_bytes(s, p, 1, tokens));
}

static void placement_text(struct text_buf *out, uint32_t ranks, const struct ledger_placement *p,
                           const struct ledger_shape *s, uint64_t tokens)
{
    text_buf_add(out,
                 "  %-5" PRIu32 " %12" PRIu64 " %16" PRIu64 " %16" PRIu64 " %16" PRIu64
                 " %16" PRIu64 "\n",
                 ranks, p->replicas_most, ledger_rank_bytes(s, p, 1, tokens),
                 ledger_physical_bytes(s, p, 1, tokens), ledger_replica_append_bytes(s, p, 1),
                 ledger_remote_history_bytes(s, p, 1, tokens));
}

static void column_json(struct text_buf *out, const char *name, const struct column *c,
                        bool has_intensity)
{
    text_buf_add(out, "\"%s\":{", name);
    for (int i = 0; i < FIGURES; i++)
        text_buf_add(out, "%s\"%s\":%" PRIu64, i == 0 ? "" : ",", figure_names[i], c->figures[i]);
    if (has_intensity)
        text_buf_add(out, ",\"intensity_flop_per_byte\":%.6g", c->intensity);
    text_buf_add(out, "}");
}

static void layers_json(struct text_buf *out, const struct ledger_report *r)
{
    const struct graph *g = r->graph;
    text_buf_add(out, "\"layers\":[");
    for (uint32_t first = 0; first < g->n_layers; first++) {
        const struct graph_layer *l = &g->layers[first];
        uint32_t least, most;
        if (!is_first_of_its_kind(g, first))
            continue;
        group_sizes(l, &least, &most);
        text_buf_add(out, "%s{\"layers\":[", first == 0 ? "" : ",");
        list_layers(out, g, first, ",");
        text_buf_add(out,
                     "],\"query_heads\":%" PRIu32 ",\"d_qk\":%" PRIu32 ",\"d_v\":%" PRIu32
                     ",\"window\":%" PRIu32 ",\"group_least\":%" PRIu32 ",\"group_most\":%" PRIu32
                     ",\"arrangements\":{",
                     l->n_query_heads, l->d_qk, l->d_v, l->window, least, most);
        for (int a = 0; a < ARRANGEMENTS; a++) {
            struct ledger_shape s = arranged(r, first, a);
            struct column c = column_of(&s, r->tokens);
            text_buf_add(out, a == 0 ? "" : ",");
            column_json(out, arrangement_names[a], &c, true);
        }
        text_buf_add(out, "},\"placement\":[");
        each_placement(out, r, first, placement_json);
        text_buf_add(out, "]}");
    }
    text_buf_add(out, "],\"all_layers\":{");
    for (int a = 0; a < ARRANGEMENTS; a++) {
        struct column c = all_layers(r, a);
        text_buf_add(out, a == 0 ? "" : ",");
        column_json(out, arrangement_names[a], &c, false);
    }
    text_buf_add(out, "}");
}

/* 0x08: the model as it is, and as if every second layer read the K/V of the layer before it. */
struct shared_layers {
    uint64_t producers[2], projection_parameters[2], resident_bytes[2], read_bytes[2];
};

/* False if the layers are no pairs of one shape. Without memory out has failed, too. */
static bool share_layers(const struct ledger_report *r, struct text_buf *out,
                         struct shared_layers *ret_shared)
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

static void shared_json(struct text_buf *out, const struct ledger_report *r)
{
    struct shared_layers s;
    if (!share_layers(r, out, &s))
        return;
    text_buf_add(out,
                 "\"pairs_of_layers_shared\":{\"producer_layers\":%" PRIu64
                 ",\"projection_parameters_before\":%" PRIu64
                 ",\"projection_parameters_after\":%" PRIu64 ",\"resident_history_before\":%" PRIu64
                 ",\"resident_history_after\":%" PRIu64
                 ",\"history_bytes_read_per_step_before\":%" PRIu64
                 ",\"history_bytes_read_per_step_after\":%" PRIu64 "},",
                 s.producers[1], s.projection_parameters[0], s.projection_parameters[1],
                 s.resident_bytes[0], s.resident_bytes[1], s.read_bytes[0], s.read_bytes[1]);
}

static void shared_text(struct text_buf *out, const struct ledger_report *r)
{
    struct shared_layers s;
    if (!share_layers(r, out, &s))
        return;
    text_buf_add(out, "\nif pairs of layers shared K/V   %16s %16s\n", "as it is", "shared");
    text_buf_add(out, "  %-28s  %16" PRIu64 " %16" PRIu64 "\n", "layers that make K/V",
                 s.producers[0], s.producers[1]);
    text_buf_add(out, "  %-28s  %16" PRIu64 " %16" PRIu64 "\n", "projection_parameters",
                 s.projection_parameters[0], s.projection_parameters[1]);
    text_buf_add(out, "  %-28s  %16" PRIu64 " %16" PRIu64 "\n", "resident_history_bytes",
                 s.resident_bytes[0], s.resident_bytes[1]);
    text_buf_add(out, "  %-28s  %16" PRIu64 " %16" PRIu64 "\n", "history_bytes_read_per_step",
                 s.read_bytes[0], s.read_bytes[1]);
}

static void groups_json(struct text_buf *out, const struct ledger_report *r)
{
    text_buf_add(out, "\"cache_groups\":[");
    for (uint32_t i = 0; i < r->graph->n_groups; i++) {
        const struct graph_group *group = &r->graph->groups[i];
        struct ledger_shape s = ledger_report_shape(r, group->layers[0]);
        text_buf_add(out,
                     "%s{\"group\":%" PRIu32 ",\"layers\":%" PRIu32 ",\"kv_heads\":%" PRIu32
                     ",\"d_qk\":%" PRIu32 ",\"d_v\":%" PRIu32 ",\"window\":%" PRIu32
                     ",\"page_bytes\":%" PRIu64 ",\"pages_pinned_at_T\":%" PRIu64
                     ",\"bytes_pinned_at_T\":%" PRIu64 "}",
                     i == 0 ? "" : ",", i, group->n_layers, group->n_heads, group->d_qk, group->d_v,
                     group->window, ledger_page_bytes(&s, r->page_tokens),
                     ledger_pinned_pages(&s, r->tokens, r->page_tokens),
                     group->n_layers * ledger_pinned_bytes(&s, r->tokens, r->page_tokens));
    }
    text_buf_add(out, "]");
}

char *ledger_report_json(const struct ledger_report *r)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    text_buf_add(&out,
                 "{\"tokens\":%" PRIu64 ",\"kv_type\":\"%s\",\"page_tokens\":%" PRIu32
                 ",\"grouped_temporary_bytes\":%d,",
                 r->tokens, r->kv_type, r->page_tokens, LEDGER_GROUPED_TEMPORARY_BYTES);
    layers_json(&out, r);
    text_buf_add(&out, ",");
    shared_json(&out, r);
    groups_json(&out, r);
    text_buf_add(&out, "}\n");
    char *text = text_buf_take(&out);
    text_buf_release(&out);
    return text;
}

static void columns_text(struct text_buf *out, const struct column columns[ARRANGEMENTS],
                         bool has_intensity)
{
    text_buf_add(out, "  %-28s %18s %18s %18s\n", "", "this model", "as MHA", "as MQA");
    for (int i = 0; i < FIGURES; i++)
        text_buf_add(out, "  %-28s %18" PRIu64 " %18" PRIu64 " %18" PRIu64 "\n", figure_names[i],
                     columns[0].figures[i], columns[1].figures[i], columns[2].figures[i]);
    if (has_intensity)
        text_buf_add(out, "  %-28s %18.4g %18.4g %18.4g\n", "intensity_flop_per_byte",
                     columns[0].intensity, columns[1].intensity, columns[2].intensity);
}

static void layers_text(struct text_buf *out, const struct ledger_report *r)
{
    const struct graph *g = r->graph;
    struct column columns[ARRANGEMENTS];
    for (uint32_t first = 0; first < g->n_layers; first++) {
        const struct graph_layer *l = &g->layers[first];
        uint32_t least, most;
        if (!is_first_of_its_kind(g, first))
            continue;
        group_sizes(l, &least, &most);
        text_buf_add(out, "layers ");
        list_layers(out, g, first, " ");
        text_buf_add(out,
                     "\n  %" PRIu32 " query heads, %" PRIu32 " to %" PRIu32
                     " on a K head, d_qk %" PRIu32 ", d_v %" PRIu32 ", window %" PRIu32
                     "; one of these layers, one request\n",
                     l->n_query_heads, least, most, l->d_qk, l->d_v, l->window);
        for (int a = 0; a < ARRANGEMENTS; a++) {
            struct ledger_shape s = arranged(r, first, a);
            columns[a] = column_of(&s, r->tokens);
        }
        columns_text(out, columns, true);
        text_buf_add(out, "  %-5s %12s %16s %16s %16s %16s\n", "ranks", "replicas", "bytes a rank",
                     "bytes on all", "replica append", "remote history");
        each_placement(out, r, first, placement_text);
        text_buf_add(out, "\n");
    }
    for (int a = 0; a < ARRANGEMENTS; a++)
        columns[a] = all_layers(r, a);
    text_buf_add(out, "all %" PRIu32 " layers\n", g->n_layers);
    columns_text(out, columns, false);
}

static void groups_text(struct text_buf *out, const struct ledger_report *r)
{
    text_buf_add(out, "\n%-13s %7s %8s %6s %6s %8s %12s %12s %16s\n", "cache group", "layers",
                 "kv heads", "d_qk", "d_v", "window", "page bytes", "pages at T", "bytes at T");
    for (uint32_t i = 0; i < r->graph->n_groups; i++) {
        const struct graph_group *group = &r->graph->groups[i];
        struct ledger_shape s = ledger_report_shape(r, group->layers[0]);
        text_buf_add(out,
                     "  %-11" PRIu32 " %7" PRIu32 " %8" PRIu32 " %6" PRIu32 " %6" PRIu32
                     " %8" PRIu32 " %12" PRIu64 " %12" PRIu64 " %16" PRIu64 "\n",
                     i, group->n_layers, group->n_heads, group->d_qk, group->d_v, group->window,
                     ledger_page_bytes(&s, r->page_tokens),
                     ledger_pinned_pages(&s, r->tokens, r->page_tokens),
                     group->n_layers * ledger_pinned_bytes(&s, r->tokens, r->page_tokens));
    }
}

char *ledger_report_text(const struct ledger_report *r)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    text_buf_add(&out, "ledger at T = %" PRIu64 ", K/V %s, pages of %" PRIu32 " tokens\n\n",
                 r->tokens, r->kv_type, r->page_tokens);
    layers_text(&out, r);
    shared_text(&out, r);
    groups_text(&out, r);
    char *text = text_buf_take(&out);
    text_buf_release(&out);
    return text;
}
