/* ledger.h: the byte and FLOP formulas of M5.7, one function a term (0x02 to 0x09). Pure; any
 * thread.
 *
 * The terms are logical: padding, metadata and workspace are not in them, and scales are a term of
 * their own. A multiply-add is two FLOPs. B is requests of equal retained length T; rows is new
 * rows over all requests (B times S_q). A layer with a window reads and keeps its last W tokens
 * where T is said. The figures of every graph that is served fit 64 bits for B * S_q up to 32; an
 * overflow is asserted, never wrapped. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_LEDGER_H
#define FOLDKV_CONFIG_LEDGER_H

#include "config/base.h"

/* One layer's attention. MHA has k_heads = v_heads = query_heads, MQA has 1. */
struct ledger_shape {
    uint64_t hidden, query_heads, k_heads, v_heads, d_qk, d_v;
    uint64_t kv_bytes;       /* an element */
    uint64_t kv_scale_bytes; /* a token and head, of K and of V alike; 0: none */
    uint64_t window;         /* W; 0: everything */
};

/* min(T, W). */
uint64_t ledger_visible_tokens(const struct ledger_shape *shape, uint64_t tokens);

/* 0x02-0x04: d (H_q d_qk + H_k d_qk + H_v d_v + H_q d_v), biases apart. */
uint64_t ledger_projection_parameters(const struct ledger_shape *shape);
uint64_t ledger_projection_flops(const struct ledger_shape *shape, uint64_t rows);
/* 2 B H_q S_q T d_qk, and the same with d_v. */
uint64_t ledger_qk_flops(const struct ledger_shape *shape, uint64_t rows, uint64_t tokens);
uint64_t ledger_pv_flops(const struct ledger_shape *shape, uint64_t rows, uint64_t tokens);
/* K and V written by rows. */
uint64_t ledger_append_bytes(const struct ledger_shape *shape, uint64_t rows);
/* K and V of T tokens, stored once and read once. */
uint64_t ledger_history_bytes(const struct ledger_shape *shape, uint64_t requests, uint64_t tokens);
/* The scales beside the history. */
uint64_t ledger_scale_bytes(const struct ledger_shape *shape, uint64_t requests, uint64_t tokens);
/* Output width of one matrix that holds Q, K and V. */
uint64_t ledger_fused_width(const struct ledger_shape *shape);

/* 0x05, 0x06: what an explicit repeat of K and V to every query head would hold, and what the
 * grouped kernel holds. */
uint64_t ledger_repeat_bytes(const struct ledger_shape *shape, uint64_t requests, uint64_t tokens);
enum { LEDGER_GROUPED_TEMPORARY_BYTES = 0 };
/* FLOPs a byte of K/V: read once, and read again for every query head. */
double ledger_intensity(const struct ledger_shape *shape);
double ledger_intensity_repeated(const struct ledger_shape *shape);

/* Pages: what a request of T tokens, whose last row is at position T - 1, holds on to. Windowed:
 * floor(p / page) - floor(max(0, p - W + 1) / page) + 1 pages, else those of all T tokens. */
uint64_t ledger_pinned_pages(const struct ledger_shape *shape, uint64_t tokens,
                             uint64_t page_tokens);
/* One head of one layer, scales included. */
uint64_t ledger_page_bytes(const struct ledger_shape *shape, uint64_t page_tokens);
/* All heads of one layer. K and V heads are equally many. */
uint64_t ledger_pinned_bytes(const struct ledger_shape *shape, uint64_t tokens,
                             uint64_t page_tokens);

/* 0x07: query heads shared out over ranks in order, equally many each. */
struct ledger_placement {
    uint64_t replicas;        /* the sum over K/V heads of the ranks that hold it */
    uint64_t replicas_most;   /* of one head */
    uint64_t rank_heads_most; /* K/V heads on one rank */
    uint64_t kv_heads;
};
/* query_to_kv_head has query_heads entries below kv_heads; ranks divides query_heads (asserted). */
struct ledger_placement ledger_place(const uint16_t *query_to_kv_head, uint32_t query_heads,
                                     uint32_t kv_heads, uint32_t ranks);
/* One layer's K/V over all ranks, and on the fullest one. K and V heads are equally many. */
uint64_t ledger_physical_bytes(const struct ledger_shape *shape,
                               const struct ledger_placement *placement, uint64_t requests,
                               uint64_t tokens);
uint64_t ledger_rank_bytes(const struct ledger_shape *shape,
                           const struct ledger_placement *placement, uint64_t requests,
                           uint64_t tokens);
/* Sent to fill the replicas with rows, or to read the one copy from the other ranks. */
uint64_t ledger_replica_append_bytes(const struct ledger_shape *shape,
                                     const struct ledger_placement *placement, uint64_t rows);
uint64_t ledger_remote_history_bytes(const struct ledger_shape *shape,
                                     const struct ledger_placement *placement, uint64_t requests,
                                     uint64_t tokens);

/* 0x08: layers that read another layer's K/V. source[l] is the layer whose projections serve
 * layer l; a producer is its own. */
uint32_t ledger_producers(const uint32_t *source, uint32_t n_layers);
/* Sums over layers: projections (K/V only where they are made), stored once a producer, read
 * once a layer. */
uint64_t ledger_model_projection_parameters(const struct ledger_shape *layers,
                                            const uint32_t *source, uint32_t n_layers);
uint64_t ledger_model_resident_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                     uint32_t n_layers, uint64_t requests, uint64_t tokens);
uint64_t ledger_model_history_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                    uint32_t n_layers, uint64_t requests, uint64_t tokens);
uint64_t ledger_model_append_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                   uint32_t n_layers, uint64_t rows);
uint64_t ledger_model_attention_flops(const struct ledger_shape *layers, uint32_t n_layers,
                                      uint64_t rows, uint64_t tokens);
uint64_t ledger_model_scale_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                  uint32_t n_layers, uint64_t requests, uint64_t tokens);
uint64_t ledger_model_pinned_bytes(const struct ledger_shape *layers, const uint32_t *source,
                                   uint32_t n_layers, uint64_t tokens, uint64_t page_tokens);
/* New rows sent to pipeline stages: crossings is the sum over producers of the other stages that
 * read them. */
uint64_t ledger_stage_append_bytes(const struct ledger_shape *shape, uint64_t crossings,
                                   uint64_t rows);

#endif
