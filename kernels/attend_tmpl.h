/* attend_tmpl.h: one chunk of grouped attention, merge and finish, as a template over lanes.h.
 *
 * WHY     A unit of K/V is loaded and widened once for all rows of the tile; no row's order of sums
 *         depends on which rows stand beside it (attention.h: ORDER OF SUMS), so the shapes below
 *         are chosen for speed alone.
 * HOW     A step runs three functions, qk, softmax and pv, each kept out of line: in one body the
 *         compiler hoists the constants of exp over the accumulators and spills them. Rows are cut
 *         evenly into parts of at most ATTEND_STEP_ROWS, so that a step stays in the first cache,
 *         and these into blocks of at most ATTEND_BLOCK_ROWS; qk holds rows x units and pv rows x
 *         columns of accumulators, at most ATTEND_VECTORS, in registers.
 *         (Widening f16 once a step into f32 scratch, instead of once a block, was slower in every
 *         case.) While qk reads a line of K it asks for the same line of the units one and two
 *         steps ahead, and pv likewise for V: so the requests to memory are spread evenly over the
 *         step; a burst of even two is slower. They go to the second cache: into the first, they
 *         wait for its few miss buffers and halve the speed (Zen 4).
 * ALWAYS  (1) A masked token's K enters only lanes that are then set to -inf, its V nothing; a unit
 *             in which no row sees a token is not read.
 *         (2) Loads stay inside the units.
 * NOT     Addresses, rows, order of chunks: attention_run.c.
 *
 * The including file defines LANES_x, ATTEND_NAME(op) and ATTEND_SPECIALISED (1: a function a
 * shape; 0: one for all), the enum constants ATTEND_BLOCK_ROWS, ATTEND_STEP_ROWS, ATTEND_VECTORS,
 * ATTEND_UNROLL_ROWS and ATTEND_UNROLL_WIDE, and if specialised ATTEND_EACH_ROWS(X, ...) as X(1,
 * ...) .. X(ATTEND_BLOCK_ROWS, ...). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTEND_TMPL_H
#define FOLDKV_KERNELS_ATTEND_TMPL_H

#include "kernels/lanes.h"

#include <math.h>

#include "kernels/kernel_rows.h"
#include "kernels/prefetch.h"

enum {
    STEP_UNITS = ATTEND_STEP_MAX / ATTEND_UNIT,
    SCORE_STRIDE =
        ATTEND_STEP_MAX + 16, /* floats; rows must not share the sets of the first cache */
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

typedef void qk_fn(const struct step *step, uint32_t unit, const float *q, float *scores);
typedef void pv_fn(const struct step *step, uint32_t first, uint32_t end, uint32_t column,
                   const float *p, float *acc);

LANES_INLINE v16 kv_load(const enum kv_type type, const void *part, size_t i)
{
    return type == KV_F16 ? v16_load_f16((const uint16_t *)part + i)
                          : v16_load((const float *)part + i);
}

/* What comes in one step, and what comes in two: a processor may drop a request when its queue is
 * full, and then the second one finds the line missing. */
LANES_INLINE void prefetch_twice(const void *ahead, const void *far, size_t offset)
{
    prefetch_line_far(ahead, offset);
    prefetch_line_far(far, offset);
}

/* scores[r][t] = q[r] . k[t] for rows x 16 * units tokens from unit on. */
LANES_INLINE void attend_qk(const enum kv_type type, const int rows, const int units,
                            const struct step *step, uint32_t unit, const float *q, float *scores)
{
    v16 s[ATTEND_BLOCK_ROWS][STEP_UNITS];
    const void *k[STEP_UNITS], *ahead[STEP_UNITS], *far[STEP_UNITS];
    const size_t bytes = type == KV_F16 ? 2 : 4;
    for (int u = 0; u < units; u++) {
        k[u] = step->k[unit + (uint32_t)u];
        ahead[u] = step->k_ahead[unit + (uint32_t)u];
        far[u] = step->k_far[unit + (uint32_t)u];
    }
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++)
            s[r][u] = v16_zero();
    const float *q_end = q + step->d_qk;
    size_t at = 0;
#pragma GCC unroll 1
    for (; q != q_end; q += 2, at += 2 * ATTEND_UNIT) {
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++) {
            prefetch_twice(ahead[u], far[u], at * bytes);
            if (type == KV_F32)
                prefetch_twice(ahead[u], far[u], at * bytes + 64);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            v16 kv[STEP_UNITS];
#pragma GCC unroll ATTEND_UNROLL_WIDE
            for (int u = 0; u < units; u++)
                kv[u] = kv_load(type, k[u], at + (size_t)half * ATTEND_UNIT);
#pragma GCC unroll ATTEND_UNROLL_ROWS
            for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
                for (int u = 0; u < units; u++)
                    s[r][u] = v16_fma_at(q + r * ATTEND_Q_STRIDE + half, kv[u], s[r][u]);
        }
    }
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++)
            v16_store(scores + r * SCORE_STRIDE + ATTEND_UNIT * ((int)unit + u), s[r][u]);
}

/* acc[r][column..] += p[r][t] * v[t][column..] for rows x 16 * columns coordinates and the tokens
 * first..end-1. */
LANES_INLINE void attend_pv(const enum kv_type type, const int rows, const int columns,
                            const struct step *step, uint32_t first, uint32_t end, uint32_t column,
                            const float *p, float *acc)
{
    v16 a[ATTEND_BLOCK_ROWS][COLUMNS_MAX];
    const size_t bytes = type == KV_F16 ? 2 : 4;
    const uint32_t d_v = step->d_v;
    acc += column;
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int j = 0; j < columns; j++)
            a[r][j] = v16_load(acc + (size_t)r * d_v + 16 * j);
#pragma GCC unroll 1
    while (first < end) {
        uint32_t unit = first / ATTEND_UNIT;
        uint32_t stop = (unit + 1) * ATTEND_UNIT < end ? (unit + 1) * ATTEND_UNIT : end;
        size_t at = (size_t)(first % ATTEND_UNIT) * d_v + column;
        const void *v = step->v[unit], *ahead = step->v_ahead[unit], *far = step->v_far[unit];
        const float *pt = p + first, *pt_end = p + stop;
        first = stop;
#pragma GCC unroll 1
        for (; pt != pt_end; pt++, at += d_v) {
            v16 x[COLUMNS_MAX];
#pragma GCC unroll ATTEND_UNROLL_WIDE
            for (int j = 0; j < columns; j++) {
                x[j] = kv_load(type, v, at + 16 * (size_t)j);
                if (type == KV_F32 || j % 2 == 0)
                    prefetch_twice(ahead, far, (at + 16 * (size_t)j) * bytes);
            }
#pragma GCC unroll ATTEND_UNROLL_ROWS
            for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
                for (int j = 0; j < columns; j++)
                    a[r][j] = v16_fma_at(pt + r * SCORE_STRIDE, x[j], a[r][j]);
        }
    }
    __asm__(
        ""
        : "+r"(
            acc)); /* or the addresses of the loads are kept, in vector registers or on the stack */
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int j = 0; j < columns; j++)
            v16_store(acc + (size_t)r * d_v + 16 * j, a[r][j]);
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
    v16 s[STEP_UNITS];
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
#define ATTEND_FITS(rows, wide) ((rows) * (wide) <= ATTEND_VECTORS || (wide) == 1)

/* Shapes that do not fit the registers are left empty and never called. */
#define ATTEND_SHAPE(rows, wide, tag, type)                                                        \
    ATTEND_OUT_OF_LINE void qk_##tag##_##rows##_##wide(const struct step *step, uint32_t unit,     \
                                                       const float *q, float *scores)              \
    {                                                                                              \
        if (ATTEND_FITS(rows, wide))                                                               \
            attend_qk(type, rows, wide, step, unit, q, scores);                                    \
    }                                                                                              \
    ATTEND_OUT_OF_LINE void pv_##tag##_##rows##_##wide(const struct step *step, uint32_t first,    \
                                                       uint32_t end, uint32_t column,              \
                                                       const float *p, float *acc)                 \
    {                                                                                              \
        if (ATTEND_FITS(rows, wide))                                                               \
            attend_pv(type, rows, wide, step, first, end, column, p, acc);                         \
    }
#define ATTEND_SHAPES(rows, tag, type)                                                             \
    ATTEND_SHAPE(rows, 1, tag, type)                                                               \
    ATTEND_SHAPE(rows, 2, tag, type)                                                               \
    ATTEND_SHAPE(rows, 4, tag, type)

ATTEND_EACH_ROWS(ATTEND_SHAPES, f16, KV_F16)
ATTEND_EACH_ROWS(ATTEND_SHAPES, f32, KV_F32)

#define ATTEND_QK_ROW(rows, tag)                                                                   \
    {qk_##tag##_##rows##_1, qk_##tag##_##rows##_2, qk_##tag##_##rows##_4},
#define ATTEND_PV_ROW(rows, tag)                                                                   \
    {pv_##tag##_##rows##_1, pv_##tag##_##rows##_2, pv_##tag##_##rows##_4},

/* [type][rows - 1][log2 of units or columns] */
static qk_fn *const qk_table[KV_TYPE_COUNT][ATTEND_BLOCK_ROWS][3] = {
    [KV_F16] = {ATTEND_EACH_ROWS(ATTEND_QK_ROW, f16)},
    [KV_F32] = {ATTEND_EACH_ROWS(ATTEND_QK_ROW, f32)},
};
static pv_fn *const pv_table[KV_TYPE_COUNT][ATTEND_BLOCK_ROWS][3] = {
    [KV_F16] = {ATTEND_EACH_ROWS(ATTEND_PV_ROW, f16)},
    [KV_F32] = {ATTEND_EACH_ROWS(ATTEND_PV_ROW, f32)},
};

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
static softmax_fn *const softmax_table[STEP_UNITS] = {softmax_1, softmax_2, softmax_3, softmax_4};

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

/* Each unit that qk takes at once is one more stream of addresses, so it takes no more than it
 * needs to hide the latency of its sums: four for up to two rows, else two. */
static void qk_rows(const enum kv_type type, const struct step *step, uint32_t rows, const float *q,
                    float *scores)
{
    uint32_t vectors = rows > 2 && 2 * rows < ATTEND_VECTORS ? 2 * rows : ATTEND_VECTORS;
    for (uint32_t u = step->first_unit; u < step->n_units;) {
        uint32_t wide = shape_wide(rows, vectors, step->n_units - u);
#if ATTEND_SPECIALISED
        qk_table[type][rows - 1][wide](step, u, q, scores);
#else
        attend_qk(type, (int)rows, 1 << wide, step, u, q, scores);
#endif
        u += 1u << wide;
    }
}

static void pv_rows(const enum kv_type type, const struct step *step, uint32_t rows,
                    struct span tokens, const float *p, float *acc)
{
    for (uint32_t column = 0; column < step->d_v && tokens.first < tokens.end;) {
        uint32_t wide = shape_wide(rows, ATTEND_VECTORS, (step->d_v - column) / 16);
#if ATTEND_SPECIALISED
        pv_table[type][rows - 1][wide](step, tokens.first, tokens.end, column, p, acc);
#else
        attend_pv(type, (int)rows, 1 << wide, step, tokens.first, tokens.end, column, p, acc);
#endif
        column += 16u << wide;
    }
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

/* A diagonal: of what only some rows see, the part before what all see, or the part behind it, is
 * added row by row. */
static void pv_uneven(const enum kv_type type, const struct attend_tile *tile,
                      const struct step *step, uint32_t t0, struct span part, const float *p)
{
    for (uint32_t r = 0; r < tile->n_rows && part.first < part.end; r++) {
        struct span seen = span_in(row_span(tile, r), t0, step->n_tokens);
        seen.first = seen.first > part.first ? seen.first : part.first;
        seen.end = seen.end < part.end ? seen.end : part.end;
        pv_rows(type, step, 1, seen, p + r * SCORE_STRIDE, tile->acc + (size_t)r * step->d_v);
    }
}

static void attend_step(const enum kv_type type, const struct attend_tile *tile,
                        const struct rows *rows, const struct step *step, uint32_t t0, float *l)
{
    float scores[ATTEND_STEP_ROWS * SCORE_STRIDE] __attribute__((aligned(64)));
    for (uint32_t b = 0; b < rows->n_blocks; b++) {
        uint32_t r = block_first(rows, b);
        qk_rows(type, step, block_first(rows, b + 1) - r, tile->q + r * ATTEND_Q_STRIDE,
                scores + r * SCORE_STRIDE);
    }
    softmax_rows(tile, step, t0, scores, l);
    struct span all = span_in(rows->all, t0, step->n_tokens);
    pv_uneven(type, tile, step, t0, (struct span){0, all.first}, scores);
    for (uint32_t b = 0; b < rows->n_blocks; b++) {
        uint32_t r = block_first(rows, b);
        pv_rows(type, step, block_first(rows, b + 1) - r, all, scores + r * SCORE_STRIDE,
                tile->acc + (size_t)r * step->d_v);
    }
    pv_uneven(type, tile, step, t0, (struct span){all.end, step->n_tokens}, scores);
}

static void attend_rows(const enum kv_type type, const struct attend_tile *tile)
{
    float l[ATTEND_STEP_ROWS * 16] __attribute__((aligned(64)));
    struct rows rows = rows_of(tile);
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        tile->m[r] = -INFINITY;
        v16_store(l + 16 * r, v16_zero());
    }
    for (size_t j = 0; j < (size_t)tile->n_rows * tile->d_v; j += 16)
        v16_store(tile->acc + j, v16_zero());
    uint32_t step_tokens = attend_step_tokens(tile->d_qk, tile->d_v);
    for (uint32_t t0 = rows.any.first / step_tokens * step_tokens; t0 < rows.any.end;
         t0 += step_tokens) {
        struct span any = span_in(rows.any, t0, step_tokens);
        uint32_t u = t0 / ATTEND_UNIT;
        struct step step = {tile->k_units + u,
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
        attend_step(type, tile, &rows, &step, t0, l);
    }
    for (uint32_t r = 0; r < tile->n_rows; r++)
        tile->l[r] = v16_fold_add(v16_load(l + 16 * r));
}

/* More rows than a step works on run through the chunk one part after the other; the chunk is then
 * in the second cache. */
static void attend_chunk(const enum kv_type type, const struct attend_tile *tile)
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
