/* matmul_quant_tmpl.h: how a product with quantised weights is cut into tiles; included once an instruction set.
 *
 * WHY     Weights come from memory and should come once; activation rows are met again for every panel and should stay in
 *         the second-level cache; sums should stay in registers.
 * HOW     Blocks of activation rows that fit that cache; in a block strip after strip of weights (one or two panels); in
 *         a strip tile after tile of rows. Up to ROWS_ONE rows take one panel at a time (then one tile is the whole strip). More
 *         take two, in nearly equal tiles of at most ROWS_TWO, if the type's values lie there nearly as they are used; where
 *         unpacking costs more, one panel and more rows a tile are 5 % faster. The first tile of a strip reads the weights from
 *         memory and prefetches; the others find them in the cache. One row does nothing but wait for memory and prefetches into
 *         the first level. With several rows the activations are met again and again, and prefetches into the first level
 *         hold its few miss buffers against them (eight rows of Q8_0 took 1.6 times as long): they stop at the second.
 * ALWAYS  (1) A tile's shape changes no output's operations or their order: quant_tile is one text for all shapes.
 *
 * The includer defines QUANT_NAME(op), ROWS_ONE and ROWS_TWO (ROWS_TWO <= ROWS_ONE <= 12), and
 *     quant_tile(type, panels, rows, tile): all of the tile's outputs, by the order of sums in matmul.h. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"
#include "kernels/prefetch.h"
#include "kernels/quant_scales.h"

enum {
    QUANT_AHEAD_BYTES = 5120, /* one row: into the first level. 3072 do at 18 GB/s a core, but not at 30 */
    QUANT_FAR_ROWS = 2,       /* from so many rows on: into the second, further ahead */
    QUANT_FAR_BYTES = 6144,
    QUANT_ROWS_BYTES_MAX = 256 << 10, /* of activations that are walked for every strip */
};

struct quant_tile {
    const char *w; /* the first panel */
    size_t panel_bytes;
    uint32_t n_blocks; /* of the file: of 32 or 256 columns */
    uint32_t outputs;  /* that exist from this panel on; may be less than the panels hold */
    const int8_t *q;   /* the first activation row */
    size_t q_stride;
    const float *d;
    const float *ds;
    const int32_t *sum;
    size_t scale_stride;
    float *out;
    size_t out_stride;
    bool stream; /* the weights come from memory: prefetch */
};

/* A group's share of its block's bytes, head included. */
QUANT_INLINE size_t quant_share_bytes(const enum weight_type type)
{
    return quant_block_bytes(type) / quant_groups(type);
}

/* The lines of a group's share QUANT_AHEAD_BYTES on in each panel; past its end, in the panel that follows the strip. */
QUANT_INLINE void quant_prefetch(const enum weight_type type, const int panels, const int rows,
                                 const struct quant_tile *t, size_t at)
{
    const bool far = rows >= QUANT_FAR_ROWS;
    size_t ahead = at + (far ? QUANT_FAR_BYTES : QUANT_AHEAD_BYTES);
    if (panels > 1 && ahead >= t->panel_bytes)
        ahead += (size_t)(panels - 1) * t->panel_bytes;
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++)
#pragma GCC unroll 9
        for (size_t line = 0; line < quant_share_bytes(type); line += 64)
            if (far)
                prefetch_line_far(t->w, (size_t)p * t->panel_bytes + ahead + line);
            else
                prefetch_line(t->w, (size_t)p * t->panel_bytes + ahead + line);
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int panels, const int rows,
                             const struct quant_tile *t);

/* The most rows of a tile; 0: the type takes no tiles of so many panels. */
QUANT_INLINE uint32_t quant_rows_most(const enum weight_type type, const int panels)
{
    const bool is_wide = type == WEIGHT_Q4_0 || type == WEIGHT_Q4_1 || type == WEIGHT_Q8_0;
    return panels == 1 ? ROWS_ONE : is_wide ? ROWS_TWO : 0;
}

#define QUANT_CASE(n)                                                                              \
    case n:                                                                                        \
        if (n <= quant_rows_most(type, panels))                                                    \
            quant_tile(type, panels, n, t);                                                        \
        break;

QUANT_INLINE void quant_tile_of(const enum weight_type type, const int panels, uint32_t rows,
                                const struct quant_tile *t)
{
    switch (rows) {
        QUANT_CASE(1)
        QUANT_CASE(2)
        QUANT_CASE(3)
        QUANT_CASE(4)
        QUANT_CASE(5)
        QUANT_CASE(6)
        QUANT_CASE(7)
        QUANT_CASE(8)
        QUANT_CASE(9)
        QUANT_CASE(10)
        QUANT_CASE(11)
        QUANT_CASE(12)
    default:
        break;
    }
}

/* Rows [0, rows) of the block for one strip, in nearly equal tiles. */
QUANT_INLINE void quant_strip(const enum weight_type type, const int panels, uint32_t rows,
                              struct quant_tile t)
{
    const uint32_t most = quant_rows_most(type, panels);
    uint32_t tiles = (rows + most - 1) / most;
    t.stream = true;
    for (uint32_t left = rows; left > 0; tiles--) {
        uint32_t n = (left + tiles - 1) / tiles;
        quant_tile_of(type, panels, n, &t);
        t.q += n * t.q_stride;
        t.d += n * t.scale_stride;
        t.ds += n * t.scale_stride;
        t.sum += n * t.scale_stride;
        t.out += n * t.out_stride;
        t.stream = false;
        left -= n;
    }
}

QUANT_INLINE void quant_matmul(const enum weight_type type, const struct packed_matrix *m,
                               const struct activations *x, uint32_t row_first, uint32_t row_end,
                               uint32_t panel_first, uint32_t panel_end, float *out,
                               size_t out_stride)
{
    size_t scales = m->n_columns / ACT_BLOCK;
    size_t row_bytes =
        m->n_columns + scales * (sizeof *x->scale + sizeof *x->scaled_sum + sizeof *x->sum);
    uint32_t fit = (uint32_t)(QUANT_ROWS_BYTES_MAX / row_bytes);
    const uint32_t one = quant_rows_most(type, 1);
    uint32_t block = fit < one ? one : fit - fit % ROWS_TWO;
    for (uint32_t r = row_first, rows; r < row_end; r += rows) {
        rows = row_end - r < block ? row_end - r : block;
        for (uint32_t p = panel_first, panels; p < panel_end; p += panels) {
            struct quant_tile t = {
                .w = m->panels + (size_t)p * m->panel_bytes,
                .panel_bytes = m->panel_bytes,
                .n_blocks = m->n_columns / QUANT_COLUMNS / quant_groups(type),
                .outputs = m->n_rows - p * PANEL_ROWS,
                .q = x->quants + (size_t)r * m->n_columns,
                .q_stride = m->n_columns,
                .d = x->scale + r * scales,
                .ds = x->scaled_sum + r * scales,
                .sum = x->sum + r * scales,
                .scale_stride = scales,
                .out = out + r * out_stride + (size_t)p * PANEL_ROWS,
                .out_stride = out_stride,
            };
            panels = quant_rows_most(type, 2) == 0 || rows <= one || panel_end - p < 2 ? 1 : 2;
            if (panels == 2)
                quant_strip(type, 2, rows, t);
            else
                quant_strip(type, 1, rows, t);
        }
    }
}

#define QUANT_MATMUL(op, type)                                                                     \
    void QUANT_NAME(op)(const struct packed_matrix *m, const struct activations *x,                \
                        uint32_t row_first, uint32_t row_end, uint32_t panel_first,                \
                        uint32_t panel_end, float *out, size_t out_stride)                         \
    {                                                                                              \
        quant_matmul(type, m, x, row_first, row_end, panel_first, panel_end, out, out_stride);     \
    }

QUANT_MATMUL(matmul_q4_0, WEIGHT_Q4_0)
QUANT_MATMUL(matmul_q4_1, WEIGHT_Q4_1)
QUANT_MATMUL(matmul_q5_0, WEIGHT_Q5_0)
QUANT_MATMUL(matmul_q5_1, WEIGHT_Q5_1)
QUANT_MATMUL(matmul_q8_0, WEIGHT_Q8_0)
QUANT_MATMUL(matmul_q2_k, WEIGHT_Q2_K)
QUANT_MATMUL(matmul_q3_k, WEIGHT_Q3_K)
QUANT_MATMUL(matmul_q4_k, WEIGHT_Q4_K)
QUANT_MATMUL(matmul_q5_k, WEIGHT_Q5_K)
QUANT_MATMUL(matmul_q6_k, WEIGHT_Q6_K)
QUANT_MATMUL(matmul_iq4_nl, WEIGHT_IQ4_NL)
QUANT_MATMUL(matmul_iq4_xs, WEIGHT_IQ4_XS)
