/* graph_heads.c: how many heads each layer has, how wide they are, and which K/V head each query
 * head reads.
 *
 * WHY     The map is the checkpoint's meaning: another one gives tensors of the same shapes and
 *         other logits. So it is written out for every layer, whatever it came from, and nothing
 *         behind this file divides one head count by another.
 * HOW     Counts and widths are one number or one a layer. A map is the file's own, or query heads
 *         in order, equally many on each K/V head.
 * ALWAYS  (1) Every owner is a head that the layer has, and every head has a reader.   check_map
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>

#include "config/mem.h"

static const char k_map_key[] = "foldkv.query_to_k_head", v_map_key[] = "foldkv.query_to_v_head";

static bool is_integer(enum gguf_type type)
{
    return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64;
}

/* A key that holds one integer for all layers, or an array of one a layer. */
struct layer_number {
    const struct gguf *gguf;
    const char *key;
    bool is_array;
    uint32_t value; /* for all layers */
};

static enum status layer_number_init(struct layer_number *n, const struct gguf *gguf,
                                     const char *key, uint32_t n_layers, struct why *ret_why)
{
    enum gguf_type type;
    size_t count = 0;
    *n = (struct layer_number){.gguf = gguf, .key = key};
    n->is_array = gguf_array(gguf, key, &type, &count, NULL) == OK;
    if (!n->is_array)
        return gguf_u32(gguf, key, &n->value, ret_why);
    if (!is_integer(type))
        return why_set(ret_why, STATUS_BAD_FILE, key, "key \"%s\": its items are no integers", key);
    if (count != n_layers)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": %zu items, must be one for each of %" PRIu32 " layers", key,
                       count, n_layers);
    return OK;
}

static int64_t layer_number_at(const struct layer_number *n, uint32_t layer)
{
    return n->is_array ? gguf_array_int(n->gguf, n->key, layer) : (int64_t)n->value;
}

/* "layer 3: " where the layers may differ. */
static const char *layer_text(const struct layer_number *n, uint32_t layer, char text[32])
{
    snprintf(text, 32, "layer %" PRIu32 ": ", layer);
    return n->is_array ? text : "";
}

static enum status read_kv_heads(const struct gguf *gguf, const char *key, bool has_map,
                                 struct graph *graph, struct why *ret_why)
{
    struct layer_number n = {.gguf = gguf, .key = key, .value = graph->layers[0].n_query_heads};
    char text[32];
    if (gguf_has(gguf, key))
        TRY(layer_number_init(&n, gguf, key, graph->n_layers, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        struct graph_layer *l = &graph->layers[i];
        int64_t heads = layer_number_at(&n, i);
        if (n.is_array && heads == 0)
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": layer %" PRIu32 ": 0 K/V heads; a layer without K/V is not "
                           "part of the graph as served",
                           key, i);
        if (heads < 1 || heads > GRAPH_HEADS_MAX)
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": %s%" PRId64 ", must be 1..%d", key, layer_text(&n, i, text),
                           heads, GRAPH_HEADS_MAX);
        if (!has_map && l->n_query_heads % (uint32_t)heads != 0)
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": %s%" PRIu32 " query heads are no multiple of %" PRId64
                           " K/V heads, and there is no %s",
                           key, layer_text(&n, i, text), l->n_query_heads, heads, k_map_key);
        l->n_k_heads = l->n_v_heads = (uint32_t)heads;
    }
    return OK;
}

/* A head's width in each layer: its own key, or the hidden width shared out over the query heads. */
static enum status read_widths(const struct gguf *gguf, const char *key, bool is_v,
                               struct graph *graph, struct why *ret_why)
{
    uint32_t n_query_heads = graph->layers[0].n_query_heads;
    struct layer_number n = {.gguf = gguf, .key = key, .value = graph->hidden / n_query_heads};
    char text[32];
    if (gguf_has(gguf, key))
        TRY(layer_number_init(&n, gguf, key, graph->n_layers, ret_why));
    else if (graph->hidden % n_query_heads != 0)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": absent, and %s.embedding_length %" PRIu32
                       " is no multiple of %s.attention.head_count %" PRIu32,
                       key, graph->architecture, graph->hidden, graph->architecture, n_query_heads);
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        int64_t width = layer_number_at(&n, i);
        if (width < GRAPH_WIDTH_STEP || width > GRAPH_WIDTH_MAX || width % GRAPH_WIDTH_STEP != 0)
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": %sheads %" PRId64 " wide, must be a multiple of %d in "
                           "%d..%d",
                           key, layer_text(&n, i, text), width, GRAPH_WIDTH_STEP, GRAPH_WIDTH_STEP,
                           GRAPH_WIDTH_MAX);
        *(is_v ? &graph->layers[i].d_v : &graph->layers[i].d_qk) = (uint32_t)width;
    }
    return OK;
}

enum status graph_heads_read(const struct gguf *gguf, const struct graph_architecture *a,
                             struct graph *graph, struct why *ret_why)
{
    const struct graph_key q_key = graph_key_of(a, "attention.head_count"),
                           kv_key = graph_key_of(a, "attention.head_count_kv"),
                           k_width = graph_key_of(a, "attention.key_length"),
                           v_width = graph_key_of(a, "attention.value_length");
    uint32_t n_query_heads = 0;
    TRY(graph_key_bounded(gguf, q_key.text, 1, GRAPH_HEADS_MAX, &n_query_heads, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++)
        graph->layers[i].n_query_heads = n_query_heads;
    bool has_map = gguf_has(gguf, k_map_key) || gguf_has(gguf, v_map_key);
    TRY(read_kv_heads(gguf, kv_key.text, has_map, graph, ret_why));
    TRY(read_widths(gguf, k_width.text, false, graph, ret_why));
    return read_widths(gguf, v_width.text, true, graph, ret_why);
}

/* Query heads in order, g of them on each K/V head: what a file without a map of its own means. */
static void fill_map(uint16_t *map, uint32_t n_query_heads, uint32_t n_kv_heads)
{
    uint32_t group = n_query_heads / n_kv_heads;
    for (uint32_t head = 0; head < n_query_heads; head++)
        map[head] = (uint16_t)(head / group);
}

/* The file's map of one layer, each owner in range and each K/V head with a reader. */
static enum status copy_map(const struct gguf *gguf, const char *key, uint32_t layer, size_t first,
                            uint32_t n_query_heads, uint32_t n_kv_heads, char kind, uint16_t *map,
                            struct why *ret_why)
{
    bool is_read[GRAPH_HEADS_MAX] = {false};
    for (uint32_t head = 0; head < n_query_heads; head++) {
        int64_t owner = gguf_array_int(gguf, key, first + head);
        if (owner < 0 || owner >= n_kv_heads)
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": layer %" PRIu32 ", query head %" PRIu32 ": owner %" PRId64
                           ", the layer has %" PRIu32 " %c heads (0..%" PRIu32 ")",
                           key, layer, head, owner, n_kv_heads, kind, n_kv_heads - 1);
        map[head] = (uint16_t)owner;
        is_read[owner] = true;
    }
    for (uint32_t head = 0; head < n_kv_heads; head++) {
        if (!is_read[head])
            return why_set(ret_why, STATUS_BAD_FILE, key,
                           "key \"%s\": layer %" PRIu32 ": %c head %" PRIu32 " of %" PRIu32
                           " is read by none of %" PRIu32 " query heads",
                           key, layer, kind, head, n_kv_heads, n_query_heads);
    }
    return OK;
}

/* Checks a map key's type and length; *ret_stride is how far its layers lie apart, 0 if one map
 * serves all of them. */
static enum status open_map(const struct gguf *gguf, const char *key, const struct graph *graph,
                            size_t *ret_stride, struct why *ret_why)
{
    enum gguf_type type;
    size_t count = 0, n_heads = graph->layers[0].n_query_heads;
    TRY(gguf_array(gguf, key, &type, &count, ret_why));
    if (!is_integer(type))
        return why_set(ret_why, STATUS_BAD_FILE, key, "key \"%s\": its items are no integers", key);
    if (count != n_heads && count != n_heads * graph->n_layers)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": %zu owners, must be %zu (one a query head) or %zu (for each of "
                       "%" PRIu32 " layers)",
                       key, count, n_heads, n_heads * graph->n_layers, graph->n_layers);
    *ret_stride = count == n_heads ? 0 : n_heads;
    return OK;
}

static enum status make_maps(const struct gguf *gguf, const char *key, char kind,
                             const struct graph *graph, uint16_t *maps, struct why *ret_why)
{
    size_t stride = 0, n_heads = graph->layers[0].n_query_heads;
    if (key != NULL)
        TRY(open_map(gguf, key, graph, &stride, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++, maps += 2 * n_heads) {
        const struct graph_layer *l = &graph->layers[i];
        uint32_t n_kv_heads = kind == 'K' ? l->n_k_heads : l->n_v_heads;
        if (key == NULL)
            fill_map(maps, l->n_query_heads, n_kv_heads);
        else
            TRY(copy_map(gguf, key, i, stride * i, l->n_query_heads, n_kv_heads, kind, maps,
                         ret_why));
    }
    return OK;
}

enum status graph_maps_make(const struct gguf *gguf, struct graph *graph, uint16_t **ret_maps,
                            struct why *ret_why)
{
    size_t n_heads = graph->layers[0].n_query_heads;
    const char *k_key = gguf_has(gguf, k_map_key) ? k_map_key : NULL;
    const char *v_key = gguf_has(gguf, v_map_key) ? v_map_key : k_key;
    k_key = k_key != NULL ? k_key : v_key; /* one map without the other serves both */
    uint16_t *maps = *ret_maps = mem_zalloc(graph->n_layers * n_heads * 2, sizeof *maps);
    if (maps == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph's head maps");
    TRY(make_maps(gguf, k_key, 'K', graph, maps, ret_why));
    TRY(make_maps(gguf, v_key, 'V', graph, maps + n_heads, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++, maps += 2 * n_heads) {
        graph->layers[i].query_to_k_head = maps;
        graph->layers[i].query_to_v_head = maps + n_heads;
    }
    return OK;
}
