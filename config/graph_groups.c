/* graph_groups.c: which layers' K/V pages have one shape.
 *
 * WHY     A layer with one head must not pay for a layer with eight, and a layer that sees a
 *         window gives back pages which another still reads.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>

#include "config/mem.h"

static bool is_of(const struct graph_group *group, const struct graph_layer *l)
{
    return group->n_heads == l->n_k_heads && group->d_qk == l->d_qk && group->d_v == l->d_v &&
           group->window == l->window;
}

/* Gives each layer its group and its place there, as if there were room for every group. Returns
 * how many groups there are, counted to one past the most. */
static uint32_t share_out(struct graph *graph, struct graph_group groups[GRAPH_CACHE_GROUPS_MAX])
{
    uint32_t n_groups = 0;
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        struct graph_layer *l = &graph->layers[i];
        uint32_t g = 0;
        while (g < n_groups && !is_of(&groups[g], l))
            g++;
        if (g == GRAPH_CACHE_GROUPS_MAX)
            return GRAPH_CACHE_GROUPS_MAX + 1;
        if (g == n_groups) {
            groups[n_groups++] = (struct graph_group){
                .n_heads = l->n_k_heads, .d_qk = l->d_qk, .d_v = l->d_v, .window = l->window};
        }
        l->cache_group = g;
        l->group_index = groups[g].n_layers++;
    }
    return n_groups;
}

static enum status refuse(const struct graph *graph, struct why *ret_why)
{
    char key[64];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", graph->architecture);
    return why_set(ret_why, STATUS_BAD_FILE, key,
                   "key \"%s\": the layers' K/V have over %d shapes of head count, widths and "
                   "window; more are not served",
                   key, GRAPH_CACHE_GROUPS_MAX);
}

enum status graph_groups_make(struct graph *graph, uint32_t **ret_layers, struct why *ret_why)
{

    struct graph_group found[GRAPH_CACHE_GROUPS_MAX];
    uint32_t n = share_out(graph, found);
    if (n > GRAPH_CACHE_GROUPS_MAX)
        return refuse(graph, ret_why);
    graph->groups = mem_zalloc(n, sizeof *graph->groups);
    uint32_t *layers = *ret_layers = mem_zalloc(graph->n_layers, sizeof *layers);
    if (graph->groups == NULL || layers == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph's cache groups");
    memcpy(graph->groups, found, n * sizeof *found);
    graph->n_groups = n;
    for (uint32_t g = 0; g < n; g++) {
        graph->groups[g].layers = layers;
        layers += found[g].n_layers;
    }
    layers = *ret_layers;
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        const struct graph_layer *l = &graph->layers[i];
        layers[(size_t)(graph->groups[l->cache_group].layers - layers) + l->group_index] = i;
    }
    return OK;
}
