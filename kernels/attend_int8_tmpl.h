/* attend_int8_tmpl.h: a step of grouped attention over int8 K/V; part of attend_tmpl.h.
 *
 * WHY     Half the bytes of f16, and half its instructions: dot products of bytes do four columns,
 *         or four tokens, at once. Queries and weights keep 16 bits, so that all error there is
 *         lies in the K/V that is stored (attention.h: INT8).
 * HOW     Query rows are quantised once a chunk. A step runs qk, the softmax that all types share,
 *         weigh (weights times the scales of V, to 16 bits) and pv; qk holds rows x units and pv
 *         rows x columns of exact sums in registers (lanes_int8.h), at most I8_VECTORS.
 * ALWAYS  A masked token has the weight 0, and integers know no NaN: what lies in its place counts
 *         for nothing. Its scales are not part of any product: weigh writes the 0 behind them.
 *
 * The including file defines, beside what attend_tmpl.h names, I8_BLOCK_ROWS and I8_VECTORS, and if
 * specialised I8_EACH_ROWS(X) as X(1) .. X(I8_BLOCK_ROWS). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ATTEND_INT8_TMPL_H
#define FOLDKV_KERNELS_ATTEND_INT8_TMPL_H

#include "kernels/lanes_int8.h"
#include "kernels/quantise_scale.h"

enum {
    I8_QUAD_BYTES = 4 * ATTEND_UNIT, /* a quad of columns, or of tokens, of sixteen lanes */
    I8_UNIT_QUADS = ATTEND_UNIT / 4,
    /* Multipliers of a row, two bytes each; rows must not share the sets of the first cache. */
    I8_Q_BYTES = 2 * ATTEND_WIDTH_MAX + 64,
    I8_P_BYTES = 2 * ATTEND_STEP + 64,
};

/* The 16-bit sides of a tile's rows. */
struct i8_rows {
    int8_t q[ATTEND_STEP_ROWS][I8_Q_BYTES] __attribute__((aligned(64)));
    int8_t p[ATTEND_STEP_ROWS][I8_P_BYTES];
    float q_scale[ATTEND_STEP_ROWS];
    int32_t q_total[ATTEND_STEP_ROWS]; /* sum of the multipliers */
    float p_scale[ATTEND_STEP_ROWS];   /* 0: the step adds nothing to the row */
};

typedef void qk_i8_fn(const struct step *step, uint32_t unit, const struct i8_rows *rows,
                      uint32_t row, float *scores);
typedef void pv_i8_fn(const struct step *step, uint32_t column, const struct i8_rows *rows,
                      uint32_t row, float *acc);

static void quantise_q(const struct attend_tile *tile, struct i8_rows *rows)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const float *q = tile->q + (size_t)r * ATTEND_Q_STRIDE;
        v16 top = v16_zero(), total = v16_zero();
        for (uint32_t i = 0; i < tile->d_qk; i += 16)
            top = v16_magnitude(top, v16_load(q + i));
        struct quantise_scale scale = quantise_scale(v16_fold_magnitude(top), ATTEND_Q_LEVEL);
        v16 inverse = v16_set1(scale.inverse);
        for (uint32_t i = 0; i < tile->d_qk; i += 16) {
            v16 x = v16_zero();
            if (!scale.flat)
                x = v16_from_int(v16_round(v16_mul(v16_load(q + i), inverse)));
            i8_store_q(rows->q[r] + 2 * i, x);
            total = v16_add(total, x); /* exact: under 2^24 */
        }
        rows->q_scale[r] = scale.d;
        rows->q_total[r] = (int32_t)v16_fold_add(total);
    }
}

/* scores[r][t] = q[r] . k[t] for rows x 16 * units tokens from unit on. */
LANES_INLINE void attend_qk_i8(const int n_rows, const int units, const struct step *step,
                               uint32_t unit, const struct i8_rows *rows, uint32_t row,
                               float *scores)
{
    i8_sums s[I8_BLOCK_ROWS][ATTEND_STEP_UNITS];
    const char *k[ATTEND_STEP_UNITS], *ahead[ATTEND_STEP_UNITS], *far[ATTEND_STEP_UNITS];
    for (int u = 0; u < units; u++) {
        k[u] = step->k[unit + (uint32_t)u];
        ahead[u] = step->k_ahead[unit + (uint32_t)u];
        far[u] = step->k_far[unit + (uint32_t)u];
    }
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++)
            s[r][u] = i8_zero();
    const int8_t *q = rows->q[row], *q_end = q + 2 * step->d_qk;
    size_t at = 0;
#pragma GCC unroll 1
    for (; q != q_end; q += 8, at += I8_QUAD_BYTES) {
        i8_quads quads[ATTEND_STEP_UNITS];
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int u = 0; u < units; u++) {
            prefetch_twice(ahead[u], far[u], at);
            quads[u] = i8_load_k(k[u] + at);
        }
#pragma GCC unroll ATTEND_UNROLL_ROWS
        for (int r = 0; r < n_rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
            for (int u = 0; u < units; u++)
                s[r][u] = i8_add_k(s[r][u], quads[u], q + r * I8_Q_BYTES);
    }
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (int u = 0; u < units; u++) {
        v16 k_scale = v16_load((const float *)(const void *)(k[u] + at));
        prefetch_twice(ahead[u], far[u], at);
#pragma GCC unroll ATTEND_UNROLL_ROWS
        for (int r = 0; r < n_rows; r++) {
            v16 dot = i8_total_k(s[r][u], rows->q_total[row + (uint32_t)r]);
            dot = v16_mul(dot, v16_set1(rows->q_scale[row + (uint32_t)r]));
            v16_store(scores + r * SCORE_STRIDE + ATTEND_UNIT * ((int)unit + u),
                      v16_mul(dot, k_scale));
        }
    }
}

/* What the first weights of the sixteen lanes are rounded with. */
static const float i8_carry[16] __attribute__((aligned(64))) = {
#define C(reversed) (2 * (reversed) + 1) / 32.0f
    C(0), C(8), C(4), C(12), C(2), C(10), C(6), C(14),
    C(1), C(9), C(5), C(13), C(3), C(11), C(7), C(15),
#undef C
};

/* One row's weights of a step's units first..units-1 times the scales of V; bits of the greatest. */
LANES_INLINE uint32_t scale_weights(const uint32_t first, const uint32_t units, struct span seen,
                                    const struct step *step, float *weights)
{
    v16 top = v16_zero();
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (uint32_t u = first; u < units; u++) {
        const char *scales = (const char *)step->v[u] + (size_t)ATTEND_UNIT * step->d_v;
        v16 w = v16_mul(v16_load(weights + ATTEND_UNIT * u),
                        v16_load((const float *)(const void *)scales));
        v16_store(weights + ATTEND_UNIT * u, w);
        top = v16_magnitude(top, w);
    }
    if (__builtin_expect(seen.first == 0 && seen.end == ATTEND_UNIT * units, 1))
        return v16_fold_magnitude(top);
    for (uint32_t t = 0; t < ATTEND_UNIT * units; t++)
        if (t < seen.first || t >= seen.end)
            weights[t] = 0;
    top = v16_zero();
    for (uint32_t u = first; u < units; u++)
        top = v16_magnitude(top, v16_load(weights + ATTEND_UNIT * u));
    return v16_fold_magnitude(top);
}

/* The same units' weights to 16 bits. */
LANES_INLINE void round_weights(const uint32_t first, const uint32_t units, float inverse,
                                const float *weights, int8_t *p)
{
    v16 by = v16_set1(inverse), carry = v16_load(i8_carry);
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (uint32_t u = first; u < units; u++) {
        v16 x = v16_fma(v16_load(weights + ATTEND_UNIT * u), by, carry), whole = v16_trunc(x);
        carry = v16_sub(x, whole);
        i8_store_p(p + 2 * ATTEND_UNIT * u, whole);
    }
}

/* Row after row would wait for each row's maximum; so all of them are found before the first is
 * divided by. */
LANES_INLINE void attend_weigh(const uint32_t first, const uint32_t units,
                               const struct attend_tile *tile, const struct step *step, uint32_t t0,
                               float *weights, struct i8_rows *rows)
{
    float inverse[ATTEND_STEP_ROWS];
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        struct span seen = span_in(row_span(tile, r), t0, step->n_tokens);
        uint32_t bits = 0; /* of a row that sees nothing: its weights were never made */
        if (seen.first < seen.end)
            bits = scale_weights(first, units, seen, step, weights + r * SCORE_STRIDE);
        struct quantise_scale scale = quantise_scale(bits, ATTEND_P_LEVEL);
        rows->p_scale[r] = scale.d;
        inverse[r] = scale.inverse;
    }
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        if (__builtin_expect(inverse[r] != 0, 1))
            round_weights(first, units, inverse[r], weights + r * SCORE_STRIDE, rows->p[r]);
        else /* whatever they are: the scale is 0 or NaN */
            memset(rows->p[r], 0, sizeof rows->p[r]);
    }
}

static void weigh_rows(const struct attend_tile *tile, const struct step *step, uint32_t t0,
                       float *weights, struct i8_rows *rows)
{
    if (step->first_unit == 0 && step->n_units == ATTEND_STEP_UNITS)
        attend_weigh(0, ATTEND_STEP_UNITS, tile, step, t0, weights, rows);
    else
        attend_weigh(step->first_unit, step->n_units, tile, step, t0, weights, rows);
}

/* acc[r][column..] += p[r][t] * v[t][column..] for rows x 16 * columns coordinates and all tokens of
 * the step. */
LANES_INLINE void attend_pv_i8(const int n_rows, const int columns, const struct step *step,
                               uint32_t column, const struct i8_rows *rows, uint32_t row,
                               float *acc)
{
    i8_sums a[I8_BLOCK_ROWS][COLUMNS_MAX];
    i8_bias bias[COLUMNS_MAX];
#pragma GCC unroll ATTEND_UNROLL_WIDE
    for (int j = 0; j < columns; j++) {
        bias[j] = i8_bias_zero();
#pragma GCC unroll ATTEND_UNROLL_ROWS
        for (int r = 0; r < n_rows; r++)
            a[r][j] = i8_zero();
    }
    const size_t stride = (size_t)4 * step->d_v; /* between quads of tokens */
    for (uint32_t unit = step->first_unit; unit < step->n_units; unit++) {
        const char *v = step->v[unit], *ahead = step->v_ahead[unit], *far = step->v_far[unit];
        const int8_t *p = rows->p[row] + 2 * ATTEND_UNIT * unit;
        size_t at = (size_t)4 * column;
        if (column == 0)
            prefetch_twice(ahead, far, I8_UNIT_QUADS * stride); /* the scales */
#pragma GCC unroll 1
        for (int quad = 0; quad < I8_UNIT_QUADS; quad++, at += stride, p += 8) {
            i8_quads quads[COLUMNS_MAX];
#pragma GCC unroll ATTEND_UNROLL_WIDE
            for (int j = 0; j < columns; j++) {
                quads[j] = i8_load_v(v + at + I8_QUAD_BYTES * j);
                prefetch_twice(ahead, far, at + (size_t)I8_QUAD_BYTES * (size_t)j);
                bias[j] = i8_bias_add(bias[j], quads[j]);
            }
#pragma GCC unroll ATTEND_UNROLL_ROWS
            for (int r = 0; r < n_rows; r++)
#pragma GCC unroll ATTEND_UNROLL_WIDE
                for (int j = 0; j < columns; j++)
                    a[r][j] = i8_add_v(a[r][j], quads[j], p + r * I8_P_BYTES);
        }
    }
#pragma GCC unroll ATTEND_UNROLL_ROWS
    for (int r = 0; r < n_rows; r++) {
        float scale = rows->p_scale[row + (uint32_t)r];
        float *to = acc + (size_t)r * step->d_v + column;
        if (scale == 0)
            continue;
#pragma GCC unroll ATTEND_UNROLL_WIDE
        for (int j = 0; j < columns; j++)
            v16_store(to + 16 * j, v16_fma(i8_total_v(a[r][j], bias[j]), v16_set1(scale),
                                           v16_load(to + 16 * j)));
    }
}

#if ATTEND_SPECIALISED

#define I8_FITS(n, wide) ((n) * (wide) <= I8_VECTORS || (wide) == 1)

/* Shapes that do not fit the registers are left empty and never called. */
#define I8_SHAPE(n, wide)                                                                          \
    ATTEND_OUT_OF_LINE void qk_i8_##n##_##wide(const struct step *step, uint32_t unit,             \
                                               const struct i8_rows *rows, uint32_t row,           \
                                               float *scores)                                      \
    {                                                                                              \
        if (I8_FITS(n, wide))                                                                      \
            attend_qk_i8(n, wide, step, unit, rows, row, scores);                                  \
    }                                                                                              \
    ATTEND_OUT_OF_LINE void pv_i8_##n##_##wide(const struct step *step, uint32_t column,           \
                                               const struct i8_rows *rows, uint32_t row,           \
                                               float *acc)                                         \
    {                                                                                              \
        if (I8_FITS(n, wide))                                                                      \
            attend_pv_i8(n, wide, step, column, rows, row, acc);                                   \
    }
#define I8_SHAPES(n)                                                                               \
    I8_SHAPE(n, 1)                                                                                 \
    I8_SHAPE(n, 2)                                                                                 \
    I8_SHAPE(n, 4)

I8_EACH_ROWS(I8_SHAPES)

#define I8_QK_ROW(n) {qk_i8_##n##_1, qk_i8_##n##_2, qk_i8_##n##_4},
#define I8_PV_ROW(n) {pv_i8_##n##_1, pv_i8_##n##_2, pv_i8_##n##_4},

/* [rows - 1][log2 of units or columns] */
static qk_i8_fn *const qk_i8_table[I8_BLOCK_ROWS][3] = {I8_EACH_ROWS(I8_QK_ROW)};
static pv_i8_fn *const pv_i8_table[I8_BLOCK_ROWS][3] = {I8_EACH_ROWS(I8_PV_ROW)};

#endif

static void qk_i8_rows(const struct step *step, uint32_t n, const struct i8_rows *rows,
                       uint32_t row, float *scores)
{
    uint32_t vectors = n > 2 && 2 * n < I8_VECTORS ? 2 * n : I8_VECTORS;
    for (uint32_t u = step->first_unit; u < step->n_units;) {
        uint32_t wide = shape_wide(n, vectors, step->n_units - u);
#if ATTEND_SPECIALISED
        qk_i8_table[n - 1][wide](step, u, rows, row, scores);
#else
        attend_qk_i8((int)n, 1 << wide, step, u, rows, row, scores);
#endif
        u += 1u << wide;
    }
}

static void pv_i8_rows(const struct step *step, uint32_t n, const struct i8_rows *rows,
                       uint32_t row, float *acc)
{
    for (uint32_t column = 0; column < step->d_v;) {
        uint32_t wide = shape_wide(n, I8_VECTORS, (step->d_v - column) / 16);
#if ATTEND_SPECIALISED
        pv_i8_table[n - 1][wide](step, column, rows, row, acc);
#else
        attend_pv_i8((int)n, 1 << wide, step, column, rows, row, acc);
#endif
        column += 16u << wide;
    }
}

static void attend_step_i8(const struct attend_tile *tile, const struct step *step, uint32_t t0,
                           struct i8_rows *rows, float *l)
{
    float scores[ATTEND_STEP_ROWS * SCORE_STRIDE] __attribute__((aligned(64)));
    uint32_t n_blocks = (tile->n_rows + I8_BLOCK_ROWS - 1) / I8_BLOCK_ROWS;
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t r = tile->n_rows * b / n_blocks;
        qk_i8_rows(step, tile->n_rows * (b + 1) / n_blocks - r, rows, r, scores + r * SCORE_STRIDE);
    }
    softmax_rows(tile, step, t0, scores, l);
    weigh_rows(tile, step, t0, scores, rows);
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t r = tile->n_rows * b / n_blocks;
        pv_i8_rows(step, tile->n_rows * (b + 1) / n_blocks - r, rows, r,
                   tile->acc + (size_t)r * tile->d_v);
    }
}

#endif
