/* graph.c: a decoder's graph from a checkpoint.
 *
 * HOW     The keys give the widths (graph_keys.c), the tensors must agree with them
 *         (graph_tensors.c), and only then are the layers written out, so that their memory is
 *         backed by tensors the file really holds.
 * OWNS    The layers and one array with every layer's two head maps.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include <math.h>

#include "config/graph_priv.h"
#include "config/mem.h"

enum { GRAPH_VERSION = 1 };

/* The graph first, so that a struct graph * is one of these, too. */
struct graph_owner {
    struct graph graph;
    uint16_t *maps;
    uint32_t *group_layers;
};

/* Query heads in order, g of them on each K/V head: what a file without a map of its own means. */
static void fill_map(uint16_t *map, uint32_t n_query_heads, uint32_t n_kv_heads)
{
    uint32_t group = n_query_heads / n_kv_heads;
    for (uint32_t head = 0; head < n_query_heads; head++)
        map[head] = (uint16_t)(head / group);
}

static enum status fill_layers(struct graph_owner *owner, const struct graph_keys *k)
{
    struct graph *graph = &owner->graph;
    size_t n_heads = k->n_query_heads;
    graph->layers = mem_zalloc(graph->n_layers, sizeof *graph->layers);
    owner->maps = mem_zalloc(graph->n_layers * n_heads * 2, sizeof *owner->maps);
    if (graph->layers == NULL || owner->maps == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        uint16_t *k_map = owner->maps + 2 * n_heads * i, *v_map = k_map + n_heads;
        fill_map(k_map, k->n_query_heads, k->n_kv_heads);
        fill_map(v_map, k->n_query_heads, k->n_kv_heads);
        graph->layers[i] = (struct graph_layer){
            .n_query_heads = k->n_query_heads,
            .n_k_heads = k->n_kv_heads,
            .n_v_heads = k->n_kv_heads,
            .d_qk = k->d_qk,
            .d_v = k->d_v,
            .query_to_k_head = k_map,
            .query_to_v_head = v_map,
            .attention_scale = (float)(1.0 / sqrt((double)k->d_qk)),
            .is_rotated = true,
            .rope_base = (double)k->rope_base,
            .rope_dims = k->rope_dims,
        };
    }
    return OK;
}

enum status graph_from_gguf(const struct gguf *gguf, struct graph **ret_graph, struct why *ret_why)
{
    *ret_graph = NULL;
    struct graph_owner *owner = mem_zalloc(1, sizeof *owner);
    if (owner == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph");
    struct graph *graph = &owner->graph;
    struct graph_keys keys = {0};
    graph->version = GRAPH_VERSION;
    graph->rope_order = ROPE_NEIGHBOURS;
    graph->gate = GATE_SILU;
    graph->has_pre_norm = true;
    graph->embedding_scale = 1.0f;
    enum status s = graph_keys_read(gguf, graph, &keys, ret_why);
    if (s == OK)
        s = graph_tensors_check(gguf, graph, &keys, ret_why);
    if (s == OK && fill_layers(owner, &keys) != OK)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph's layers");
    if (s == OK)
        s = graph_groups_make(graph, &owner->group_layers, ret_why);
    if (s != OK)
        graph_free(&graph);
    *ret_graph = graph;
    return s;
}

void graph_free(struct graph **graph)
{
    struct graph_owner *owner = (struct graph_owner *)*graph;
    if (owner == NULL)
        return;
    mem_free(owner->group_layers);
    mem_free(owner->graph.groups);
    mem_free(owner->graph.rope_factors);
    mem_free(owner->maps);
    mem_free(owner->graph.layers);
    mem_free(owner);
    *graph = NULL;
}

void graph_tensor_name(uint32_t layer, const char *part, char name[64])
{
    int len = snprintf(name, 64, "blk.%u.%s", layer, part);
    ASSERT(len > 0 && len < 64);
}

const struct gguf_tensor *graph_layer_tensor(const struct gguf *gguf, uint32_t layer,
                                             const char *part)
{
    char name[64];
    graph_tensor_name(layer, part, name);
    const struct gguf_tensor *tensor = gguf_tensor_find(gguf, name);
    ASSERT(tensor != NULL);
    return tensor;
}
