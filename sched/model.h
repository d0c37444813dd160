/* model.h: a checkpoint made ready to compute with: its graph, its identity and its packed weights.
 *
 * Immutable once loaded; shared by every thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_MODEL_H
#define FOLDKV_SCHED_MODEL_H

#include "config/manifest.h"
#include "kernels/kernel.h"
#include "kernels/workers.h"

/* A layer's weights. A vector that the graph has not is NULL, and so is its part of a step. */
struct layer_weights {
    const float *attn_norm, *ffn_norm;           /* [hidden], before a block */
    const float *post_attn_norm, *post_ffn_norm; /* [hidden], on what it gives */
    const float *q_norm, *k_norm;                /* [d_qk], of each head */
    const float *q_bias, *k_bias, *v_bias;       /* [outputs of q, k, v] */
    struct packed_matrix q, k, v, output;
    struct packed_matrix gate, up, down;
};

struct model {
    struct graph *graph;
    struct manifest *manifest;
    enum kv_type kv_type;
    struct packed_matrix embedding; /* [vocab] rows of [hidden] */
    struct packed_matrix output;    /* the same panels as embedding where the table is tied */
    const float *output_norm;       /* [hidden] */
    struct layer_weights *layers;   /* [graph->n_layers] */
    char *weights;                  /* one mapping that holds all of the above */
    size_t weights_bytes;
};

/* The K/V type named "f16", "f32" or "int8"; BAD_OPTION otherwise. */
enum status model_kv_type(const char *name, enum kv_type *ret_type, struct why *ret_why) MUST_USE;

/* The manifest that a model of this graph, file and K/V type has under these kernels. As
 * manifest_new. */
enum status model_manifest(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                           enum kv_type kv_type, const struct kernels *kernels,
                           struct manifest **ret_manifest, struct why *ret_why) MUST_USE;

/* Checks, hashes and packs the weights of an opened file, on all workers. BAD_FILE with a why,
 * NO_MEMORY; nothing is kept on failure. The file may be closed afterwards. */
enum status model_load(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct workers *workers, struct model **ret_model,
                       struct why *ret_why) MUST_USE;
void model_free(struct model **model);

#endif
