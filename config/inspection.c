/* inspection.c: a checkpoint's report.
 *
 * HOW     Both forms are written from the same figures, gathered first; the manifest goes in as the
 *         canonical text it is.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/inspection.h"

#include <inttypes.h>

#include "config/ggml_type.h"
#include "config/ledger_report.h"
#include "config/mem.h"
#include "config/text_buf.h"

enum { TEXT_MAX = 1 << 26, LENGTHS = 3, TYPE_ROWS_MAX = 64 };

struct type_row {
    const struct ggml_type *type;
    uint64_t tensors, elements, bytes;
};

/* Everything the two forms print. */
struct figures {
    const struct inspection *in;
    struct ledger_shape *layers; /* owned */
    uint32_t *source;            /* owned */
    struct type_row types[TYPE_ROWS_MAX];
    size_t n_types;
    uint64_t lengths[LENGTHS];
    size_t n_lengths;
};

/* The ledgers of the whole model at one length. */
struct length_row {
    uint64_t stored, scales, pinned, read, append, repeated, attention_flops, projection_flops;
};

static void count_weights(struct figures *f)
{
    const struct gguf *gguf = f->in->gguf;
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        const struct ggml_type *type = ggml_type_find(tensor->type);
        size_t row = 0;
        while (row < f->n_types && f->types[row].type != type)
            row++;
        ASSERT(row < TYPE_ROWS_MAX);
        if (row == f->n_types)
            f->types[f->n_types++] = (struct type_row){.type = type};
        f->types[row].tensors++;
        f->types[row].elements +=
            tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
        f->types[row].bytes += tensor->bytes;
    }
}

static void choose_lengths(struct figures *f)
{
    static const uint64_t usual[] = {512, 4096};
    uint64_t context = f->in->graph->context;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
        if (usual[i] < context)
            f->lengths[f->n_lengths++] = usual[i];
    }
    f->lengths[f->n_lengths++] = context;
}

static bool figures_init(struct figures *f, const struct inspection *in)
{
    const struct graph *graph = in->graph;
    *f = (struct figures){.in = in};
    f->layers = mem_zalloc(graph->n_layers, sizeof *f->layers);
    f->source = mem_zalloc(graph->n_layers, sizeof *f->source);
    if (f->layers == NULL || f->source == NULL)
        return false;
    const struct ledger_report report = {
        .graph = graph, .kv_bytes = in->kv_bytes, .kv_scale_bytes = in->kv_scale_bytes};
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        f->source[i] = i;
        f->layers[i] = ledger_report_shape(&report, i);
    }
    count_weights(f);
    choose_lengths(f);
    return true;
}

static void figures_release(struct figures *f)
{
    mem_free(f->layers);
    mem_free(f->source);
}

static struct length_row ledgers_at(const struct figures *f, uint64_t tokens)
{
    uint32_t n = f->in->graph->n_layers;
    struct length_row row = {
        .stored = ledger_model_resident_bytes(f->layers, f->source, n, 1, tokens),
        .scales = ledger_model_scale_bytes(f->layers, f->source, n, 1, tokens),
        .pinned = ledger_model_pinned_bytes(f->layers, f->source, n, tokens, f->in->page_tokens),
        .read = ledger_model_history_bytes(f->layers, f->source, n, 1, tokens),
        .append = ledger_model_append_bytes(f->layers, f->source, n, 1),
        .attention_flops = ledger_model_attention_flops(f->layers, n, 1, tokens),
        .projection_flops = 2 * ledger_model_projection_parameters(f->layers, f->source, n),
    };
    for (uint32_t i = 0; i < n; i++)
        row.repeated += ledger_repeat_bytes(&f->layers[i], 1, tokens);
    return row;
}

static bool is_same_heads(const struct graph_layer *a, const struct graph_layer *b)
{
    size_t map_bytes = a->n_query_heads * sizeof *a->query_to_k_head;
    return a->n_query_heads == b->n_query_heads && a->n_k_heads == b->n_k_heads &&
           a->n_v_heads == b->n_v_heads && a->d_qk == b->d_qk && a->d_v == b->d_v &&
           a->window == b->window &&
           memcmp(a->query_to_k_head, b->query_to_k_head, map_bytes) == 0 &&
           memcmp(a->query_to_v_head, b->query_to_v_head, map_bytes) == 0;
}

/* One past the last layer from first on whose heads are all the same. */
static uint32_t end_of_run(const struct graph *graph, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < graph->n_layers && is_same_heads(&graph->layers[first], &graph->layers[end]))
        end++;
    return end;
}

static void add_map(struct text_buf *out, const uint16_t *map, uint32_t n, const char *between)
{
    for (uint32_t i = 0; i < n; i++)
        text_buf_add(out, "%s%u", i == 0 ? "" : between, map[i]);
}

static void add_heads_json(struct text_buf *out, const struct figures *f)
{
    const struct graph *graph = f->in->graph;
    text_buf_add(out, "\"heads\":[");
    for (uint32_t first = 0, end = 0; first < graph->n_layers; first = end) {
        const struct graph_layer *l = &graph->layers[first];
        end = end_of_run(graph, first);
        text_buf_add(out,
                     "%s{\"first_layer\":%u,\"last_layer\":%u,\"query_heads\":%u,\"k_heads\":%u,"
                     "\"v_heads\":%u,"
                     "\"d_qk\":%u,\"d_v\":%u,\"window\":%u,\"cache_group\":%u,"
                     "\"query_to_k_head\":[",
                     first == 0 ? "" : ",", first, end - 1, l->n_query_heads, l->n_k_heads,
                     l->n_v_heads, l->d_qk, l->d_v, l->window, l->cache_group);
        add_map(out, l->query_to_k_head, l->n_query_heads, ",");
        text_buf_add(out, "],\"query_to_v_head\":[");
        add_map(out, l->query_to_v_head, l->n_query_heads, ",");
        text_buf_add(out, "],\"kv_bytes_per_token_and_layer\":%" PRIu64 "}",
                     ledger_append_bytes(&f->layers[first], 1));
    }
    text_buf_add(out, "]");
}

static void add_weights_json(struct text_buf *out, const struct figures *f)
{
    text_buf_add(out, "\"weights\":[");
    for (size_t i = 0; i < f->n_types; i++)
        text_buf_add(out,
                     "%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"elements\":%" PRIu64
                     ",\"bytes\":%" PRIu64 "}",
                     i == 0 ? "" : ",", f->types[i].type->name, f->types[i].tensors,
                     f->types[i].elements, f->types[i].bytes);
    text_buf_add(out, "]");
}

static void add_ledgers_json(struct text_buf *out, const struct figures *f)
{
    text_buf_add(out, "\"ledgers\":[");
    for (size_t i = 0; i < f->n_lengths; i++) {
        struct length_row row = ledgers_at(f, f->lengths[i]);
        text_buf_add(out,
                     "%s{\"tokens\":%" PRIu64 ",\"kv_bytes_stored\":%" PRIu64
                     ",\"kv_scale_bytes_stored\":%" PRIu64 ",\"kv_bytes_pinned\":%" PRIu64
                     ",\"kv_bytes_read_per_step\":%" PRIu64
                     ",\"kv_bytes_appended_per_token\":%" PRIu64
                     ",\"kv_bytes_if_repeated\":%" PRIu64 ",\"attention_flops_per_token\":%" PRIu64
                     ",\"projection_flops_per_token\":%" PRIu64 "}",
                     i == 0 ? "" : ",", f->lengths[i], row.stored, row.scales, row.pinned, row.read,
                     row.append, row.repeated, row.attention_flops, row.projection_flops);
    }
    text_buf_add(out, "]");
}

char *inspection_json(const struct inspection *in)
{
    struct figures f;
    struct text_buf out;
    char identity[SHA256_HEX], architecture[SHA256_HEX], binding[SHA256_HEX];
    sha256_hex(in->manifest->identity, identity);
    sha256_hex(in->manifest->architecture_hash, architecture);
    sha256_hex(in->manifest->binding_hash, binding);
    text_buf_init(&out, TEXT_MAX);
    char *text = NULL;
    if (figures_init(&f, in)) {
        text_buf_add(
            &out,
            "{\"identity\":\"%s\",\"architecture_hash\":\"%s\",\"binding_hash\":\"%s\","
            "\"manifest\":%s,"
            "\"binding\":%s,\"context\":%u,\"kv_type\":\"%s\",\"kv_bytes_per_token\":%" PRIu64 ",",
            identity, architecture, binding, in->manifest->identity_json,
            in->manifest->binding_json, in->graph->context, in->kv_type, ledgers_at(&f, 1).append);
        add_heads_json(&out, &f);
        text_buf_add(&out, ",");
        add_weights_json(&out, &f);
        text_buf_add(&out, ",");
        add_ledgers_json(&out, &f);
        text_buf_add(&out, "}\n");
        text = text_buf_take(&out);
    }
    text_buf_release(&out);
    figures_release(&f);
    return text;
}

static void add_heads_text(struct text_buf *out, const struct figures *f)
{
    const struct graph *graph = f->in->graph;
    for (uint32_t first = 0, end = 0; first < graph->n_layers; first = end) {
        const struct graph_layer *l = &graph->layers[first];
        end = end_of_run(graph, first);
        text_buf_add(
            out, "heads         layers %u-%u: %u query heads, %u K heads of %u, %u V heads of %u",
            first, end - 1, l->n_query_heads, l->n_k_heads, l->d_qk, l->n_v_heads, l->d_v);
        if (l->window != 0)
            text_buf_add(out, ", window %u", l->window);
        text_buf_add(out, "\n");
        text_buf_add(out, "              query head to K head: ");
        add_map(out, l->query_to_k_head, l->n_query_heads, " ");
        text_buf_add(out, "\n              query head to V head: ");
        add_map(out, l->query_to_v_head, l->n_query_heads, " ");
        text_buf_add(out, "\n              K/V bytes a token and layer: %" PRIu64 "\n",
                     ledger_append_bytes(&f->layers[first], 1));
    }
}

static void add_tables_text(struct text_buf *out, const struct figures *f)
{
    text_buf_add(out, "\n%-13s %8s %14s %14s\n", "weights", "tensors", "elements", "bytes");
    for (size_t i = 0; i < f->n_types; i++)
        text_buf_add(out, "  %-11s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 "\n",
                     f->types[i].type->name, f->types[i].tensors, f->types[i].elements,
                     f->types[i].bytes);
    text_buf_add(out, "\n%-13s %14s %14s %14s %14s %14s %16s %16s\n", "ledger at T", "K/V stored",
                 "pages pinned", "read a step", "append a token", "if repeated", "attention FLOPs",
                 "projection FLOPs");
    for (size_t i = 0; i < f->n_lengths; i++) {
        struct length_row row = ledgers_at(f, f->lengths[i]);
        text_buf_add(out,
                     "  %-11" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64
                     " %14" PRIu64 " %16" PRIu64 " %16" PRIu64 "\n",
                     f->lengths[i], row.stored, row.pinned, row.read, row.append, row.repeated,
                     row.attention_flops, row.projection_flops);
    }
}

char *inspection_text(const struct inspection *in)
{
    struct figures f;
    struct text_buf out;
    const struct graph *graph = in->graph;
    char identity[SHA256_HEX];
    sha256_hex(in->manifest->identity, identity);
    text_buf_init(&out, TEXT_MAX);
    char *text = NULL;
    if (figures_init(&f, in)) {
        text_buf_add(&out, "model         %s\n",
                     graph->name[0] != '\0' ? graph->name : "(no name)");
        text_buf_add(&out,
                     "graph         %s version %u: %u layers, hidden %u, ffn %u, vocabulary %u, "
                     "context %u\n",
                     graph->architecture, graph->version, graph->n_layers, graph->hidden,
                     graph->ffn, graph->vocab, graph->context);
        text_buf_add(&out, "identity      %s\n", identity);
        add_heads_text(&out, &f);
        text_buf_add(&out, "K/V           %s: %" PRIu64 " bytes a token over all layers\n",
                     in->kv_type, ledgers_at(&f, 1).append);
        add_tables_text(&out, &f);
        text_buf_add(&out, "\nmanifest      %s\nbinding       %s\n", in->manifest->identity_json,
                     in->manifest->binding_json);
        text = text_buf_take(&out);
    }
    text_buf_release(&out);
    figures_release(&f);
    return text;
}
