/* decoder_watch.h: what can be seen of a decoder's steps from outside: one attended row now and then, bytes
 * of K/V, allocations, and what the processor counts.
 *
 * A POOL's watcher asks for a row; the next step with rows of that pool hands one over, once, before its
 * appends are committed. Engine thread, between steps, but what is said. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_DECODER_WATCH_H
#define FOLDKV_SCHED_DECODER_WATCH_H

#include "sched/decoder.h"

/* A row as one layer's attention had it. A loan for the call. */
struct decoder_row {
    uint32_t layer;
    const struct kv_layer *memory;      /* of the layer, in the pool */
    struct attention_sequence sequence; /* n_rows 1, first_position the row's; row_first means nothing */
    const float *q;                     /* [n_query_heads * d_qk], rotated, not scaled */
    const float *attended;              /* [n_query_heads * d_v] */
};
typedef void decoder_row_fn(void *user, const struct decoder_row *row);

/* pick is any number: it chooses among the rows. Asking again replaces what was asked. In the last layer,
 * which not every row goes through, a step may have no row to give; then the next one is asked. on_row comes
 * on the engine thread, from inside decoder_step; NULL asks for nothing. */
void decoder_ask_row(struct decoder *decoder, uint32_t pool, uint32_t layer, uint64_t pick,
                     decoder_row_fn *on_row, void *user);

/* Sums since the decoder was made. */
struct decoder_sums {
    /* K/V of the pool's sequences with one row in a step: addressed by attention_run, and there to be read
     * once. */
    uint64_t issued_bytes, logical_bytes;
    /* Of all pools, since steps are shared. */
    uint64_t allocations;                 /* by any thread of a step, during it */
    uint64_t miss_bytes, miss_logical_bytes; /* of counted steps: cache lines missed; weights and K/V */
};
void decoder_sums(const struct decoder *decoder, uint32_t pool, struct decoder_sums *ret_sums);
/* Counts cache misses in the next step in which no sequence has more than one row, if the host can. */
void decoder_count_misses(struct decoder *decoder);

#endif
