/* attention.h: grouped attention over paged, H_kv-shaped K/V: contracts, layouts, order of the
 * sums.
 *
 * UNIT  16 tokens of one K/V head of one layer, 64-byte aligned, the K part and the V part
 *       addressed apart: K [d_qk][16], V [16][d_v], f16 or f32; int8 as K u8 [d_qk/4][16][4]
 *       stored + 128 with scales f32[16] behind it, V s8 [4][d_v][4] with scales f32[16] behind it.
 *       K/V is never repeated: a tile of query rows that share a K/V head reads each unit once.
 * TILE  Query rows = (query head, position) pairs that share both owners, 1..ATTEND_ROWS_MAX of
 *       them. Row r sees the tokens row_first[r]..row_tokens[r]-1 of the chunk: all up to its own
 *       position, and under a window W of those the last W.
 *
 * ORDER OF SUMS
 * Chunk = 256 tokens at absolute multiples of 256; step = 64 tokens at absolute multiples of 64. For
 * one row and one chunk, starting from m = -inf, l[16] = 0, acc[d_v] = 0, for each step that holds a
 * visible token, with f..n-1 = the step's tokens that this row sees (f > 0 only in the step that
 * holds the beginning of its window):
 *     s[t] = fma(q[0], k[0][t], 0), then fma(q[i], k[i][t], s[t]) for i = 1..d_qk-1
 *                                                                        (q is scaled already)
 *     M = max(m, s[f..n-1]);  if M > m: c = exp(m - M); l[.] *= c; acc[.] *= c; m = M
 *     p[t] = exp(s[t] - m) for t = f..n-1;  l[t % 16] += p[t], t ascending
 *                                                                (lanes of masked tokens add 0)
 *     acc[j] = fma(p[t], v[t][j], acc[j]) for t = f..n-1 ascending
 * A masked token is left out by loop bound: an inf or NaN in its K or V reaches no row; steps and
 * units in which no row of a tile sees a token are not read. Chunks and steps lie at absolute
 * positions, so a window moves over them and does not move them. The partial's l is the fixed-tree
 * fold of l[16] (lanes.h). Partials of a row merge in ascending chunk order, starting from the
 * first in which the row sees a token; a chunk in which it sees none is left out:
 *     M = max(m, m2); a = exp(m - M); b = exp(m2 - M); m = M
 *     l = fma(l, a, l2 * b); acc[j] = fma(acc[j], a, acc2[j] * b)
 * and the result is acc[j] / l. The group, the tile, the threads and the mode change none of this,
 * so they change no bit.
 *
 * INT8
 * Numbers are quantised as x * (level / a), rounded, and stand for that times a / level, where a is
 * the greatest magnitude of their row. A NaN or inf among them makes the scale NaN and the numbers
 * 0; a < 2^-100 makes both 0. rne = to nearest, ties to even.
 *     storing, K and V alike: a token's row of one head, level 127, rne; scales ks, vs
 *     q, once a chunk: a row's scaled q, level 32512, rne; scale qs
 *     s[t] = (rne(sum of q[i] * k[i][t]) * qs) * ks[t]      in place of the chain above; the sum is
 *                                                    of integers and exact, rne makes it f32
 *     w[t] = p[t] * vs[t] for t = f..n-1, level 65280; what rounding leaves over goes to the token
 *         sixteen on, so that many small weights lose or gain no mass together: c[t % 16] starts each
 *         step as (2 r + 1) / 32, r = t % 16 with its 4 bits reversed, and for t ascending
 *         x = fma(w[t], 65280 / a, c[t % 16]); w[t] is stored as trunc(x); c[t % 16] = x - trunc(x)
 *     acc[j] = fma(rne(sum of w[t] * v[t][j]), a / 65280, acc[j])   in place of the chain above;
 *                                                    left out where a < 2^-100
 * m and l are as above; l sums the weights p unrounded. An inf or NaN anywhere in a token's K or V
 * row makes that whole row NaN, and with it every row that sees it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTENTION_H
#define FOLDKV_KERNELS_ATTENTION_H

#include "config/why.h"

enum {
    ATTEND_CHUNK = 256, /* tokens */
    ATTEND_UNIT = 16,   /* tokens */
    ATTEND_CHUNK_UNITS = ATTEND_CHUNK / ATTEND_UNIT,
    ATTEND_STEP = 64,   /* tokens */
    ATTEND_STEP_UNITS = ATTEND_STEP / ATTEND_UNIT,
    ATTEND_ROWS_MAX = 24,   /* query rows in a tile */
    ATTEND_WIDTH_MAX = 256, /* d_qk and d_v */
    ATTEND_Q_LEVEL = 32512, /* 127 * 256: two planes of signed bytes */
    ATTEND_P_LEVEL = 65280, /* 255 * 256: two planes of unsigned bytes */
    /* Floats between query rows of a tile; not a power of two, or rows share sets of a cache. */
    ATTEND_Q_STRIDE = ATTEND_WIDTH_MAX + 16,
    PAGE_TOKENS = 64,
    PAGE_UNITS = PAGE_TOKENS / ATTEND_UNIT,
    ATTEND_POOLS_MAX = 4, /* caches whose sequences one step may mix */
};

enum kv_type { KV_F16, KV_F32, KV_I8, KV_TYPE_COUNT };

size_t kv_k_part_bytes(enum kv_type type, uint32_t d_qk); /* of one unit */
size_t kv_v_part_bytes(enum kv_type type, uint32_t d_v);

/* One layer's K/V memory, head-major: the K part of unit u of page p of head h is at
 *   base + h * head_stride + p * page_stride + u * unit_stride, its V part v_offset behind it. */
struct kv_layer {
    char *base;
    size_t head_stride;
    size_t page_stride;
    size_t unit_stride;
    size_t v_offset;
    uint16_t n_heads;
    uint16_t d_qk;
    uint16_t d_v;
    enum kv_type type;
    const uint8_t *generation; /* [32], of the cache whose memory this is */
};

/* A run of physically consecutive pages in a sequence's block table. */
struct page_run {
    uint32_t first_page;
    uint32_t n_pages;
};

/* ---- leaf kernels, one set an instruction set ---- */

struct attend_tile {
    uint32_t n_rows;    /* 1..ATTEND_ROWS_MAX */
    uint32_t d_qk, d_v; /* multiples of 16, 16..256 */
    const float *q;     /* [n_rows][ATTEND_Q_STRIDE], scaled */
    uint32_t n_tokens;  /* 1..256: the longest row's visible tokens in this chunk */
    /* [n_rows], each 0..n_tokens; a row with 0 gets m = -inf, l = 0, acc = 0 */
    const uint16_t *row_tokens;
    /* [n_rows], the first token each row sees, under its row_tokens (0 where that is 0); NULL: all
     * rows see the chunk from its first token on */
    const uint16_t *row_first;
    /* ceil(n_tokens / 16) addresses; those of units before every row's first token are not read */
    const void *const *k_units;
    const void *const *v_units;
    /* As many each; prefetched while unit u is worked on, never read. */
    const void *const *k_ahead; /* [u] is what comes one step after unit u */
    const void *const *v_ahead;
    const void *const *k_far; /* [u] is what comes two steps after */
    const void *const *v_far;
    float *m;   /* [n_rows] */
    float *l;   /* [n_rows] */
    float *acc; /* [n_rows][d_v] */
};

/* One chunk for one tile. Uses at most 64 KiB of its own stack; allocates nothing. */
typedef void attend_chunk_fn(const struct attend_tile *tile);
/* Merges partial 2 into the running state, in place, by the formula above. */
typedef void attend_merge_fn(uint32_t d_v, float *m, float *l, float *acc, float m2, float l2,
                             const float *acc2);
/* out[j] = acc[j] / l. */
typedef void attend_finish_fn(uint32_t d_v, float l, const float *acc, float *out);
/* Writes one token's K row [d_qk] and V row [d_v] into place token (0..15) of a unit, rounded to
 * the K/V type. */
typedef void kv_store_fn(uint32_t d_qk, uint32_t d_v, uint32_t token, const float *k,
                         const float *v, void *k_part, void *v_part);

struct attention_kernels {
    attend_chunk_fn *chunk[KV_TYPE_COUNT];
    kv_store_fn *store[KV_TYPE_COUNT];
    attend_merge_fn *merge;
    attend_finish_fn *finish;
};

/* ---- plan: everything that is decided before the first step ---- */

struct attention_shape {
    uint32_t n_query_heads;
    uint32_t n_kv_heads;
    uint32_t d_qk, d_v;
    uint32_t window; /* W: a row at position p sees p-W+1..p; 0: all */
    enum kv_type type;
    float scale;                     /* multiplies q, usually 1 / sqrt(d_qk) */
    const uint16_t *query_to_k_head; /* [n_query_heads], copied */
    const uint16_t *query_to_v_head;
    uint8_t architecture_hash[32];
    uint32_t n_threads;
    uint32_t rows_max; /* activation rows (tokens) of one step */
    uint32_t sequences_max;
    uint32_t context_max; /* tokens */
};

struct attention_plan;

/* Groups the query heads by the owners they share, checks every limit (widths, maps, counts) and
 * takes the workspace.
 * BAD_OPTION or BAD_FILE with a why if the shape cannot be served; NO_MEMORY. One plan serves all
 * layers of one shape. */
enum status attention_plan_new(const struct attention_shape *shape,
                               const struct attention_kernels *kernels,
                               struct attention_plan **ret_plan, struct why *ret_why) MUST_USE;
void attention_plan_free(struct attention_plan **plan);
/* From now on the plan serves pool 0..ATTEND_POOLS_MAX-1, whose cache is of this generation. Not
 * during a step. */
void attention_plan_admit(struct attention_plan *plan, uint32_t pool, const uint8_t generation[32]);
/* And from now on no longer. */
void attention_plan_dismiss(struct attention_plan *plan, uint32_t pool);
bool attention_plan_admits(const struct attention_plan *plan, uint32_t pool,
                           const uint8_t generation[32]);
size_t attention_plan_workspace_bytes(const struct attention_plan *plan);

/* One sequence's share of a step: n_rows consecutive positions whose K/V rows are already stored,
 * the first of which is position first_position; its activation rows start at row_first. */
struct attention_sequence {
    const struct page_run *runs;
    uint32_t n_runs;
    /* The page of the sequence with which runs[0] begins; those before it lie behind every row's
     * window and may be gone. */
    uint32_t first_page;
    uint32_t first_position;
    uint32_t n_rows;
    uint32_t row_first;
    uint32_t pool; /* where its pages are, 0..ATTEND_POOLS_MAX-1 */
};

/* Deals the step's (tile, chunk) items to the threads. The runs must stay as they are until the
 * step ends. Engine thread. */
void attention_schedule(struct attention_plan *plan, const struct attention_sequence *sequences,
                        uint32_t n_sequences);

/* Thread tid's share of one layer, which layers[pool] says where to find in each pool that the step
 * uses (others are not looked at). q is [rows][n_query_heads * d_qk], out is
 * [rows][n_query_heads * d_v].
 * STALE_PLAN (on every thread alike) if the hash is not the plan's or a pool's generation is not
 * the one that was admitted: nothing is read or written then.
 * A barrier must stand between the last attention_run and attention_merge, which completes the rows
 * whose chunks were dealt to several threads; out is whole after one more barrier, and at once if
 * no tile of the step is cut. Neither allocates. */
enum status attention_run(const struct attention_plan *plan, uint32_t tid,
                          const struct kv_layer *layers, const uint8_t architecture_hash[32],
                          const float *q, float *out) MUST_USE;
void attention_merge(const struct attention_plan *plan, uint32_t tid, float *out);
/* Whether the step has a tile whose chunks were dealt to several threads: else there is nothing to
 * merge. */
bool attention_is_cut(const struct attention_plan *plan);

/* K/V bytes since the plan was made, of a pool's sequences that had one row in a step: those that
 * attention_run addressed for its kernels, and those that were there to be read once. With more rows
 * the ratio would say how long prompts are, not how they are attended. Between steps. */
struct attention_traffic {
    uint64_t issued_bytes, logical_bytes;
};
struct attention_traffic attention_plan_traffic(const struct attention_plan *plan, uint32_t pool);

#endif
