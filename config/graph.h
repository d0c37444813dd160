/* graph.h: the shape of a decoder as data: what a checkpoint's metadata says about each layer,
 * checked.
 *
 * The decoder step walks this list; another architecture is another description. Immutable once
 * made. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GRAPH_H
#define FOLDKV_CONFIG_GRAPH_H

#include "config/gguf.h"

/* Bounds of what is served; beyond them a checkpoint is refused by key. */
enum {
    GRAPH_LAYERS_MAX = 4096,
    GRAPH_HEADS_MAX = 1024,
    GRAPH_WIDTH_STEP = 16, /* d_qk and d_v are multiples of it */
    GRAPH_WIDTH_MAX = 256, /* of d_qk and d_v */
    GRAPH_HIDDEN_MAX = 65536,
    GRAPH_FFN_MAX = 1 << 20,
    GRAPH_CONTEXT_MAX = 1 << 24,
    GRAPH_VOCAB_MAX = 1 << 24,
    GRAPH_CACHE_GROUPS_MAX = 16, /* cache shapes in one graph */
};

/* Which two coordinates a rotation pairs. */
enum rope_order { ROPE_NEIGHBOURS, ROPE_HALVES };

/* What the gate of a feed-forward part goes through; GELU is its tanh approximation. */
enum gate_kind { GATE_SILU, GATE_GELU };

struct graph_layer {
    uint32_t n_query_heads;        /* H_q */
    uint32_t n_k_heads, n_v_heads; /* H_k, H_v; equal in every graph served so far */
    uint32_t d_qk, d_v;
    const uint16_t *query_to_k_head; /* [n_query_heads], always written out */
    const uint16_t *query_to_v_head;
    float attention_scale; /* 1 / sqrt(d_qk) */
    uint32_t window;       /* W: a row at position p sees p - W + 1 to p; 0: everything before it */
    bool is_rotated;       /* false: no rotation in this layer; the three below mean nothing */
    bool has_rope_factors; /* graph->rope_factors divide this layer's frequencies */
    double rope_base;
    uint32_t rope_dims;   /* first coordinates that are rotated, even */
    uint32_t cache_group; /* index into graph->groups */
    uint32_t group_index; /* this layer's place in its group's layers */
};

/* The layers whose K/V pages have one shape and one life. */
struct graph_group {
    uint32_t n_heads; /* of K, and of V */
    uint32_t d_qk, d_v, window;
    uint32_t n_layers;
    const uint32_t *layers; /* [n_layers], rising */
};

struct graph {
    char architecture[32]; /* "llama", "qwen2", "qwen3", "gemma3" or "exaone4" */
    /* general.name, its first 127 bytes at most; "" if the file has none; for people and /v1/models. */
    char name[128];
    uint32_t version; /* raised when this description changes a stored number */
    uint32_t n_layers, hidden, ffn, vocab, context;
    float rms_eps;
    enum rope_order rope_order;
    enum gate_kind gate;
    /* RMS norms: before attention and before the feed-forward part (attn_norm, ffn_norm); on what
     * each of them gives, before it is added (post_attention_norm, post_ffw_norm); on each head of
     * Q and K before the rotation (attn_q_norm, attn_k_norm). */
    bool has_pre_norm, has_post_norm, has_qk_norm;
    bool has_qkv_bias;          /* attn_q.bias, attn_k.bias, attn_v.bias */
    bool tied_output;           /* no output.weight: the embedding table is the output table */
    float embedding_scale;      /* a row of the embedding table is multiplied by it; 1: as it is */
    float *rope_factors;        /* [rope_dims / 2] divisors of the frequencies; NULL: none */
    struct graph_layer *layers; /* [n_layers] */
    uint32_t n_groups;          /* at most GRAPH_CACHE_GROUPS_MAX */
    struct graph_group *groups; /* [n_groups], in the order of their first layers */
};

/* Reads, checks and completes the graph: every tensor of it is present with the shape the
 * metadata demands, of a type served. BAD_FILE naming key or tensor; NO_MEMORY. */
enum status graph_from_gguf(const struct gguf *gguf, struct graph **ret_graph,
                            struct why *ret_why) MUST_USE;
void graph_free(struct graph **graph);
/* "blk.7.attn_q.weight" into name[64]. */
void graph_tensor_name(uint32_t layer, const char *part, char name[64]);
/* The tensor of a layer's part (asserted to be there: graph_from_gguf has checked it). */
const struct gguf_tensor *graph_layer_tensor(const struct gguf *gguf, uint32_t layer,
                                             const char *part);

#endif
