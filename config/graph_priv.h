/* graph_priv.h: the steps of graph_from_gguf, for the graph_*.c files only. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GRAPH_PRIV_H
#define FOLDKV_CONFIG_GRAPH_PRIV_H

#include "config/graph.h"

/* What the metadata says; in llama graphs every layer has the same. */
struct graph_keys {
    uint32_t n_query_heads, n_kv_heads, d_qk, d_v, rope_dims;
    float rope_base;
};

/* Reads and checks the keys into graph's scalars and ret_keys; vocab stays 0 unless a key gives
 * it. */
enum status graph_keys_read(const struct gguf *gguf, struct graph *graph,
                            struct graph_keys *ret_keys, struct why *ret_why) MUST_USE;
/* Checks that the file holds the graph's tensors, each of the shape that the keys demand and of
 * a type served, and no others. Sets vocab and tied_output. */
enum status graph_tensors_check(const struct gguf *gguf, struct graph *graph,
                                const struct graph_keys *keys, struct why *ret_why) MUST_USE;
/* Makes graph->groups and each layer's place in them. *ret_layers is the array behind the groups'
 * layers, the caller's also on failure. BAD_FILE if there are too many; NO_MEMORY. */
enum status graph_groups_make(struct graph *graph, uint32_t **ret_layers,
                              struct why *ret_why) MUST_USE;

#endif
