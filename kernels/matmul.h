/* matmul.h: products of activation rows with packed weight matrices: contracts, layouts and the order of the sums.
 *
 * PACKED LAYOUT  16 weight rows make a panel; a panel holds its column blocks one behind the other, so that one panel
 * serves one activation row and many (kernels.md 6.3 of the design). A block holds the bytes of sixteen blocks of the file, no
 * more: a head, then a group of values for each 32 columns (K types: 8 groups; the others: one). All little-endian:
 *              head                                          group
 *     Q4_0     f16 d[16]                                     nibbles[4][16][4]                             288 bytes a block
 *     Q4_1     f16 d[16], m[16]                              nibbles[4][16][4]                             320
 *     Q5_0     f16 d[16]                                     nibbles[4][16][4] fifth[16][4]                352
 *     Q5_1     f16 d[16], m[16]                              nibbles[4][16][4] fifth[16][4]                384
 *     Q8_0     f16 d[16]                                     u8 values[8][16][4], stored + 128             544
 *     IQ4_NL   f16 d[16]                                     nibbles[4][16][4]                             288
 *     Q2_K     f16 d[16], m[16]; u8 scales[16][16]           pairs[2][16][4]                              1344
 *     Q3_K     f16 d[16]; u8 scales[12][16]                  pairs[2][16][4] third[16][4]                 1760
 *     Q4_K     f16 d[16], m[16]; u8 scales[12][16]           nibbles[4][16][4]                            2304
 *     Q5_K     f16 d[16], m[16]; u8 scales[12][16]           nibbles[4][16][4] fifth[16][4]               2816
 *     Q6_K     f16 d[16]; i8 scales[16][16]                  nibbles[4][16][4] pairs[2][16][4]            3360
 *     IQ4_XS   f16 d[16]; u8 high[2][16]; u8 low[4][16]      nibbles[4][16][4]                            2176
 *     F16 BF16 u16 values[16 rows]                                                                          32, one column
 *     F32      f32 values[16 rows]                                                                          64, one column
 * Byte [row][e] of a plane (256 bytes of nibbles are four planes of [16 rows][4]) belongs to column 4j + e of the group for
 * every quad j it serves: plane j of nibbles serves quad j with its low half and quad 4 + j with its high half; plane i of
 * pairs serves quad 4i + k with bits 2k and 2k + 1; fifth and third serve quad j with bit j / 2 + 4 (j % 2).
 * scales, high and low are the bytes of the file's block in their order, each for sixteen rows.
 * All bytes of rows past n_rows in the last panel are zero. Panels are 64-byte aligned where the buffer is.
 *
 * ACTIVATIONS  For quantised weights a row is int8 per 16 columns: amax = greatest |x| (by bits); d = amax / 127;
 * q = x * (127 / amax) rounded to nearest even (never -128); sum = q added up (int32); ds = d * (float)sum. A block that
 * holds NaN or inf gets d = NaN and q = 0, so the poison reaches every output of the row; one with amax under 2^-100 counts
 * as zero: d = 0 and q = 0. Other weights take f32 rows.
 *
 * ORDER OF SUMS  One f32 accumulator an output, blocks ascending, the same operations on every instruction set, so one row
 * and many, and scalar and vector, give the same bits:
 *     one scale for 32 columns (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL Q4_K Q5_K IQ4_XS): for each 32 columns, halves a and b of 16:
 *                 s = integer sum of (w - offset) * q
 *                 t = (float)s_a * d_a; t = fma((float)s_b, d_b, t); acc = fma(dw, t, acc)
 *                 with a least value (Q4_1 Q5_1 Q4_K Q5_K): acc = fma(m, ds_a + ds_b, acc)
 *     one for 16 (Q2_K Q3_K Q6_K): for each 16 columns:
 *                 acc = fma(dw, (float)s * d, acc)
 *                 with a least value (Q2_K): acc = fma(m, ds, acc)
 *     others      acc = fma((float)w, x, acc), column by column
 * dw and m of a K type are f16 d or -m times a whole scale of at most 7 bits, which f32 holds exactly. offset: 8 for Q4_0, 16
 * for Q5_0, 32 for Q6_K, 4 for Q3_K, else 0; w of the IQ types is an entry of weight_type_iq4.
 *
 * n_columns is a multiple of the file's block for quantised weights (32, K types 256), of 1 for others; n_rows any positive
 * number. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_MATMUL_H
#define FOLDKV_KERNELS_MATMUL_H

#include "config/why.h"

enum { PANEL_ROWS = 16, ACT_BLOCK = 16 };

enum weight_type {
#define WEIGHT(name, text, ggml, elements, source, scale_at, least_at, packed, act) WEIGHT_##name,
#include "kernels/weight_type.def"
#undef WEIGHT
    WEIGHT_TYPE_COUNT
};

/* A packed matrix; the memory at panels belongs to whoever packed it. */
struct packed_matrix {
    enum weight_type type;
    uint32_t n_rows;    /* outputs */
    uint32_t n_columns; /* inputs */
    size_t panel_bytes;
    const char *panels;
};

/* Rows of activations, both views of the same numbers; a product reads the one its weight type takes.
 * Row r: values + r * n_columns, quants + r * n_columns, scale/scaled_sum/sum + r * (n_columns / 16). */
struct activations {
    uint32_t n_columns;
    const float *values;
    const int8_t *quants;
    const float *scale;
    const float *scaled_sum;
    const int32_t *sum;
};

const char *weight_type_name(enum weight_type type);
/* The type of a ggml type id; false if it is not served. */
bool weight_type_from_ggml(uint32_t ggml_id, enum weight_type *ret_type);
/* True if products of this type read activations.quants. */
bool weight_type_takes_quants(enum weight_type type);
/* Columns of a block: what n_columns must be a multiple of. */
uint32_t weight_type_block(enum weight_type type);
/* Where the f16 scale (ret_at[0]) and the f16 scale of the least value (ret_at[1]) lie in a block of the file; how many there
 * are, 0 to 2. */
uint32_t weight_type_halves(enum weight_type type, uint32_t ret_at[2]);
/* The sixteen values that a nibble of the IQ types stands for. */
extern const int8_t weight_type_iq4[16];
/* Bytes of one source row of n_columns; 0 if n_columns is not a multiple of the block. */
size_t weight_row_bytes(enum weight_type type, uint32_t n_columns);

uint32_t packed_panels(uint32_t n_rows);
size_t packed_panel_bytes(enum weight_type type, uint32_t n_columns);
/* Packs panels [panel_first, panel_end) of a row-major GGUF tensor at source into dst (the start of panel 0). Pure byte
 * moves: any split over threads gives the same bytes. */
void packed_pack(enum weight_type type, const void *source, uint32_t n_rows, uint32_t n_columns,
                 uint32_t panel_first, uint32_t panel_end, char *dst);
/* Dequantises one row into ret_row[n_columns] (an embedding look-up). */
void packed_row(const struct packed_matrix *m, uint32_t row, float *ret_row);

/* out[r * out_stride + o] for activation rows [row_first, row_end) and every output o of panels [panel_first, panel_end)
 * that is < n_rows. Writes nothing else. Allocates nothing. */
typedef void matmul_fn(const struct packed_matrix *m, const struct activations *x, uint32_t row_first,
                       uint32_t row_end, uint32_t panel_first, uint32_t panel_end, float *out,
                       size_t out_stride);
/* Quantises x[n] (n a multiple of 16) into one row's arrays. */
typedef void quantise_fn(const float *x, uint32_t n, int8_t *quants, float *scale, float *scaled_sum,
                         int32_t *sum);

#endif
