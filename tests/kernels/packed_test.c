/* packed_test.c: packing and unpacking of every weight type, and the table of types.
 *
 * HOW     Rows are made in the file's layout and read by a second reader, written here from GGUF's own description; after
 *         packing in random pieces each row must come back as that reader sees it, bit for bit. What no row owns is zero.
 *         Fixed random blocks must come back as GGUF's own reader has read them (tests/support/weight_blocks.py).
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

/* What a scale of 16 or 32 columns of a K type is made of: a byte of 6 bits, of scale s or of least value s. */
static int six_bits(const unsigned char *scales, uint32_t s, bool is_least)
{
    const unsigned char *own = scales + (is_least ? 4 : 0);
    if (s < 4)
        return own[s] & 63;
    unsigned char low = scales[8 + s - 4];
    return (is_least ? low >> 4 : low & 15) + (own[s - 4] >> 6) * 16;
}

static int q3_scale(const unsigned char *scales, uint32_t s)
{
    int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    return low + (scales[8 + s % 4] >> s / 4 * 2 & 3) * 16 - 32;
}

static int iq4_value(unsigned nibble)
{
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    return values[nibble];
}

/* Bits of column i in nibbles of Q4_K and Q5_K. */
static unsigned paired_nibble(const unsigned char *nibbles, uint32_t i)
{
    return nibbles[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
}

/* Column i of a block of 256 as GGUF defines it. */
static float super_value(enum weight_type type, const unsigned char *b, uint32_t i)
{
    uint32_t s = i / 32, l = i % 32;                           /* 32 columns */
    unsigned in_128 = i / 128 * 32 + l, pair = i / 32 % 4 * 2; /* two bits a column in 32 bytes */
    if (type == WEIGHT_Q2_K)
        return half_at(b + 80) * (float)(b[i / 16] & 15) * (float)(b[16 + in_128] >> pair & 3) -
               half_at(b + 82) * (float)(b[i / 16] >> 4);
    if (type == WEIGHT_Q3_K)
        return half_at(b + 108) * (float)q3_scale(b + 96, i / 16) *
               (float)((b[32 + in_128] >> pair & 3) - ((b[l] >> s & 1) != 0 ? 0 : 4));
    if (type == WEIGHT_Q4_K)
        return half_at(b) * (float)six_bits(b + 4, s, false) * (float)paired_nibble(b + 16, i) -
               half_at(b + 2) * (float)six_bits(b + 4, s, true);
    if (type == WEIGHT_Q5_K)
        return half_at(b) * (float)six_bits(b + 4, s, false) *
                   (float)(paired_nibble(b + 48, i) + (b[16 + l] >> s & 1u) * 16) -
               half_at(b + 2) * (float)six_bits(b + 4, s, true);
    if (type == WEIGHT_Q6_K) {
        unsigned low = b[i / 128 * 64 + i % 64] >> i / 64 % 2 * 4 & 15;
        return half_at(b + 208) * (float)(int8_t)b[192 + i / 16] *
               (float)((int)(low + (b[128 + in_128] >> pair & 3u) * 16) - 32);
    }
    ck_assert_int_eq(type, WEIGHT_IQ4_XS);
    int scale = (b[4 + s / 2] >> s % 2 * 4 & 15) + ((b[2] | b[3] << 8) >> 2 * s & 3) * 16 - 32;
    return half_at(b) * (float)scale * (float)iq4_value(b[8 + s * 16 + l % 16] >> l / 16 * 4 & 15);
}

/* Column i of a block of 32. */
static float block_value(enum weight_type type, const unsigned char *b, uint32_t i)
{
    static const uint8_t values_at[WEIGHT_TYPE_COUNT] = {
        [WEIGHT_Q4_0] = 2, [WEIGHT_Q4_1] = 4,   [WEIGHT_Q5_0] = 6,
        [WEIGHT_Q5_1] = 8, [WEIGHT_IQ4_NL] = 2, [WEIGHT_Q8_0] = 2};
    const unsigned char *values = b + values_at[type];
    if (type == WEIGHT_Q8_0)
        return (float)(int8_t)values[i] * half_at(b);
    unsigned nibble = values[i % 16] >> i / 16 * 4 & 15;
    if (type == WEIGHT_IQ4_NL)
        return (float)iq4_value(nibble) * half_at(b);
    if (type == WEIGHT_Q5_0 || type == WEIGHT_Q5_1)
        nibble += (values[(int)(i / 8) - 4] >> i % 8 & 1u) * 16;
    int offset = type == WEIGHT_Q4_0 ? 8 : type == WEIGHT_Q5_0 ? 16 : 0;
    float value = (float)((int)nibble - offset) * half_at(b);
    if (type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1)
        value += half_at(b + 2);
    return value;
}

/* Column c of a row as GGUF defines it. */
static float source_value(enum weight_type type, const unsigned char *row, uint32_t c)
{
    uint32_t block = weight_type_block(type);
    size_t at = (size_t)(c / block) * weight_row_bytes(type, block);
    uint32_t bits;
    if (block == 256)
        return super_value(type, row + at, c % block);
    if (block == 32)
        return block_value(type, row + at, c % block);
    if (type == WEIGHT_F16)
        return half_at(row + at);
    if (type == WEIGHT_BF16)
        return float_from_bits((uint32_t)(row[at] | row[at + 1] << 8) << 16);
    ck_assert_int_eq(type, WEIGHT_F32);
    memcpy(&bits, row + at, sizeof bits);
    return float_from_bits(bits);
}

/* The size of one row's piece at a byte of a packed block: halves, then whole scales, then quads of values. */
static size_t piece_bytes(enum weight_type type, size_t in_block, size_t *ret_start)
{
    static const uint8_t whole_scales[WEIGHT_TYPE_COUNT] = {
        [WEIGHT_Q2_K] = 16, [WEIGHT_Q3_K] = 12, [WEIGHT_Q4_K] = 12,
        [WEIGHT_Q5_K] = 12, [WEIGHT_Q6_K] = 16, [WEIGHT_IQ4_XS] = 6};
    uint32_t halves_at[2];
    size_t scales = (size_t)weight_type_halves(type, halves_at) * 2 * PANEL_ROWS;
    size_t values = scales + (size_t)whole_scales[type] * PANEL_ROWS;
    *ret_start = in_block < scales ? 0 : in_block < values ? scales : values;
    return in_block < scales                ? 2
           : in_block < values              ? 1
           : weight_type_takes_quants(type) ? 4
                                            : weight_row_bytes(type, 1);
}

static void check_tail(const struct packed_matrix *m)
{
    uint32_t rows = m->n_rows % PANEL_ROWS;
    size_t block_bytes = packed_panel_bytes(m->type, weight_type_block(m->type));
    const char *panel = m->panels + (size_t)(m->n_rows / PANEL_ROWS) * m->panel_bytes;
    for (size_t at = 0; rows != 0 && at < m->panel_bytes; at++) {
        size_t start;
        size_t bytes = piece_bytes(m->type, at % block_bytes, &start);
        size_t row = (at % block_bytes - start) / bytes % PANEL_ROWS;
        if (row >= rows && panel[at] != 0)
            ck_abort_msg("%s: byte %zu of row %zu, which does not exist, is not zero",
                         weight_type_name(m->type), at, row);
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
    check_tail(&m);
    guard_free(row, n_columns * sizeof(float));
    guard_free(packed, panels * m.panel_bytes);
    guard_free(source, n_rows * row_bytes);
}

START_TEST(rows_come_back_as_the_file_has_them)
{
    enum weight_type type = (enum weight_type)_i;
    uint64_t seed = test_seed();
    for (uint32_t n_rows = 1; n_rows <= 50; n_rows++)
        round_trip(type, n_rows,
                   (weight_type_block(type) == 256 ? 256 : 32) * (1 + noise_below(&seed, 5)),
                   &seed);
    for (uint32_t columns = 1; !weight_type_takes_quants(type) && columns <= 50; columns++)
        round_trip(type, 20, columns, &seed);
}
END_TEST

enum { FIXTURE_COLUMNS = 256, FIXTURE_BYTES_MAX = FIXTURE_COLUMNS * 2 };

struct fixture {
    enum weight_type type;
    uint8_t bytes[FIXTURE_BYTES_MAX];
    uint32_t bits[FIXTURE_COLUMNS]; /* of the floats they stand for */
};

static const struct fixture fixtures[] = {
/* clang-format off */
#define BYTES(...) {__VA_ARGS__}
#define FLOATS(...) {__VA_ARGS__}
/* clang-format on */
#define WEIGHT_BLOCKS(type, bytes, bits) {WEIGHT_##type, bytes, bits},
#include "tests/data/weight-blocks.inc"
#undef WEIGHT_BLOCKS
#undef BYTES
#undef FLOATS
};

/* The same row in each of the sixteen places of a panel. */
START_TEST(blocks_are_read_as_the_formats_own_reader_reads_them)
{
    const struct fixture *f = &fixtures[_i];
    struct packed_matrix m = {.type = f->type, .n_rows = PANEL_ROWS, .n_columns = FIXTURE_COLUMNS};
    size_t row_bytes = weight_row_bytes(f->type, FIXTURE_COLUMNS);
    ck_assert_uint_le(row_bytes, FIXTURE_BYTES_MAX);
    m.panel_bytes = packed_panel_bytes(f->type, FIXTURE_COLUMNS);
    char *source = guard_alloc(PANEL_ROWS * row_bytes);
    char *packed = guard_alloc(m.panel_bytes);
    for (uint32_t r = 0; r < PANEL_ROWS; r++)
        memcpy(source + r * row_bytes, f->bytes, row_bytes);
    packed_pack(f->type, source, PANEL_ROWS, FIXTURE_COLUMNS, 0, 1, packed);
    m.panels = packed;
    float row[FIXTURE_COLUMNS];
    for (uint32_t r = 0; r < PANEL_ROWS; r++) {
        packed_row(&m, r, row);
        for (uint32_t c = 0; c < FIXTURE_COLUMNS; c++)
            if (float_bits(row[c]) != f->bits[c])
                ck_abort_msg("%s: row %u column %u is %a, not %a", weight_type_name(f->type), r, c,
                             (double)row[c], (double)float_from_bits(f->bits[c]));
    }
    guard_free(source, PANEL_ROWS * row_bytes);
    guard_free(packed, m.panel_bytes);
}
END_TEST

START_TEST(every_quantised_type_has_fixed_blocks)
{
    uint32_t have = 0;
    for (size_t i = 0; i < ARRAY_LEN(fixtures); i++)
        have |= 1u << fixtures[i].type;
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++)
        ck_assert_int_eq(have >> i & 1u, weight_type_takes_quants((enum weight_type)i));
}
END_TEST

START_TEST(types_are_those_of_the_file_format)
{
    static const struct {
        const char *name;
        uint32_t ggml;
        uint32_t columns;
        size_t bytes;
    } known[] = {{"F32", 0, 1, 4},       {"F16", 1, 1, 2},       {"BF16", 30, 1, 2},
                 {"Q4_0", 2, 32, 18},    {"Q4_1", 3, 32, 20},    {"Q5_0", 6, 32, 22},
                 {"Q5_1", 7, 32, 24},    {"Q8_0", 8, 32, 34},    {"Q2_K", 10, 256, 84},
                 {"Q3_K", 11, 256, 110}, {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176},
                 {"Q6_K", 14, 256, 210}, {"IQ4_NL", 20, 32, 18}, {"IQ4_XS", 23, 256, 136}};
    ck_assert_uint_eq(ARRAY_LEN(known), WEIGHT_TYPE_COUNT);
    enum weight_type type = WEIGHT_F32;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        ck_assert(weight_type_from_ggml(known[i].ggml, &type));
        ck_assert_str_eq(weight_type_name(type), known[i].name);
        ck_assert_uint_eq(weight_type_block(type), known[i].columns);
        ck_assert_uint_eq(weight_row_bytes(type, known[i].columns), known[i].bytes);
        ck_assert_uint_eq(weight_row_bytes(type, 768), known[i].bytes * (768 / known[i].columns));
        ck_assert_uint_eq(packed_panel_bytes(type, 768), PANEL_ROWS * weight_row_bytes(type, 768));
        if (known[i].columns > 1)
            ck_assert_uint_eq(weight_row_bytes(type, known[i].columns + 4), 0);
    }
    ck_assert(!weight_type_from_ggml(15, &type)); /* Q8_K */
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
    tcase_add_test(c, every_quantised_type_has_fixed_blocks);
    tcase_add_loop_test(c, blocks_are_read_as_the_formats_own_reader_reads_them, 0,
                        (int)ARRAY_LEN(fixtures));
    tcase_add_loop_test(c, rows_come_back_as_the_file_has_them, 0, WEIGHT_TYPE_COUNT);
    Suite *s = suite_create("packed");
    suite_add_tcase(s, c);
    return suite_run(s);
}
