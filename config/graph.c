/* graph.c: a decoder's graph from a checkpoint.
 *
 * HOW     A description of the architecture (graph_architecture.c) says which parts there are. The
 *         keys give the widths (graph_keys.c, graph_heads.c), the tensors must agree with them
 *         (graph_tensors.c), and only then are the head maps written out, so that their memory is
 *         backed by tensors the file really holds. Layers of one cache shape are a group
 *         (graph_groups.c). What is no fixed map of heads at all is refused first
 *         (graph_designs.c).
 * OWNS    The layers, one array with every layer's two head maps, and one with the groups' layers.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include "config/graph_priv.h"
#include "config/mem.h"

enum { GRAPH_VERSION = 1 };

/* The graph first, so that a struct graph * is one of these, too. */
struct graph_owner {
    struct graph graph;
    uint16_t *maps;
    uint32_t *group_layers;
};

/* The steps in their order: nothing is made by the file's word alone that its tensors do not
 * back. */
static enum status make(const struct gguf *gguf, struct graph_owner *owner, struct why *ret_why)
{
    struct graph *graph = &owner->graph;
    const struct graph_architecture *architecture = NULL;
    graph->version = GRAPH_VERSION;
    TRY(graph_designs_check(gguf, ret_why));
    TRY(graph_architecture_find(gguf, &architecture, ret_why));
    TRY(graph_keys_read(gguf, architecture, graph, ret_why));
    TRY(graph_tensors_check(gguf, architecture, graph, ret_why));
    TRY(graph_rope_factors_read(gguf, graph, ret_why));
    TRY(graph_maps_make(gguf, graph, &owner->maps, ret_why));
    return graph_groups_make(graph, &owner->group_layers, ret_why);
}

enum status graph_from_gguf(const struct gguf *gguf, struct graph **ret_graph, struct why *ret_why)
{
    *ret_graph = NULL;
    struct graph_owner *owner = mem_zalloc(1, sizeof *owner);
    if (owner == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph");
    struct graph *graph = &owner->graph;
    enum status s = make(gguf, owner, ret_why);
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
