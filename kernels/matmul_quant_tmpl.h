/* matmul_quant_tmpl.h: how a product with quantised weights is cut into tiles; included once an instruction set.
 *
 * WHY     Weights come from memory and should come once; activation rows are met again for every panel and should stay in
 *         the second-level cache; sums should stay in registers.
 * HOW     Blocks of activation rows that fit that cache; in a block strip after strip of weights; in a strip tile after tile of
 *         rows. Up to ROWS_ONE rows take one panel, straight from memory (then one tile is the whole strip). Many would unpack the
 *         same values for every tile: an instruction set with QUANT_UNPACKS takes two panels then, unpacks a piece of them,
 *         and multiplies it with all the block's rows, in nearly equal tiles of at most ROWS_TWO, before the next piece.
 *         Between pieces the sums wait in the outputs.
 *         The first tile of a strip reads its weights from memory and prefetches; tiles of two panels ask for the next
 *         piece, each a part of it. One row does nothing but wait for memory and prefetches into the first level. With
 *         several rows the activations are met again and again, and prefetches into the first level hold its few miss buffers
 *         against them (eight rows of Q8_0 took 1.6 times as long): they stop at the second.
 * ALWAYS  (1) A tile's shape and a piece's end change no output's operations or their order: a sum is an f32 in a register and in
 *         memory.
 *
 * The includer defines QUANT_NAME(op), ROWS_ONE (at most 12), ROWS_BYTES_MAX (of activations walked for every strip) and
 *     quant_tile(type, rows, tile): all of the tile's outputs of one panel, by the order of sums in matmul.h;
 * with QUANT_UNPACKS also UNPACK_ROWS (from so many on; more than 2 * ROWS_TWO), ROWS_TWO (4 to 6, at most ROWS_ONE),
 *     PIECE_GROUPS (a whole number of blocks) and
 *     quant_unpack(type, tile, first, n, piece): groups [first, first + n) of two panels,
 *     quant_piece_tile(type, rows, tile, first, n, piece, next): these groups' products, added to the outputs if first > 0;
 *     quant_prefetch_next(next) with each group. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"
#include "kernels/prefetch.h"
#include "kernels/quant_scales.h"

enum {
    QUANT_AHEAD_BYTES = 5120, /* one row: into the first level; 3072 do at 18 GB/s, not at 30 */
    QUANT_FAR_ROWS = 2,       /* from so many rows on: into the second, further ahead */
    QUANT_FAR_BYTES = 6144,
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

/* Where group i's share of its panel's bytes starts. */
QUANT_INLINE size_t quant_share_at(const enum weight_type type, uint32_t i)
{
    const uint32_t groups = quant_groups(type);
    return i / groups * quant_block_bytes(type) + i % groups * quant_share_bytes(type);
}

/* The lines of a share so far behind group i's; past the panel's end, those of the panel behind. */
QUANT_INLINE void quant_prefetch(const enum weight_type type, const int rows,
                                 const struct quant_tile *t, uint32_t i)
{
    const bool far = rows >= QUANT_FAR_ROWS;
    const size_t at = quant_share_at(type, i) + (far ? QUANT_FAR_BYTES : QUANT_AHEAD_BYTES);
#pragma GCC unroll 9
    for (size_t line = 0; line < quant_share_bytes(type); line += 64)
        if (far)
            prefetch_line_far(t->w, at + line);
        else
            prefetch_line(t->w, at + line);
}

/* A tile stores its outputs at its end, row by row to a line of its own; of many rows those have left the
 * caches since the strip before. Asked for at its beginning they are back by then (512 rows: 4 to 8 % faster). */
QUANT_INLINE void quant_prefetch_outputs(const struct quant_tile *t, uint32_t rows, uint32_t panels)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t p = 0; p < panels; p++)
            prefetch_for_write(t->out, (r * t->out_stride + p * PANEL_ROWS) * sizeof *t->out);
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int rows,
                             const struct quant_tile *t);

#define QUANT_CASE(n)                                                                              \
    case n:                                                                                        \
        if (n <= ROWS_ONE)                                                                         \
            quant_tile(type, n, t);                                                                \
        break;

QUANT_INLINE void quant_tile_of(const enum weight_type type, uint32_t rows,
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

/* To the tile of the rows n further on. */
QUANT_INLINE void quant_tile_step(struct quant_tile *t, uint32_t n)
{
    t->q += n * t->q_stride;
    t->d += n * t->scale_stride;
    t->ds += n * t->scale_stride;
    t->sum += n * t->scale_stride;
    t->out += n * t->out_stride;
    t->stream = false;
}

/* Rows [0, rows) of the block for one panel, in nearly equal tiles. */
QUANT_INLINE void quant_strip_one(const enum weight_type type, uint32_t rows, struct quant_tile t)
{
    uint32_t tiles = (rows + ROWS_ONE - 1) / ROWS_ONE;
    for (uint32_t left = rows, n; left > 0; left -= n, tiles--) {
        n = (left + tiles - 1) / tiles;
        if (rows > ROWS_ONE)
            quant_prefetch_outputs(&t, n, 1);
        quant_tile_of(type, n, &t);
        quant_tile_step(&t, n);
    }
}

#ifdef QUANT_UNPACKS
#include "kernels/quant_piece_tmpl.h"
#else
enum { ROWS_TWO = ROWS_ONE };
#endif

/* One strip from the panel of t on, of at most panels_left; returns its panels. */
QUANT_INLINE uint32_t quant_strip(const enum weight_type type, uint32_t rows, uint32_t panels_left,
                                  const struct quant_tile *t)
{
#ifdef QUANT_UNPACKS
    if (rows >= UNPACK_ROWS && panels_left >= 2) {
        quant_strip_two(type, rows, t);
        return 2;
    }
#endif
    (void)panels_left;
    quant_strip_one(type, rows, *t);
    return 1;
}

QUANT_INLINE void quant_matmul(const enum weight_type type, const struct packed_matrix *m,
                               const struct activations *x, uint32_t row_first, uint32_t row_end,
                               uint32_t panel_first, uint32_t panel_end, float *out,
                               size_t out_stride)
{
    size_t scales = m->n_columns / ACT_BLOCK;
    size_t row_bytes =
        m->n_columns + scales * (sizeof *x->scale + sizeof *x->scaled_sum + sizeof *x->sum);
    uint32_t fit = (uint32_t)(ROWS_BYTES_MAX / row_bytes);
    uint32_t block = fit < ROWS_ONE ? ROWS_ONE : fit - fit % ROWS_TWO;
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
                .stream = true,
            };
            panels = quant_strip(type, rows, panel_end - p, &t);
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
