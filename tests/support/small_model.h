/* small_model.h: whole checkpoints of any architecture and shape with random weights, made in memory from a
 * seed. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SMALL_MODEL_H
#define FOLDKV_TESTS_SMALL_MODEL_H

#include "config/gguf.h"
#include "tests/support/gguf_writer.h"

struct small_model {
    uint32_t layers, hidden, ffn, heads, kv_heads, d_qk, d_v, vocab, context;
    uint32_t type;      /* ggml id of the matrices: 0 F32, 1 F16, 2 Q4_0, 3 Q4_1, 8 Q8_0, 30 BF16 */
    uint32_t head_type; /* of the embedding and output tables */
    bool has_output;    /* a table of its own, else tied */
    uint64_t seed;
    const char *architecture;       /* NULL: "llama" */
    uint32_t window;                /* of gemma3's windowed layers; not 0 there */
    bool has_rope_factors;          /* rope_freqs.weight: 1, 1 ... growing to 8 */
    const uint32_t *layer_kv_heads; /* [layers], written as an array; NULL: kv_heads in all */
    const uint32_t *k_map, *v_map;  /* foldkv.query_to_k_head and _v_head; NULL: none */
    uint32_t n_k_map, n_v_map;
};

/* 2 layers, hidden 96, ffn 192, 6 heads on 2 K/V heads (g = 3) of 16, vocabulary 256, context
 * 1024, Q4_1 with Q8_0 tables. */
struct small_model small_model_default(void);
/* A writer with all keys and tensors (no tokenizer), so that a test may change it. Weights have
 * such a spread that activations stay near 1. */
struct gguf_writer *small_model_writer(const struct small_model *model);
/* The finished file, freed with mem_free. */
char *small_model_bytes(const struct small_model *model, size_t *ret_len);
/* The same, opened; fails the test if it cannot be. The bytes stay as long as the gguf. */
struct gguf *small_model_open(const struct small_model *model, char **ret_bytes);

#endif
