/* attend_float_tmpl.h: a step of grouped attention over f16 or f32 K/V; part of attend_tmpl.h.
 *
 * HOW     qk holds rows x units and pv rows x columns of accumulators, at most ATTEND_VECTORS, in
 *         registers. (Widening f16 once a step into f32 scratch, instead of once a block, was
 *         slower in every case.) */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTEND_FLOAT_TMPL_H
#define FOLDKV_KERNELS_ATTEND_FLOAT_TMPL_H

typedef void qk_fn(const struct step *step, uint32_t unit, const float *q, float *scores);
typedef void pv_fn(const struct step *step, uint32_t first, uint32_t end, uint32_t column,
                   const float *p, float *acc);

/* Many rows compute for longer than a line takes to come, and each of their products loads its factor: the second request
 * would cost more than it saves. */
LANES_INLINE void prefetch_for(const int rows, const void *ahead, const void *far, size_t offset)
{
    if (rows <= ATTEND_TWICE_ROWS)
        prefetch_twice(ahead, far, offset);
    else
        prefetch_line_far(ahead, offset);
}

LANES_INLINE v16 kv_load(const enum kv_type type, const void *part, size_t i)
{
    return type == KV_F16 ? v16_load_f16((const uint16_t *)part + i)
                          : v16_load((const float *)part + i);
}

/* scores[r][t] = q[r] . k[t] for rows x 16 * units tokens from unit on. */
LANES_INLINE void attend_qk(const enum kv_type type, const int rows, const int units,
                            const struct step *step, uint32_t unit, const float *q, float *scores)
{
    v16 s[ATTEND_BLOCK_ROWS][ATTEND_STEP_UNITS];
    const void *k[ATTEND_STEP_UNITS], *ahead[ATTEND_STEP_UNITS], *far[ATTEND_STEP_UNITS];
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
            prefetch_for(rows, ahead[u], far[u], at * bytes);
            if (type == KV_F32)
                prefetch_for(rows, ahead[u], far[u], at * bytes + 64);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            v16 kv[ATTEND_STEP_UNITS];
#pragma GCC unroll ATTEND_UNROLL_WIDE
            for (int u0 = 0; u0 < units; u0 += ATTEND_AT_ONCE) {
                const int u_end = u0 + ATTEND_AT_ONCE < units ? u0 + ATTEND_AT_ONCE : units;
#pragma GCC unroll ATTEND_UNROLL_WIDE
                for (int u = u0; u < u_end; u++)
                    kv[u] = kv_load(type, k[u], at + (size_t)half * ATTEND_UNIT);
#pragma GCC unroll ATTEND_UNROLL_ROWS
                for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
                    for (int u = u0; u < u_end; u++)
                        s[r][u] = v16_fma_at(q + r * ATTEND_Q_STRIDE + half, kv[u], s[r][u]);
            }
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
    /* Of f16 a vector is half a line: one alone asks for the line that it begins. */
    const bool begins_line = columns > 1 || type == KV_F32 || column % 32 == 0;
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
            for (int j0 = 0; j0 < columns; j0 += ATTEND_AT_ONCE) {
                const int j_end = j0 + ATTEND_AT_ONCE < columns ? j0 + ATTEND_AT_ONCE : columns;
#pragma GCC unroll ATTEND_UNROLL_WIDE
                for (int j = j0; j < j_end; j++) {
                    x[j] = kv_load(type, v, at + 16 * (size_t)j);
                    if (begins_line && (type == KV_F32 || j % 2 == 0))
                        prefetch_for(rows, ahead, far, (at + 16 * (size_t)j) * bytes);
                }
#pragma GCC unroll ATTEND_UNROLL_ROWS
                for (int r = 0; r < rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
                    for (int j = j0; j < j_end; j++)
                        a[r][j] = v16_fma_at(pt + r * SCORE_STRIDE, x[j], a[r][j]);
            }
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

#if ATTEND_SPECIALISED

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

#endif

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

#endif
