/* weights.h: a checkpoint's packed weights, held once by all who compute with that file.
 *
 * One mapping holds every matrix in the kernels' panels and every vector. It depends on the file
 * alone: not on kernels, K/V type or cache, so generations that differ in those share it. Immutable
 * once packed; holding and letting go: any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_WEIGHTS_H
#define FOLDKV_SCHED_WEIGHTS_H

#include "config/graph.h"
#include "config/sha256.h"
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

struct weights {
    uint8_t checkpoint_sha256[SHA256_BYTES]; /* of the file's bytes */
    struct packed_matrix embedding;          /* [vocab] rows of [hidden] */
    struct packed_matrix output;  /* the same panels as embedding where the table is tied */
    const float *output_norm;     /* [hidden] */
    struct layer_weights *layers; /* [n_layers] */
    char *mapping;                /* holds all of the above */
    size_t bytes;
    _Atomic uint32_t holders;
};

/* Bytes that the packed weights of an opened file take; as weights_pack on failure. */
enum status weights_bytes_of(const struct gguf *gguf, const struct graph *graph, size_t *ret_bytes,
                             struct why *ret_why) MUST_USE;
/* Checks the tensors, packs them on all workers and hashes the file meanwhile; one holder. The file
 * may be closed afterwards. BAD_FILE with a why, NO_MEMORY; nothing is kept on failure. */
enum status weights_pack(const struct gguf *gguf, const struct graph *graph,
                         struct workers *workers, struct weights **ret_weights,
                         struct why *ret_why) MUST_USE;
/* One holder more. */
struct weights *weights_hold(struct weights *weights);
/* One less; the last frees them. Takes NULL. */
void weights_let_go(struct weights **weights);
uint32_t weights_holders(const struct weights *weights);

#endif
