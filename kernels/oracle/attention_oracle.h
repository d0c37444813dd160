/* attention_oracle.h: the two other ways to attend over paged K/V, for tests, benchmark and audit;
 * never for serving.
 *
 * Materialised repeat copies the K/V of every query head's owner first, [n_query_heads] wide;
 * direct owner map lets each query head read its owner's units where they are, again and again.
 * Both go row by row through the same leaf kernels, so that the grouped path must give the same
 * bits. Any thread; query heads head_first..head_end-1 only, so that threads can share. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ORACLE_ATTENTION_ORACLE_H
#define FOLDKV_KERNELS_ORACLE_ATTENTION_ORACLE_H

#include "kernels/attention.h"

struct oracle_attention {
    const struct attention_shape *shape; /* loans */
    const struct attention_kernels *kernels;
    const struct kv_layer *layer;
    const struct attention_sequence *sequence;
    const float *q; /* [rows][n_query_heads * d_qk] */
    float *out;     /* [rows][n_query_heads * d_v] */
};

void oracle_owner_map(const struct oracle_attention *o, uint32_t head_first, uint32_t head_end);

/* Bytes of repeated K/V of n_tokens tokens, all query heads. */
size_t oracle_repeat_bytes(const struct attention_shape *shape, uint32_t n_tokens);
/* copy has the bytes that oracle_repeat_bytes gives for the sequence's tokens; 64-byte aligned. */
void oracle_repeat(const struct oracle_attention *o, uint32_t head_first, uint32_t head_end,
                   char *copy);

#endif
