/* matmul_float_tmpl.h: products with F32, F16 and BF16 weights over lanes.h; included once an instruction set.
 *
 * WHY     One accumulator an output means one chain of fused operations, four cycles a link; so a tile holds many outputs.
 * HOW     A tile is P panels x R activation rows; its accumulators stay in registers while the columns go by. One row takes
 *         as many panels at once as make ONE_BYTES a column, several rows take MANY_PANELS panels and up to MANY_ROWS rows (at most 6).
 *         The last panels and the last rows take narrower tiles of the same operations.
 * ALWAYS  (1) acc = fma(w, x, acc), columns ascending, whatever the tile.   float_tile
 *
 * The includer defines LANES_x, FLOAT_NAME(op), ONE_BYTES (64 or 128), MANY_PANELS and MANY_ROWS. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"
#include "kernels/lanes.h"
#include "kernels/prefetch.h"

enum {
    FLOAT_AHEAD_BYTES = 4096, /* prefetch distance within each panel, one row */
    FLOAT_FAR_BYTES = 8192,   /* several rows: into the second level */
    FLOAT_ROWS_BYTES_MAX =
        512 << 10, /* activation rows that are walked for every panel: half of a usual L2 */
    PANELS_MAX = 4,
};

typedef v16 float_load_fn(const char *p);

LANES_INLINE v16 load_f32(const char *p)
{
    return v16_load((const float *)(const void *)p);
}

LANES_INLINE v16 load_f16(const char *p)
{
    return v16_load_f16((const uint16_t *)(const void *)p);
}

LANES_INLINE v16 load_bf16(const char *p)
{
    return v16_load_bf16((const uint16_t *)(const void *)p);
}

/* What a tile works on. */
struct float_tile {
    const char *w; /* the first panel */
    size_t panel_bytes;
    const float *x; /* the first activation row */
    uint32_t n_columns;
    uint32_t outputs; /* that exist from this panel on; may be less than the panels hold */
    float *out;
    size_t out_stride;
    bool stream; /* the weights come from memory: prefetch */
};

LANES_INLINE void float_store(float *out, v16 v, uint32_t outputs)
{
    if (outputs >= PANEL_ROWS) {
        v16_store(out, v);
        return;
    }
    float all[PANEL_ROWS];
    v16_store(all, v);
    memcpy(out, all, outputs * sizeof *out);
}

/* Once a 64-byte line: asks for a line further on, or as far into this panel's successor in the next tile. */
LANES_INLINE void float_prefetch(const struct float_tile *t, int panels, int rows, size_t at)
{
    size_t ahead = at + (rows == 1 ? FLOAT_AHEAD_BYTES : FLOAT_FAR_BYTES);
    if (ahead >= t->panel_bytes)
        ahead += (size_t)(panels - 1) * t->panel_bytes;
    for (int p = 0; p < panels; p++)
        if (rows == 1)
            prefetch_line(t->w, (size_t)p * t->panel_bytes + ahead);
        else
            prefetch_line_far(t->w, (size_t)p * t->panel_bytes + ahead);
}

/* One column of every panel times its activation of every row. */
LANES_INLINE void float_column(const struct float_tile *t, const int panels, const int rows,
                               const size_t column_bytes, float_load_fn *load, size_t c, v16 *acc)
{
    v16 w[PANELS_MAX];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++)
        w[p] = load(t->w + (size_t)p * t->panel_bytes + c * column_bytes);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        v16 x = v16_set1(t->x[(size_t)r * t->n_columns + c]);
#pragma GCC unroll 4
        for (int p = 0; p < panels; p++)
            acc[p * rows + r] = v16_fma(w[p], x, acc[p * rows + r]);
    }
}

LANES_INLINE void float_tile(const struct float_tile *t, const int panels, const int rows,
                             const size_t column_bytes, float_load_fn *load)
{
    const size_t line_columns = 64 / column_bytes;
    v16 acc[PANELS_MAX * MANY_ROWS];
#pragma GCC unroll 32
    for (int i = 0; i < panels * rows; i++)
        acc[i] = v16_zero();
    size_t c = 0;
    for (; c + line_columns <= t->n_columns; c += line_columns) {
        if (t->stream)
            float_prefetch(t, panels, rows, c * column_bytes);
#pragma GCC unroll 2
        for (size_t i = 0; i < line_columns; i++)
            float_column(t, panels, rows, column_bytes, load, c + i, acc);
    }
    for (; c < t->n_columns; c++)
        float_column(t, panels, rows, column_bytes, load, c, acc);
    for (int p = 0; p < panels; p++)
        for (int r = 0; r < rows; r++)
            float_store(t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS,
                        acc[p * rows + r], t->outputs - (uint32_t)p * PANEL_ROWS);
}

LANES_INLINE void float_tile_of(const struct float_tile *t, const int panels, uint32_t rows,
                                const size_t column_bytes, float_load_fn *load)
{
    if (rows == 1)
        float_tile(t, panels, 1, column_bytes, load);
    else if (rows == 2 && MANY_ROWS >= 2)
        float_tile(t, panels, 2, column_bytes, load);
    else if (rows == 3 && MANY_ROWS >= 3)
        float_tile(t, panels, 3, column_bytes, load);
    else if (rows == 4 && MANY_ROWS >= 4)
        float_tile(t, panels, 4, column_bytes, load);
    else if (rows == 5 && MANY_ROWS >= 5)
        float_tile(t, panels, 5, column_bytes, load);
    else if (rows == 6 && MANY_ROWS >= 6)
        float_tile(t, panels, 6, column_bytes, load);
}

/* All of the activation rows at x, in nearly equal tiles, for one strip of panels. */
LANES_INLINE void float_strip(struct float_tile *t, const int panels, uint32_t rows,
                              const size_t column_bytes, float_load_fn *load)
{
    const float *x = t->x;
    float *out = t->out;
    t->stream = true;
    uint32_t tiles = (rows + MANY_ROWS - 1) / MANY_ROWS;
    for (uint32_t r = 0, n; r < rows; r += n, tiles--) {
        n = (rows - r + tiles - 1) / tiles;
        t->x = x + (size_t)r * t->n_columns;
        t->out = out + (size_t)r * t->out_stride;
        float_tile_of(t, panels, n, column_bytes, load);
        t->stream = false;
    }
}

LANES_INLINE void float_block(const struct packed_matrix *m, const float *x, uint32_t rows,
                              uint32_t panel_first, uint32_t panel_end, float *out,
                              size_t out_stride, const size_t column_bytes, float_load_fn *load)
{
    const int one_panels = ONE_BYTES / (int)column_bytes;
    uint32_t panels = 1;
    for (uint32_t p = panel_first; p < panel_end; p += panels) {
        uint32_t left = panel_end - p;
        struct float_tile t = {
            .w = m->panels + (size_t)p * m->panel_bytes,
            .panel_bytes = m->panel_bytes,
            .x = x,
            .n_columns = m->n_columns,
            .outputs = m->n_rows - p * PANEL_ROWS,
            .out = out + (size_t)p * PANEL_ROWS,
            .out_stride = out_stride,
        };
        panels = rows == 1 ? (uint32_t)one_panels : MANY_PANELS;
        panels = left < panels ? 1 : panels;
        if (panels == 1)
            float_strip(&t, 1, rows, column_bytes, load);
        else if (rows == 1)
            float_strip(&t, one_panels, 1, column_bytes, load);
        else
            float_strip(&t, MANY_PANELS, rows, column_bytes, load);
    }
}

LANES_INLINE void float_matmul(const struct packed_matrix *m, const struct activations *x,
                               uint32_t row_first, uint32_t row_end, uint32_t panel_first,
                               uint32_t panel_end, float *out, size_t out_stride,
                               const size_t column_bytes, float_load_fn *load)
{
    size_t row_bytes = (size_t)m->n_columns * sizeof(float);
    uint32_t fit = (uint32_t)(FLOAT_ROWS_BYTES_MAX / row_bytes);
    uint32_t block = fit < MANY_ROWS ? MANY_ROWS : fit - fit % MANY_ROWS;
    for (uint32_t r = row_first; r < row_end;) {
        uint32_t rows = row_end - r < block ? row_end - r : block;
        float_block(m, x->values + (size_t)r * m->n_columns, rows, panel_first, panel_end,
                    out + (size_t)r * out_stride, out_stride, column_bytes, load);
        r += rows;
    }
}

#define FLOAT_MATMUL(op, column_bytes, load)                                                       \
    void FLOAT_NAME(op)(const struct packed_matrix *m, const struct activations *x,                \
                        uint32_t row_first, uint32_t row_end, uint32_t panel_first,                \
                        uint32_t panel_end, float *out, size_t out_stride)                         \
    {                                                                                              \
        float_matmul(m, x, row_first, row_end, panel_first, panel_end, out, out_stride,            \
                     column_bytes, load);                                                          \
    }

FLOAT_MATMUL(matmul_f32, 64, load_f32)
FLOAT_MATMUL(matmul_f16, 32, load_f16)
FLOAT_MATMUL(matmul_bf16, 32, load_bf16)
