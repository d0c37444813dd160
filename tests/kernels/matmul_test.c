/* matmul_test.c: every product and quantiser of kernels.def against scalar, and scalar against double.
 *
 * HOW     A case of the loop is a row of the table. Weights, activations and outputs end at guard pages; the output is
 *         wider than what is written and filled with a canary, so a byte too many anywhere shows. Scalar computes the
 *         whole matrix at once, the other sets in random pieces: so each run also shows that the split over rows and
 *         panels changes no bit. The seed is printed, and taken from FOLDKV_TEST_SEED.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kernels/half.h"
#include "kernels/kernel.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { EDGES_NONE = 0, EDGES_SOME = 1 };

/* A product's operands, all between guard pages. */
struct product {
    struct packed_matrix m;
    struct activations x;
    uint32_t rows; /* of activations */
    size_t panels_bytes;
    char *panels;
    float *values;
    int8_t *quants;
    float *scale;
    float *scaled_sum;
    int32_t *sum;
};

static const uint16_t half_edges[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
                                      0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01};
static const uint32_t float_edges[] = {0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000,
                                       0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00001,
                                       0x0d7fffff, 0x0d800000, 0x0d800001, 0x3effffff};

static const struct kernels *scalar_kernels(void)
{
    static struct kernels kernels;
    kernels_pick(1u << ISA_SCALAR, &kernels);
    return &kernels;
}

/* The type of a row's product; false for another operation. */
static bool product_type(const char *op, enum weight_type *ret_type)
{
    char name[32];
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++) {
        snprintf(name, sizeof name, "matmul_%s", weight_type_name((enum weight_type)i));
        for (char *c = name; *c != '\0'; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
        if (strcmp(op, name) == 0) {
            *ret_type = (enum weight_type)i;
            return true;
        }
    }
    return false;
}

static uint16_t random_half(uint64_t *seed, int edges)
{
    if (edges != EDGES_NONE && noise_below(seed, 24) == 0)
        return half_edges[noise_below(seed, ARRAY_LEN(half_edges))];
    return half_from_float((float)noise_between(-0.1, 0.1, seed));
}

static float random_float(uint64_t *seed, int edges)
{
    if (edges != EDGES_NONE && noise_below(seed, 200) == 0)
        return float_from_bits(float_edges[noise_below(seed, ARRAY_LEN(float_edges))]);
    return (float)noise_between(-3, 3, seed);
}

/* One block (one row of 32 columns, or one value) of a file's tensor. */
static void random_block(enum weight_type type, uint64_t *seed, int edges, char *block,
                         size_t bytes)
{
    uint16_t half = random_half(seed, edges);
    float value = random_float(seed, edges);
    uint16_t top = (uint16_t)(float_bits(value) >> 16);
    if (type == WEIGHT_F32 || type == WEIGHT_F16 || type == WEIGHT_BF16) {
        const void *from = type == WEIGHT_F32   ? (const void *)&value
                           : type == WEIGHT_F16 ? &half
                                                : &top;
        memcpy(block, from, bytes);
        return;
    }
    bool extreme = noise_below(seed, 8) == 0; /* all 15, all -128 or all 127 */
    char fill = (char)(uint8_t[]){0xff, 0x80, 0x7f, 0x00}[noise_below(seed, 4)];
    for (size_t i = 0; i < bytes; i++)
        block[i] = extreme ? fill : (char)noise_next(seed);
    uint32_t halves_at[2];
    uint32_t halves = weight_type_halves(type, halves_at);
    for (uint32_t i = 0; i < halves; i++) {
        half = random_half(seed, edges);
        memcpy(block + halves_at[i], &half, sizeof half);
    }
}

/* Columns of the smallest matrix worth a case: one block, of a float type 32 columns. */
static uint32_t block_columns(enum weight_type type)
{
    return weight_type_takes_quants(type) ? weight_type_block(type) : 32;
}

static void make_matrix(struct product *p, enum weight_type type, uint32_t n_rows,
                        uint32_t n_columns, uint64_t *seed, int edges)
{
    size_t row_bytes = weight_row_bytes(type, n_columns);
    size_t block_bytes = weight_row_bytes(type, weight_type_block(type));
    char *source = guard_alloc(row_bytes * n_rows);
    for (size_t at = 0; at < row_bytes * n_rows; at += block_bytes)
        random_block(type, seed, edges, source + at, block_bytes);
    p->m = (struct packed_matrix){.type = type, .n_rows = n_rows, .n_columns = n_columns};
    p->m.panel_bytes = packed_panel_bytes(type, n_columns);
    p->panels_bytes = p->m.panel_bytes * packed_panels(n_rows);
    p->panels = guard_alloc(p->panels_bytes);
    p->m.panels = p->panels;
    packed_pack(type, source, n_rows, n_columns, 0, packed_panels(n_rows), p->panels);
    guard_free(source, row_bytes * n_rows);
}

static size_t scales_bytes(const struct product *p)
{
    return (size_t)p->rows * (p->m.n_columns / ACT_BLOCK) * sizeof(float);
}

/* Activations as a quantiser makes them, or any other quants it could make. */
static void make_activations(struct product *p, uint32_t rows, uint64_t *seed, int edges)
{
    uint32_t columns = p->m.n_columns;
    size_t n = (size_t)rows * columns;
    p->rows = rows;
    p->values = guard_alloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        p->values[i] = random_float(seed, edges);
    p->x = (struct activations){.n_columns = columns, .values = p->values};
    if (!weight_type_takes_quants(p->m.type))
        return;
    p->quants = guard_alloc(n);
    p->scale = guard_alloc(scales_bytes(p));
    p->scaled_sum = guard_alloc(scales_bytes(p));
    p->sum = guard_alloc(scales_bytes(p));
    scalar_kernels()->quantise(p->values, (uint32_t)n, p->quants, p->scale, p->scaled_sum, p->sum);
    for (size_t b = 0; b < n / ACT_BLOCK; b++) {
        if (noise_below(seed, 8) != 0)
            continue;
        int8_t fill = noise_below(seed, 2) == 0 ? 127 : -127; /* the greatest sums there can be */
        memset(p->quants + b * ACT_BLOCK, fill, ACT_BLOCK);
        p->sum[b] = ACT_BLOCK * fill;
        p->scaled_sum[b] = p->scale[b] * (float)p->sum[b];
    }
    p->x.quants = p->quants;
    p->x.scale = p->scale;
    p->x.scaled_sum = p->scaled_sum;
    p->x.sum = p->sum;
}

static void free_product(struct product *p)
{
    size_t n = (size_t)p->rows * p->m.n_columns;
    guard_free(p->panels, p->panels_bytes);
    guard_free(p->values, n * sizeof(float));
    if (!weight_type_takes_quants(p->m.type))
        return;
    guard_free(p->quants, n);
    guard_free(p->scale, scales_bytes(p));
    guard_free(p->scaled_sum, scales_bytes(p));
    guard_free(p->sum, scales_bytes(p));
}

static bool same_bits(float a, float b)
{
    return float_bits(a) == float_bits(b) ||
           (isnan(a) && isnan(b)); /* a NaN's payload is the processor's own affair */
}

static const float canary = -7.25e19f;

static float *new_out(size_t n)
{
    float *out = guard_alloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        out[i] = canary;
    return out;
}

/* Cuts rows and panels at random places and computes the pieces one by one. */
static void multiply_in_pieces(matmul_fn *matmul, const struct product *p, float *out,
                               size_t stride, uint64_t *seed)
{
    uint32_t panels = packed_panels(p->m.n_rows);
    for (uint32_t r = 0; r < p->rows;) {
        uint32_t r_end = r + 1 + noise_below(seed, p->rows - r);
        for (uint32_t first = 0; first < panels;) {
            uint32_t end = first + 1 + noise_below(seed, panels - first);
            matmul(&p->m, &p->x, r, r_end, first, end, out, stride);
            first = end;
        }
        r = r_end;
    }
}

static void compare(enum weight_type type, matmul_fn *matmul, uint32_t n_rows, uint32_t n_columns,
                    uint32_t rows, uint64_t *seed, int edges)
{
    struct product p = {0};
    make_matrix(&p, type, n_rows, n_columns, seed, edges);
    make_activations(&p, rows, seed, edges);
    size_t stride = n_rows + noise_below(seed, 5);
    size_t n = (rows - 1) * stride + n_rows; /* the last output meets the guard page */
    float *want = new_out(n);
    float *got = new_out(n);
    scalar_kernels()->matmul[type](&p.m, &p.x, 0, rows, 0, packed_panels(n_rows), want, stride);
    multiply_in_pieces(matmul, &p, got, stride, seed);
    for (size_t i = 0; i < n; i++) {
        bool outside = i % stride >= n_rows;
        if (!same_bits(got[i], outside ? canary : want[i]))
            ck_abort_msg("%s, %u x %u weights, %u rows: output %zu of row %zu is %a, not %a",
                         weight_type_name(type), n_rows, n_columns, rows, i % stride, i / stride,
                         (double)got[i], (double)want[i]);
        if (!outside && float_bits(want[i]) == float_bits(canary))
            ck_abort_msg("scalar left output %zu of row %zu out", i % stride, i / stride);
    }
    guard_free(want, n * sizeof(float));
    guard_free(got, n * sizeof(float));
    free_product(&p);
}

/* The row's product on this machine; NULL if the row is none or the machine lacks the set. */
static matmul_fn *product_of_row(size_t i, enum weight_type *ret_type)
{
    struct kernel_row row = kernels_row(i);
    struct kernels kernels;
    if (!row.available || !product_type(row.op, ret_type))
        return NULL;
    kernels_pick(1u << row.isa, &kernels);
    ck_assert(kernels_row_is_chosen(&kernels, i));
    return kernels.matmul[*ret_type];
}

START_TEST(every_row_count_gives_the_bits_of_scalar)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    for (uint32_t rows = 1; matmul != NULL && rows <= 40; rows++)
        for (uint32_t panels = 1; panels <= 5; panels += 1 + panels / 3)
            compare(type, matmul, panels * PANEL_ROWS - (rows + panels) % 3,
                    block_columns(type) * (1 + rows % 3), rows, &seed, EDGES_NONE);
}
END_TEST

START_TEST(every_output_tail_gives_the_bits_of_scalar)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    for (uint32_t n_rows = 1; matmul != NULL && n_rows <= 2 * PANEL_ROWS + 1; n_rows++)
        for (uint32_t rows = 1; rows <= 9; rows += 4)
            compare(type, matmul, n_rows, block_columns(type), rows, &seed, EDGES_NONE);
}
END_TEST

/* Rows of more columns than an instruction set may unpack at once, and more of them than a tile takes. */
START_TEST(sums_that_wait_in_outputs_give_the_bits_of_scalar)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    for (uint32_t blocks = 9; matmul != NULL && blocks <= 17; blocks += 4)
        compare(type, matmul, 4 * PANEL_ROWS - blocks, 256 * blocks, 16 + 2 * blocks, &seed,
                EDGES_SOME);
}
END_TEST

START_TEST(float_columns_may_be_any_number)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    if (matmul == NULL || weight_type_takes_quants(type))
        return;
    for (uint32_t columns = 1; columns <= 35; columns++)
        compare(type, matmul, 80, columns, 1 + columns % 8, &seed, EDGES_NONE);
}
END_TEST

START_TEST(nan_inf_and_denormals_give_the_bits_of_scalar)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    for (int i = 0; matmul != NULL && i < 60; i++)
        compare(type, matmul, 1 + noise_below(&seed, 70),
                block_columns(type) * (1 + noise_below(&seed, 256 / block_columns(type))),
                1 + noise_below(&seed, 20), &seed, EDGES_SOME);
}
END_TEST

/* Long rows, so that panels are longer than the prefetch distance and rows more than a cache block. */
START_TEST(large_shapes_give_the_bits_of_scalar)
{
    enum weight_type type;
    matmul_fn *matmul = product_of_row((size_t)_i, &type);
    uint64_t seed = test_seed();
    if (matmul == NULL)
        return;
    compare(type, matmul, 100, 1536, 1, &seed, EDGES_NONE);
    compare(type, matmul, 40, block_columns(type) == 256 ? 768 : 576, 13, &seed, EDGES_NONE);
    compare(type, matmul, 20, 2048, 150, &seed, EDGES_NONE);
}
END_TEST

/* The sum that scalar stands for, in double, and the sum of magnitudes that bounds its rounding. */
static double exact_output(const struct product *p, const float *weights, uint32_t row,
                           double *ret_magnitude)
{
    double sum = 0;
    *ret_magnitude = 0;
    uint32_t columns = p->m.n_columns;
    for (uint32_t c = 0; c < columns; c++) {
        size_t at = (size_t)row * columns + c;
        double x = weight_type_takes_quants(p->m.type)
                       ? (double)p->quants[at] * (double)p->scale[at / ACT_BLOCK]
                       : (double)p->values[at];
        sum += (double)weights[c] * x;
        *ret_magnitude += fabs((double)weights[c] * x);
    }
    return sum;
}

START_TEST(scalar_is_the_product)
{
    enum weight_type type = (enum weight_type)_i;
    uint64_t seed = test_seed();
    struct product p = {0};
    uint32_t n_rows = 37, columns = 1536, rows = 3;
    make_matrix(&p, type, n_rows, columns, &seed, EDGES_NONE);
    make_activations(&p, rows, &seed, EDGES_NONE);
    float *out = new_out((size_t)rows * n_rows);
    scalar_kernels()->matmul[type](&p.m, &p.x, 0, rows, 0, packed_panels(n_rows), out, n_rows);
    float *weights = guard_alloc(columns * sizeof(float));
    for (uint32_t o = 0; o < n_rows; o++) {
        packed_row(&p.m, o, weights);
        for (uint32_t r = 0; r < rows; r++) {
            double magnitude;
            double want = exact_output(&p, weights, r, &magnitude);
            /* with a least value: magnitudes that cancel in the weight do not in the sum */
            uint32_t halves_at[2];
            double allowed = (weight_type_halves(type, halves_at) == 2 ? 2e-5 : 2e-6) * magnitude;
            ck_assert_double_le(fabs((double)out[r * n_rows + o] - want), allowed);
        }
    }
    guard_free(weights, columns * sizeof(float));
    guard_free(out, (size_t)rows * n_rows * sizeof(float));
    free_product(&p);
}
END_TEST

struct quantised {
    int8_t *quants;
    float *scale;
    float *scaled_sum;
    int32_t *sum;
};

static struct quantised quantise_guarded(quantise_fn *quantise, const float *x, uint32_t n)
{
    size_t scales = n / ACT_BLOCK;
    struct quantised q = {guard_alloc(n), guard_alloc(scales * 4), guard_alloc(scales * 4),
                          guard_alloc(scales * 4)};
    quantise(x, n, q.quants, q.scale, q.scaled_sum, q.sum);
    return q;
}

static void free_quantised(struct quantised *q, uint32_t n)
{
    size_t scales = n / ACT_BLOCK;
    guard_free(q->quants, n);
    guard_free(q->scale, scales * 4);
    guard_free(q->scaled_sum, scales * 4);
    guard_free(q->sum, scales * 4);
}

/* A block as the header defines it: nearest, added up, or poisoned, or flat. */
static void check_block(const float *x, const struct quantised *q, uint32_t b)
{
    double amax = 0;
    bool poisoned = false;
    int32_t sum = 0;
    for (uint32_t i = 0; i < ACT_BLOCK; i++) {
        poisoned |= !isfinite(x[i]);
        amax = fmax(amax, fabs((double)x[i]));
    }
    double d = (double)q->scale[b];
    for (uint32_t i = 0; i < ACT_BLOCK; i++) {
        int8_t quant = q->quants[b * ACT_BLOCK + i];
        sum += quant;
        bool flat = poisoned || amax < 0x1p-100;
        if (flat ? quant != 0 : fabs((double)x[i] - quant * d) > d * 0.50001)
            ck_abort_msg("%a is %d times %a", (double)x[i], quant, d);
    }
    ck_assert_int_eq(q->sum[b], sum);
    ck_assert(poisoned == (isnan(d) && isnan(q->scaled_sum[b])));
    if (!poisoned)
        ck_assert_double_le(fabs(d * 127 - (amax < 0x1p-100 ? 0 : amax)), amax * 1e-6);
}

START_TEST(quantisers_agree_and_round_to_nearest)
{
    struct kernel_row row = kernels_row((size_t)_i);
    if (!row.available || strcmp(row.op, "quantise") != 0)
        return;
    struct kernels kernels;
    kernels_pick(1u << row.isa, &kernels);
    uint64_t seed = test_seed();
    for (uint32_t n = ACT_BLOCK; n <= 4096; n += ACT_BLOCK * (1 + n / 64)) {
        float *x = guard_alloc(n * sizeof(float));
        for (uint32_t i = 0; i < n; i++)
            x[i] =
                random_float(&seed, EDGES_SOME) * (noise_below(&seed, 40) == 0 ? 0x1p-101f : 1.0f);
        struct quantised want = quantise_guarded(scalar_kernels()->quantise, x, n);
        struct quantised got = quantise_guarded(kernels.quantise, x, n);
        ck_assert_mem_eq(got.quants, want.quants, n);
        ck_assert_mem_eq(got.scale, want.scale, n / ACT_BLOCK * 4);
        ck_assert_mem_eq(got.sum, want.sum, n / ACT_BLOCK * 4);
        for (uint32_t b = 0; b < n / ACT_BLOCK; b++) {
            ck_assert(same_bits(got.scaled_sum[b], want.scaled_sum[b]));
            check_block(x + b * ACT_BLOCK, &got, b);
        }
        free_quantised(&want, n);
        free_quantised(&got, n);
        guard_free(x, n * sizeof(float));
    }
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    int rows = (int)kernels_row_count();
    TCase *c = tcase_create("matmul");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, scalar_is_the_product, 0, WEIGHT_TYPE_COUNT);
    tcase_add_loop_test(c, quantisers_agree_and_round_to_nearest, 0, rows);
    tcase_add_loop_test(c, every_output_tail_gives_the_bits_of_scalar, 0, rows);
    tcase_add_loop_test(c, sums_that_wait_in_outputs_give_the_bits_of_scalar, 0, rows);
    tcase_add_loop_test(c, float_columns_may_be_any_number, 0, rows);
    tcase_add_loop_test(c, every_row_count_gives_the_bits_of_scalar, 0, rows);
    tcase_add_loop_test(c, nan_inf_and_denormals_give_the_bits_of_scalar, 0, rows);
    tcase_add_loop_test(c, large_shapes_give_the_bits_of_scalar, 0, rows);
    Suite *s = suite_create("matmul");
    suite_add_tcase(s, c);
    return suite_run(s);
}
