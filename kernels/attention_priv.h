/* attention_priv.h: what attention_plan.c, attention_schedule.c and attention_run.c share; nobody
 * else includes it.
 *
 * PAIR  A query row of a group: pair i of a sequence is query head i % g of the group at the
 *       sequence's row i / g. A tile is a run of at most ATTEND_ROWS_MAX pairs.
 * CUT   Where one thread's share of the items ends and the next begins: a tile and a chunk of it.
 *       Tiles stand in the order of K/V addresses (group by group, sequence by sequence), so a
 *       share reads one stretch of memory. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTENTION_PRIV_H
#define FOLDKV_KERNELS_ATTENTION_PRIV_H

#include "kernels/attention.h"

/* The query heads that share both owners. */
struct attention_group {
    uint16_t k_head;
    uint16_t v_head;
    uint16_t n_heads;
    uint16_t first; /* into plan->heads */
};

/* A page of a sequence: page `page` of run `run`. */
struct page_cursor {
    uint32_t run;
    uint32_t page;
};

struct attention_tile {
    uint32_t sequence;
    uint32_t pair_first;
    uint32_t token_first; /* the first that some row sees: 0 but for a window */
    uint32_t n_tokens;    /* from the sequence's beginning to the last that some row sees */
    uint32_t chunk_first; /* that of token_first */
    uint32_t n_chunks;    /* that n_tokens fill, those before chunk_first included */
    struct page_cursor at; /* the page of token_first */
    uint16_t group;
    uint16_t n_rows;
};

struct attention_cut {
    uint32_t tile;
    uint32_t chunk;        /* if it is the tile's first: 0, the tile has the place */
    struct page_cursor at; /* of another: its first page */
};

/* The state of a tile's rows over one chunk or several. */
struct attention_partial {
    float *m;   /* [ATTEND_ROWS_MAX] */
    float *l;   /* [ATTEND_ROWS_MAX] */
    float *acc; /* [ATTEND_ROWS_MAX][d_v] */
};

/* What one thread writes. A tile that begins with the thread's share (at its first chunk) is merged into
 * state as it goes; of a tile that another thread began, every chunk keeps a partial of its own,
 * since merging is defined in ascending order only. */
struct attention_space {
    float *q; /* [ATTEND_ROWS_MAX][ATTEND_Q_STRIDE] */
    struct attention_partial state;
    struct attention_partial chunk;
    float *partials; /* [chunks of a context or window], see attention_partial_at */
};

/* What one thread has counted, in units of 16 tokens of one head; a line each. */
struct attention_count {
    uint64_t issued[ATTEND_POOLS_MAX];
    uint64_t logical[ATTEND_POOLS_MAX]; /* thread 0 alone */
} __attribute__((aligned(64)));

struct attention_plan {
    uint32_t n_query_heads, n_kv_heads;
    uint32_t d_qk, d_v;
    uint32_t window; /* 0: all */
    enum kv_type type;
    float scale;
    uint32_t n_threads;
    uint32_t rows_max, sequences_max, context_max;
    uint8_t architecture_hash[32];
    uint32_t pools_admitted; /* a bit each */
    uint8_t generations[ATTEND_POOLS_MAX][32];
    attend_chunk_fn *chunk;
    attend_merge_fn *merge;
    attend_finish_fn *finish;

    uint32_t n_groups;
    struct attention_group *groups;
    uint16_t *heads; /* [n_query_heads], group by group */

    struct attention_count *counts; /* [n_threads] */
    char *space;                    /* [n_threads] of space_bytes */
    size_t space_bytes;
    size_t workspace_bytes;

    /* The schedule: rewritten by every attention_schedule, read by every thread. */
    struct attention_sequence *sequences; /* [sequences_max] */
    struct attention_tile *tiles;         /* [tiles_max] */
    uint32_t tiles_max;
    uint32_t n_tiles;
    uint32_t pools_used; /* a bit each */
    uint64_t units[ATTEND_POOLS_MAX]; /* of single rows, in one layer */
    struct attention_cut *cuts; /* [n_threads + 1] */
};

/* The first token that a row at a position sees. */
static inline uint32_t attention_token_first(const struct attention_plan *plan, uint32_t position)
{
    return plan->window == 0 || position < plan->window ? 0 : position - plan->window + 1;
}

/* Floats of one partial; a multiple of 16. */
size_t attention_partial_floats(const struct attention_plan *plan);
struct attention_partial attention_partial_in(float *floats);
struct attention_partial attention_partial_at(const struct attention_plan *plan, uint32_t tid,
                                              uint32_t i);
struct attention_space attention_space_of(const struct attention_plan *plan, uint32_t tid);

#endif
