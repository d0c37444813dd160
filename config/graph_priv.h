/* graph_priv.h: the steps of graph_from_gguf, for the graph_*.c files only. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GRAPH_PRIV_H
#define FOLDKV_CONFIG_GRAPH_PRIV_H

#include "config/graph.h"

/* Parts that some architectures have and others lack. */
enum {
    PART_PRE_NORM = 1,
    PART_POST_NORM = 2,
    PART_QK_NORM = 4,
    PART_QKV_BIAS = 8,
    PART_ROPE_FACTORS = 16, /* rope_freqs.weight; a file may lack it all the same */
};

/* What one architecture is, beyond what all of them are. */
struct graph_architecture {
    const char *name;
    unsigned parts;
    enum rope_order rope_order;
    enum gate_kind gate;
    bool is_embedding_scaled; /* by the root of hidden */
    uint32_t window_period;   /* of so many layers the last sees everything; 0: all do */
    uint32_t other_layers;    /* a file of so many layers is of another graph; 0: none */
    const char *other_reason;
};

/* The description that the file's architecture key names. BAD_FILE with those served. */
enum status graph_architecture_find(const struct gguf *gguf,
                                    const struct graph_architecture **ret_architecture,
                                    struct why *ret_why) MUST_USE;
/* BAD_FILE with the reason if a key or a tensor speaks of an attention whose K/V no fixed map from
 * query heads describes. */
enum status graph_designs_check(const struct gguf *gguf, struct why *ret_why) MUST_USE;

/* "llama.block_count". */
struct graph_key {
    char text[96];
};
struct graph_key graph_key_of(const struct graph_architecture *architecture, const char *tail);
/* An integer key whose value must be least..most. */
enum status graph_key_bounded(const struct gguf *gguf, const char *key, uint32_t least,
                              uint32_t most, uint32_t *ret, struct why *ret_why) MUST_USE;

/* Checks all keys, reads those of the graph's scalars, and makes graph->layers with windows and
 * rotations; vocab stays 0 unless a key gives it. */
enum status graph_keys_read(const struct gguf *gguf, const struct graph_architecture *architecture,
                            struct graph *graph, struct why *ret_why) MUST_USE;
/* Fills the layers' head counts and widths. */
enum status graph_heads_read(const struct gguf *gguf, const struct graph_architecture *architecture,
                             struct graph *graph, struct why *ret_why) MUST_USE;
/* Checks that the file holds the graph's tensors, each of the shape that the layers demand and of
 * a type served, and no others. Sets vocab and tied_output. */
enum status graph_tensors_check(const struct gguf *gguf,
                                const struct graph_architecture *architecture, struct graph *graph,
                                struct why *ret_why) MUST_USE;
/* Copies and checks rope_freqs.weight, if the file has it. */
enum status graph_rope_factors_read(const struct gguf *gguf, struct graph *graph,
                                    struct why *ret_why) MUST_USE;
/* Makes every layer's two head maps and checks them. *ret_maps is the array behind them, the
 * caller's also on failure. */
enum status graph_maps_make(const struct gguf *gguf, struct graph *graph, uint16_t **ret_maps,
                            struct why *ret_why) MUST_USE;
/* Makes graph->groups and each layer's place in them. *ret_layers is the array behind the groups'
 * layers, the caller's also on failure. BAD_FILE if there are too many; NO_MEMORY. */
enum status graph_groups_make(struct graph *graph, uint32_t **ret_layers,
                              struct why *ret_why) MUST_USE;

#endif
