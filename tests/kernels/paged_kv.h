/* paged_kv.h: a small world for attention tests: one layer of pages, sequences scattered over them,
 * random K, V and queries.
 *
 * What no token was stored into is NaN, so a read too many shows in the result. Ends the test on
 * failure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_PAGED_KV_H
#define FOLDKV_TESTS_PAGED_KV_H

#include "kernels/kernel.h"

enum { PAGED_SEQUENCES_MAX = 40, PAGED_HEADS_MAX = 64, PAGED_TYPES = 3 };

/* What to make. A sequence holds first + rows tokens, and queries for the last rows of them. */
struct paged_spec {
    uint32_t n_query_heads, n_kv_heads;
    uint32_t d_qk, d_v;
    uint32_t window; /* 0: all. Pages behind every row's window are given back: NaN in all of them */
    enum kv_type type;
    uint16_t k_owner[PAGED_HEADS_MAX];
    uint16_t v_owner[PAGED_HEADS_MAX];
    uint32_t n_sequences;
    uint32_t first[PAGED_SEQUENCES_MAX];
    uint32_t rows[PAGED_SEQUENCES_MAX];
    float v_mean;
    uint32_t run_pages_max; /* 0: 3 */
};

struct paged_kv {
    struct paged_spec spec;
    struct kv_layer layer;
    char *memory;
    size_t memory_bytes;
    struct page_run *runs;
    struct attention_sequence sequences[PAGED_SEQUENCES_MAX];
    uint32_t n_rows; /* of all sequences */
    float *q;
    size_t q_bytes;
};

/* The first token that a row at a position sees. */
uint32_t paged_kv_token_first(const struct paged_kv *p, uint32_t position);

void paged_kv_init(struct paged_kv *p, const struct paged_spec *spec, uint64_t *seed);
void paged_kv_release(struct paged_kv *p);
/* Stores a token's K and V of one head, by the scalar kernel. */
void paged_kv_store(struct paged_kv *p, uint32_t sequence, uint32_t token, uint32_t kv_head,
                    const float *k, const float *v);
struct attention_shape paged_kv_shape(const struct paged_kv *p, uint32_t n_threads);
/* Bytes of a result, [n_rows][n_query_heads * d_v]. */
size_t paged_kv_out_bytes(const struct paged_kv *p);

/* The result of the grouped path: a plan, a schedule and the shares of n_threads one after the
 * other. */
void paged_kv_grouped(const struct paged_kv *p, const struct kernels *kernels, uint32_t n_threads,
                      float *out);
/* The same in steps of at most rows_max rows of each sequence: chunked prefill; 1 is decode. */
void paged_kv_stepwise(const struct paged_kv *p, const struct kernels *kernels, uint32_t n_threads,
                       uint32_t rows_max, float *out);
void paged_kv_owner_map(const struct paged_kv *p, const struct kernels *kernels, float *out);
void paged_kv_repeat(const struct paged_kv *p, const struct kernels *kernels, float *out);
/* By double arithmetic over the rounded K and V. */
void paged_kv_reference(const struct paged_kv *p, double *out);
/* How far the grouped path is from that: root mean square of the difference over that of the
 * reference. */
double paged_kv_error(const struct paged_kv *p, const struct kernels *kernels);
/* Stores a token of the first sequence whose K and V have one value each, in all K/V heads. */
void paged_kv_plant(struct paged_kv *p, uint32_t token, float k_value, float v_value);

#endif
