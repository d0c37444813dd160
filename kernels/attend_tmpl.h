/* attend_tmpl.h: one chunk of grouped attention, merge and finish, as a template over lanes.h.
 *
 * WHY     A unit of K/V is loaded and widened once for all rows of the tile; no row's order of sums
 *         depends on which rows stand beside it (attention.h: ORDER OF SUMS), so the shapes below
 *         are chosen for speed alone.
 * HOW     A step runs three functions, qk, softmax and pv, each kept out of line: in one body the
 *         compiler hoists the constants of exp over the accumulators and spills them. Rows are cut
 *         evenly into parts of at most ATTEND_STEP_ROWS, so that a step's scores stay in the first
 *         cache, and these into blocks of at most ATTEND_BLOCK_ROWS (attend_float_tmpl.h,
 *         attend_int8_tmpl.h). While qk reads a line of K it asks for the same line of the units one and two
 *         steps ahead, and pv likewise for V: so the requests to memory are spread evenly over the
 *         step; a burst of even two is slower. They go to the second cache: into the first, they
 *         wait for its few miss buffers and halve the speed (Zen 4). A step of wide heads overflows
 *         the first cache, and is yet faster than a shorter one, which loads and stores its sums
 *         more often (d 256, four rows: 64 tokens 1.1x of 16).
 * ALWAYS  (1) A masked token's K enters only lanes that are then set to -inf, its V nothing; a unit
 *             in which no row sees a token is not read.
 *         (2) Loads stay inside the units.
 * NOT     Addresses, rows, order of chunks: attention_run.c.
 *
 * The including file defines LANES_x, ATTEND_NAME(op), ATTEND_FLOAT (0: int8 alone) and
 * ATTEND_SPECIALISED (1: a function a shape; 0: one for all), the enum constants ATTEND_BLOCK_ROWS,
 * ATTEND_STEP_ROWS, ATTEND_VECTORS, ATTEND_AT_ONCE (vectors of K/V that registers hold beside the sums), ATTEND_TWICE_ROWS (up
 * to so many rows a line is asked for twice), ATTEND_UNROLL_ROWS and ATTEND_UNROLL_WIDE, if specialised
 * ATTEND_EACH_ROWS(X, ...) as X(1, ...) .. X(ATTEND_BLOCK_ROWS, ...), and what attend_int8_tmpl.h
 * asks for. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTEND_TMPL_H
#define FOLDKV_KERNELS_ATTEND_TMPL_H

#include "kernels/lanes.h"

#include <math.h>
#include <string.h>

#include "kernels/kernel_rows.h"
#include "kernels/prefetch.h"

enum {
    SCORE_STRIDE =
        ATTEND_STEP + 16, /* floats; rows must not share the sets of the first cache */
    COLUMNS_MAX = 4,          /* vectors of V that pv takes at once */
};

/* What a step works on. */
struct step {
    const void *const *k; /* [units] */
    const void *const *v;
    const void *const *k_ahead;
    const void *const *v_ahead;
    const void *const *k_far;
    const void *const *v_far;
    uint32_t n_tokens;
    uint32_t first_unit; /* those before it lie behind every row's window */
    uint32_t n_units;
    uint32_t d_qk, d_v;
};

/* What comes in one step, and what comes in two: a processor may drop a request when its queue is
 * full, and then the second one finds the line missing. */
LANES_INLINE void prefetch_twice(const void *ahead, const void *far, size_t offset)
{
    prefetch_line_far(ahead, offset);
    prefetch_line_far(far, offset);
}

/* The tokens first..end-1. */
struct span {
    uint32_t first, end;
};

/* Turns one row's scores into weights: of 16 * units tokens those in the span are visible; m, l and
 * acc follow the maximum. */
LANES_INLINE void attend_softmax(const int units, struct span seen, uint32_t d_v, float *scores,
                                 float *m, float *l, float *acc)
{
    v16 s[ATTEND_STEP_UNITS];
    for (uint32_t t = 0; t < seen.first; t++) /* what lies behind a window; rarely any */
        scores[t] = -INFINITY;
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (int u = 0; u < units; u++)
        s[u] = v16_load(scores + ATTEND_UNIT * u);
    if (__builtin_expect(seen.end < (uint32_t)(ATTEND_UNIT * units), 0))
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++)
            s[u] = v16_keep(s[u], (int)seen.end - ATTEND_UNIT * u);
    v16 top = s[0];
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (int u = 1; u < units; u++)
        top = v16_max(top, s[u]);
    v16 m_all = v16_set1(*m);
    v16 sum = v16_load(l);
    if (v16_any_gt(top, m_all)) {
        *m = v16_fold_max(top);
        v16 m_new = v16_set1(*m);
        v16 c = v16_exp(v16_sub(m_all, m_new));
        m_all = m_new;
        sum = v16_mul(sum, c);
        for (uint32_t j = 0; j < d_v; j += 16)
            v16_store(acc + j, v16_mul(v16_load(acc + j), c));
    }
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (int u = 0; u < units; u++) {
        v16 p = v16_exp(v16_sub(s[u], m_all));
        v16_store(scores + ATTEND_UNIT * u, p);
        sum = v16_add(sum, p);
    }
    v16_store(l, sum);
}

#if ATTEND_SPECIALISED

#define ATTEND_OUT_OF_LINE static __attribute__((noinline))

ATTEND_OUT_OF_LINE void softmax_1(struct span seen, uint32_t d_v, float *scores, float *m,
                                  float *l, float *acc)
{
    attend_softmax(1, seen, d_v, scores, m, l, acc);
}

ATTEND_OUT_OF_LINE void softmax_2(struct span seen, uint32_t d_v, float *scores, float *m,
                                  float *l, float *acc)
{
    attend_softmax(2, seen, d_v, scores, m, l, acc);
}

ATTEND_OUT_OF_LINE void softmax_3(struct span seen, uint32_t d_v, float *scores, float *m,
                                  float *l, float *acc)
{
    attend_softmax(3, seen, d_v, scores, m, l, acc);
}

ATTEND_OUT_OF_LINE void softmax_4(struct span seen, uint32_t d_v, float *scores, float *m,
                                  float *l, float *acc)
{
    attend_softmax(4, seen, d_v, scores, m, l, acc);
}

typedef void softmax_fn(struct span seen, uint32_t d_v, float *scores, float *m, float *l,
                        float *acc);
static softmax_fn *const softmax_table[ATTEND_STEP_UNITS] = {softmax_1, softmax_2, softmax_3, softmax_4};

#endif

/* log2 of the widest shape (1, 2 or 4) of at most vectors accumulators that is no wider than what
 * is left. */
LANES_INLINE uint32_t shape_wide(uint32_t rows, uint32_t vectors, uint32_t left)
{
    uint32_t log2_wide = rows * 4 <= vectors ? 2 : rows * 2 <= vectors ? 1 : 0;
    while ((1u << log2_wide) > left)
        log2_wide--;
    return log2_wide;
}

/* The tile's rows in this chunk. */
struct rows {
    uint32_t n;
    uint32_t n_blocks;
    struct span any;  /* from the first token that some row sees to the last */
    struct span all; /* tokens of the chunk that every row sees; may be empty */
};

LANES_INLINE uint32_t block_first(const struct rows *rows, uint32_t block)
{
    return rows->n * block / rows->n_blocks;
}

/* The tokens of the chunk that row r sees. */
LANES_INLINE struct span row_span(const struct attend_tile *tile, uint32_t r)
{
    return (struct span){tile->row_first == NULL ? 0 : tile->row_first[r], tile->row_tokens[r]};
}

/* What a step of n tokens from t0 on has of a span, counted from t0. */
LANES_INLINE struct span span_in(struct span span, uint32_t t0, uint32_t n)
{
    uint32_t first = span.first <= t0 ? 0 : span.first - t0;
    uint32_t end = span.end <= t0 ? 0 : span.end - t0 < n ? span.end - t0 : n;
    return (struct span){first < end ? first : end, end};
}

static struct rows rows_of(const struct attend_tile *tile)
{
    struct rows rows = {
        .n = tile->n_rows,
        .n_blocks = (tile->n_rows + ATTEND_BLOCK_ROWS - 1) / ATTEND_BLOCK_ROWS,
        .any = {ATTEND_CHUNK, 0},
        .all = {0, ATTEND_CHUNK},
    };
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        struct span seen = row_span(tile, r);
        rows.all.first = seen.first > rows.all.first ? seen.first : rows.all.first;
        rows.all.end = seen.end < rows.all.end ? seen.end : rows.all.end;
        if (seen.end == 0)
            continue;
        rows.any.first = seen.first < rows.any.first ? seen.first : rows.any.first;
        rows.any.end = seen.end > rows.any.end ? seen.end : rows.any.end;
    }
    return rows;
}

static void softmax_rows(const struct attend_tile *tile, const struct step *step, uint32_t t0,
                         float *scores, float *l)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        struct span seen = span_in(row_span(tile, r), t0, step->n_tokens);
        float *acc = tile->acc + (size_t)r * step->d_v;
        if (seen.first == seen.end)
            continue;
#if ATTEND_SPECIALISED
        softmax_table[step->n_units - 1](seen, step->d_v, scores + r * SCORE_STRIDE, tile->m + r,
                                         l + 16 * r, acc);
#else
        attend_softmax((int)step->n_units, seen, step->d_v, scores + r * SCORE_STRIDE, tile->m + r,
                       l + 16 * r, acc);
#endif
    }
}

#if ATTEND_FLOAT
#include "kernels/attend_float_tmpl.h"
#endif
#include "kernels/attend_int8_tmpl.h"

/* The step at t0, for the tokens of it that some row sees. */
LANES_INLINE struct step step_at(const struct attend_tile *tile, uint32_t t0, struct span any)
{
    uint32_t u = t0 / ATTEND_UNIT;
    return (struct step){tile->k_units + u,
                         tile->v_units + u,
                         tile->k_ahead + u,
                         tile->v_ahead + u,
                         tile->k_far + u,
                         tile->v_far + u,
                         any.end,
                         any.first / ATTEND_UNIT,
                         (any.end + ATTEND_UNIT - 1) / ATTEND_UNIT,
                         tile->d_qk,
                         tile->d_v};
}

LANES_INLINE void attend_rows(const enum kv_type type, const struct attend_tile *tile)
{
    float l[ATTEND_STEP_ROWS * 16] __attribute__((aligned(64)));
    struct i8_rows i8; /* of int8 alone */
    struct rows rows = rows_of(tile);
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        tile->m[r] = -INFINITY;
        v16_store(l + 16 * r, v16_zero());
    }
    for (size_t j = 0; j < (size_t)tile->n_rows * tile->d_v; j += 16)
        v16_store(tile->acc + j, v16_zero());
    if (type == KV_I8)
        quantise_q(tile, &i8);
    for (uint32_t t0 = rows.any.first / ATTEND_STEP * ATTEND_STEP; t0 < rows.any.end;
         t0 += ATTEND_STEP) {
        struct step step = step_at(tile, t0, span_in(rows.any, t0, ATTEND_STEP));
#if ATTEND_FLOAT
        if (type != KV_I8)
            attend_step(type, tile, &rows, &step, t0, l);
#endif
        if (type == KV_I8)
            attend_step_i8(tile, &step, t0, &i8, l);
    }
    for (uint32_t r = 0; r < tile->n_rows; r++)
        tile->l[r] = v16_fold_add(v16_load(l + 16 * r));
}

/* More rows than a step works on run through the chunk one part after the other; the chunk is then
 * in the second cache. */
LANES_INLINE void attend_chunk(const enum kv_type type, const struct attend_tile *tile)
{
    uint32_t n_parts = (tile->n_rows + ATTEND_STEP_ROWS - 1) / ATTEND_STEP_ROWS;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t r = tile->n_rows * i / n_parts;
        struct attend_tile part = *tile;
        part.n_rows = tile->n_rows * (i + 1) / n_parts - r;
        part.q += r * ATTEND_Q_STRIDE;
        part.row_tokens += r;
        part.row_first = tile->row_first == NULL ? NULL : tile->row_first + r;
        part.m += r;
        part.l += r;
        part.acc += (size_t)r * tile->d_v;
        attend_rows(type, &part);
    }
}

void ATTEND_NAME(attend_chunk_i8)(const struct attend_tile *tile)
{
    attend_chunk(KV_I8, tile);
}

#if ATTEND_FLOAT

void ATTEND_NAME(attend_chunk_f16)(const struct attend_tile *tile)
{
    attend_chunk(KV_F16, tile);
}

void ATTEND_NAME(attend_chunk_f32)(const struct attend_tile *tile)
{
    attend_chunk(KV_F32, tile);
}

void ATTEND_NAME(attend_merge)(uint32_t d_v, float *m, float *l, float *acc, float m2, float l2,
                               const float *acc2)
{
    v16 m1 = v16_set1(*m);
    v16 both = v16_max(m1, v16_set1(m2));
    v16 a = v16_exp(v16_sub(m1, both));
    v16 b = v16_exp(v16_sub(v16_set1(m2), both));
    float lanes[16];
    v16_store(lanes, v16_fma(v16_set1(*l), a, v16_mul(v16_set1(l2), b)));
    *l = lanes[0];
    v16_store(lanes, both);
    *m = lanes[0];
    for (uint32_t j = 0; j < d_v; j += 16)
        v16_store(acc + j, v16_fma(v16_load(acc + j), a, v16_mul(v16_load(acc2 + j), b)));
}

void ATTEND_NAME(attend_finish)(uint32_t d_v, float l, const float *acc, float *out)
{
    v16 sum = v16_set1(l);
    for (uint32_t j = 0; j < d_v; j += 16)
        v16_store(out + j, v16_div(v16_load(acc + j), sum));
}

#endif

#endif
