/* packed_test.c: packing and unpacking of every weight type, and the table of types.
 *
 * HOW     Rows are made in the file's layout and read by a second reader, written here from GGUF's own description; after
 *         packing in random pieces each row must come back as that reader sees it, bit for bit. What no row owns is zero.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kernels/half.h"
#include "kernels/matmul.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

static float half_at(const unsigned char *p)
{
    return half_to_float((uint16_t)(p[0] | p[1] << 8));
}

/* Column c of a row as GGUF defines it. */
static float source_value(enum weight_type type, const unsigned char *row, uint32_t c)
{
    const unsigned char *block;
    uint32_t i = c % 32;
    uint32_t bits;
    switch (type) {
    case WEIGHT_F32:
        memcpy(&bits, row + 4 * (size_t)c, 4);
        return float_from_bits(bits);
    case WEIGHT_F16:
        return half_at(row + 2 * (size_t)c);
    case WEIGHT_BF16:
        return float_from_bits((uint32_t)(row[2 * c] | row[2 * c + 1] << 8) << 16);
    case WEIGHT_Q4_0:
        block = row + (size_t)(c / 32) * 18;
        return (float)((i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8) * half_at(block);
    case WEIGHT_Q4_1:
        block = row + (size_t)(c / 32) * 20;
        return (float)(i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4) * half_at(block) +
               half_at(block + 2);
    case WEIGHT_Q8_0:
        block = row + (size_t)(c / 32) * 34;
        return (float)(int8_t)block[2 + i] * half_at(block);
    case WEIGHT_TYPE_COUNT:
    default:
        ck_abort_msg("no such type");
    }
    return 0;
}

static void check_tail(const struct packed_matrix *m, size_t unit_bytes)
{
    uint32_t rows = m->n_rows % PANEL_ROWS;
    const char *panel = m->panels + (size_t)(m->n_rows / PANEL_ROWS) * m->panel_bytes;
    for (size_t at = 0; rows != 0 && at < m->panel_bytes; at++) {
        /* within a block every part is sixteen units of one size, except that quads and scales differ */
        size_t in_block = at % unit_bytes;
        size_t scales = m->type == WEIGHT_Q4_1 ? 64 : weight_type_takes_quants(m->type) ? 32 : 0;
        size_t bytes = in_block < scales                   ? 2
                       : weight_type_takes_quants(m->type) ? 4
                                                           : unit_bytes / PANEL_ROWS;
        size_t row = (in_block < scales ? in_block : in_block - scales) / bytes % PANEL_ROWS;
        if (row >= rows && panel[at] != 0)
            ck_abort_msg("byte %zu of row %zu, which does not exist, is not zero", at, row);
    }
}

static void round_trip(enum weight_type type, uint32_t n_rows, uint32_t n_columns, uint64_t *seed)
{
    size_t row_bytes = weight_row_bytes(type, n_columns);
    unsigned char *source = guard_alloc(n_rows * row_bytes);
    for (size_t i = 0; i < n_rows * row_bytes; i++)
        source[i] = (unsigned char)noise_next(seed);
    struct packed_matrix m = {.type = type, .n_rows = n_rows, .n_columns = n_columns};
    m.panel_bytes = packed_panel_bytes(type, n_columns);
    uint32_t panels = packed_panels(n_rows);
    char *packed = guard_alloc(panels * m.panel_bytes);
    memset(packed, 0x5a, panels * m.panel_bytes);
    for (uint32_t first = 0, end; first < panels; first = end) {
        end = first + 1 + noise_below(seed, panels - first);
        packed_pack(type, source, n_rows, n_columns, first, end, packed);
    }
    m.panels = packed;
    float *row = guard_alloc(n_columns * sizeof(float));
    for (uint32_t r = 0; r < n_rows; r++) {
        packed_row(&m, r, row);
        for (uint32_t c = 0; c < n_columns; c++) {
            float want = source_value(type, source + r * row_bytes, c);
            if (float_bits(row[c]) != float_bits(want) && !(isnan(row[c]) && isnan(want)))
                ck_abort_msg("%s %u x %u: row %u column %u is %a, not %a", weight_type_name(type),
                             n_rows, n_columns, r, c, (double)row[c], (double)want);
        }
    }
    check_tail(&m, packed_panel_bytes(type, weight_type_takes_quants(type) ? 32 : 1));
    guard_free(row, n_columns * sizeof(float));
    guard_free(packed, panels * m.panel_bytes);
    guard_free(source, n_rows * row_bytes);
}

START_TEST(rows_come_back_as_the_file_has_them)
{
    enum weight_type type = (enum weight_type)_i;
    uint64_t seed = test_seed();
    for (uint32_t n_rows = 1; n_rows <= 50; n_rows++)
        round_trip(type, n_rows, 32 * (1 + noise_below(&seed, 5)), &seed);
    for (uint32_t columns = 1; !weight_type_takes_quants(type) && columns <= 50; columns++)
        round_trip(type, 20, columns, &seed);
}
END_TEST

START_TEST(types_are_those_of_the_file_format)
{
    static const struct {
        const char *name;
        uint32_t ggml;
        uint32_t columns;
        size_t bytes;
    } known[] = {{"F32", 0, 1, 4},    {"F16", 1, 1, 2},    {"BF16", 30, 1, 2},
                 {"Q4_0", 2, 32, 18}, {"Q4_1", 3, 32, 20}, {"Q8_0", 8, 32, 34}};
    ck_assert_uint_eq(ARRAY_LEN(known), WEIGHT_TYPE_COUNT);
    enum weight_type type = WEIGHT_F32;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        ck_assert(weight_type_from_ggml(known[i].ggml, &type));
        ck_assert_str_eq(weight_type_name(type), known[i].name);
        ck_assert_uint_eq(weight_row_bytes(type, known[i].columns), known[i].bytes);
        ck_assert_uint_eq(weight_row_bytes(type, 96), known[i].bytes * (96 / known[i].columns));
        if (known[i].columns > 1)
            ck_assert_uint_eq(weight_row_bytes(type, 100), 0);
    }
    ck_assert(!weight_type_from_ggml(12, &type)); /* Q4_K */
    ck_assert(!weight_type_from_ggml(UINT32_MAX, &type));
    ck_assert_uint_eq(packed_panels(UINT32_MAX), 1u << 28);
    ck_assert_uint_eq(packed_panels(1), 1);
    ck_assert_uint_eq(packed_panels(32), 2);
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *c = tcase_create("packed");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, types_are_those_of_the_file_format);
    tcase_add_loop_test(c, rows_come_back_as_the_file_has_them, 0, WEIGHT_TYPE_COUNT);
    Suite *s = suite_create("packed");
    suite_add_tcase(s, c);
    return suite_run(s);
}
