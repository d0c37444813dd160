/* vector_test.c: the element-wise kernels and the reading of logits.
 *
 * HOW     Every case runs once an instruction set of this machine. All memory ends at a guard page,
 *         so starts are unaligned and one element too many is a signal. Each set must give the bits
 *         of scalar; scalar is held against double.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kernels/half.h"
#include "kernels/kernel.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"
#include "tests/support/suite_run.h"

enum { VOCAB = 49152 };

static const uint32_t row_lengths[] = {1,    2,    15,   16,   17,   31,   33,   63,    64,   65,
                                       127,  255,  256,  257,  300,  511,  512,  513,   767,  1000,
                                       1023, 1024, 1025, 4095, 4096, 4097, 8192, 49151, VOCAB};

static float *floats(size_t n)
{
    return guard_alloc(n * sizeof(float));
}

static void give(float *p, size_t n)
{
    guard_free(p, n * sizeof(float));
}

static float *copy_of(const float *from, size_t n)
{
    float *p = floats(n);
    memcpy(p, from, n * sizeof *p);
    return p;
}

static struct vector_kernels scalar_kernels(void)
{
    struct kernels kernels;
    kernels_pick(1u << ISA_SCALAR, &kernels);
    return kernels.vector;
}

/* False if this machine does not have the set: the case is then no case. */
static bool pick(int isa, struct vector_kernels *ret_kernels)
{
    struct kernels kernels;
    if ((isa_available() >> isa & 1u) == 0)
        return false;
    kernels_pick(1u << isa, &kernels);
    *ret_kernels = kernels.vector;
    return true;
}

/* An assertion that holds is a write to a pipe; so the loops look first and speak only when there
 * is something to say. */
static void hold(bool condition, uint32_t at)
{
    if (!condition)
        ck_abort_msg("wrong at %u", at);
}

/* The same bits, or NaN in both: a NaN's payload is the processor's own affair. */
static void assert_same_bits(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (float_bits(got[i]) != float_bits(want[i]) && !(isnan(got[i]) && isnan(want[i])))
            ck_abort_msg("element %zu of %zu: %a, want %a", i, n, (double)got[i], (double)want[i]);
}

/* Finite values of every kind, special ones among them. */
static void fill_with_edges(float *p, size_t n, uint64_t *state)
{
    static const uint32_t edges[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u,
                                     0x007fffffu, 0x00800000u, 0x7f7fffffu, 0xff7fffffu,
                                     0x3f800000u, 0xc2ae0000u};
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = noise_next(state);
        if (bits % 4 == 0)
            p[i] = float_from_bits(edges[(bits >> 8) % ARRAY_LEN(edges)]);
        else
            p[i] = (float)noise_between(-20.0, 20.0, state);
    }
}

static void fill(float *p, size_t n, int kind, uint64_t *state)
{
    if (kind == 0)
        noise_fill(p, n, -8.0, 8.0, state);
    else
        fill_with_edges(p, n, state);
    for (size_t i = 0; kind == 2 && i < n; i += 1 + noise_below(state, 40))
        p[i] = (i & 1) != 0 ? (float)NAN : i % 4 == 0 ? INFINITY : -INFINITY;
}

enum { ROW_OPS = 8 };

/* The operations of one shape, the gates and the norm in place and not. */
static void row_ops(const struct vector_kernels *k, const float *x, const float *y, uint32_t n,
                    float *out)
{
    float *at[ROW_OPS];
    for (size_t i = 0; i < ROW_OPS; i++) {
        at[i] = out + i * n;
        memcpy(at[i], x, n * sizeof *out);
    }
    k->silu_mul(x, y, n, at[0]);
    k->silu_mul(at[1], y, n, at[1]);
    k->gelu_mul(x, y, n, at[2]);
    k->gelu_mul(at[3], y, n, at[3]);
    k->rms_norm(x, y, 1e-5f, n, at[4]);
    k->rms_norm(at[5], y, 1e-5f, n, at[5]);
    k->add(at[6], y, n);
    k->scale(at[7], y[0], n);
}

START_TEST(rows_give_scalar_bits)
{
    struct vector_kernels k;
    struct vector_kernels scalar = scalar_kernels();
    uint64_t state = 1;
    if (!pick(_i, &k))
        return;
    for (uint32_t n = 16; n <= 2064; n += n < 320 ? 16 : 576 - n % 576 + 16) {
        for (int kind = 0; kind < 3; kind++) {
            float *x = floats(n);
            float *y = floats(n);
            float *got = floats(ROW_OPS * (size_t)n);
            float *want = floats(ROW_OPS * (size_t)n);
            fill(x, n, kind, &state);
            fill(y, n, kind, &state);
            row_ops(&k, x, y, n, got);
            row_ops(&scalar, x, y, n, want);
            assert_same_bits(got, want, ROW_OPS * (size_t)n);
            for (size_t i = 0; i < 6; i += 2)
                assert_same_bits(got + i * n, got + (i + 1) * n, n);
            give(x, n);
            give(y, n);
            give(got, ROW_OPS * (size_t)n);
            give(want, ROW_OPS * (size_t)n);
        }
    }
}
END_TEST

START_TEST(rotations_give_scalar_bits)
{
    struct vector_kernels k;
    struct vector_kernels scalar = scalar_kernels();
    uint64_t state = 2;
    if (!pick(_i, &k))
        return;
    for (uint32_t n = 16; n <= 256; n += 16) {
        for (int kind = 0; kind < 6; kind++) {
            float *x = floats(n);
            float *cosine = floats(n / 2);
            float *sine = floats(n / 2);
            fill(x, n, kind % 3, &state);
            fill(cosine, n / 2, kind % 3, &state);
            fill(sine, n / 2, kind % 3, &state);
            float *want = copy_of(x, n);
            (kind < 3 ? k.rope_halves : k.rope_neighbours)(x, cosine, sine, n);
            (kind < 3 ? scalar.rope_halves : scalar.rope_neighbours)(want, cosine, sine, n);
            assert_same_bits(x, want, n);
            give(x, n);
            give(want, n);
            give(cosine, n / 2);
            give(sine, n / 2);
        }
    }
}
END_TEST

START_TEST(rotations_are_the_contract)
{
    struct vector_kernels k;
    float x[256];
    float cosine[128];
    float sine[128];
    uint64_t state = 3;
    if (!pick(_i, &k))
        return;
    for (uint32_t n = 16; n <= 256; n += 16) {
        for (int halves = 0; halves < 2; halves++) {
            noise_fill(x, n, -4.0, 4.0, &state);
            noise_fill(cosine, n / 2, -1.0, 1.0, &state);
            noise_fill(sine, n / 2, -1.0, 1.0, &state);
            x[0] = cosine[0] = 0.0f; /* fma(0, 0, -(0)) is where the sign of a zero shows */
            float got[256];
            memcpy(got, x, sizeof got);
            (halves ? k.rope_halves : k.rope_neighbours)(got, cosine, sine, n);
            for (uint32_t i = 0; i < n / 2; i++) {
                uint32_t at_a = halves ? i : 2 * i;
                uint32_t at_b = halves ? i + n / 2 : 2 * i + 1;
                float b_sine = x[at_b] * sine[i];
                float a_sine = x[at_a] * sine[i];
                float a = fmaf(x[at_a], cosine[i], -b_sine);
                float b = fmaf(x[at_b], cosine[i], a_sine);
                hold(float_bits(got[at_a]) == float_bits(a), at_a);
                hold(float_bits(got[at_b]) == float_bits(b), at_b);
            }
        }
    }
}
END_TEST

START_TEST(rows_are_near_double)
{
    struct vector_kernels k;
    enum { N = 576 };
    float x[N], y[N], out[N];
    uint64_t state = 4;
    if (!pick(_i, &k))
        return;
    for (int round = 0; round < 50; round++) {
        noise_fill(x, N, -90.0 / (1 + round), 90.0 / (1 + round), &state);
        noise_fill(y, N, -2.0, 2.0, &state);
        double squares = 0.0;
        for (int i = 0; i < N; i++)
            squares += (double)x[i] * (double)x[i];
        k.rms_norm(x, y, 1e-5f, N, out);
        for (int i = 0; i < N; i++) {
            double want = (double)x[i] / sqrt(squares / N + (double)1e-5f) * (double)y[i];
            hold(fabs((double)out[i] - want) <= fabs(want) * 6e-7, (uint32_t)i);
        }
        k.silu_mul(x, y, N, out);
        for (int i = 0; i < N; i++) {
            double want = (double)x[i] / (1.0 + exp(-(double)x[i])) * (double)y[i];
            double slack = x[i] < -87.0f
                               ? 1e-35
                               : fabs(want) * 6e-7; /* exp overflows there: the answer is 0 */
            hold(fabs((double)out[i] - want) <= slack, (uint32_t)i);
        }
    }
}
END_TEST

START_TEST(gelu_is_near_double)
{
    struct vector_kernels k;
    enum { N = 576 };
    float x[N], y[N], out[N];
    uint64_t state = 10;
    if (!pick(_i, &k))
        return;
    for (int round = 0; round < 50; round++) {
        noise_fill(x, N, -12.0 / (1 + round), 12.0 / (1 + round), &state);
        noise_fill(y, N, -2.0, 2.0, &state);
        k.gelu_mul(x, y, N, out);
        for (int i = 0; i < N; i++) {
            double g = (double)x[i];
            double u = sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g);
            double want = 0.5 * g * (1.0 + tanh(u)) * (double)y[i];
            /* 1 + tanh(u) loses digits of the double below 0, the exponent's rounding of the float. */
            double slack = fabs(want) * (6e-7 + 2.0 * fabs(u) * 3e-7) + 1e-14;
            hold(fabs((double)out[i] - want) <= slack, (uint32_t)i);
        }
    }
    float ends[16] = {0.0f, -0.0f, 40.0f, -40.0f, 3e38f, INFINITY, NAN};
    float ones[16];
    for (int i = 0; i < 16; i++)
        ones[i] = 1.0f;
    k.gelu_mul(ends, ones, 16, ends);
    ck_assert(float_bits(ends[0]) == 0 && float_bits(ends[1]) == 0x80000000u);
    ck_assert(ends[2] == 40.0f && ends[3] == 0.0f && ends[4] == 3e38f && isinf(ends[5]));
    ck_assert(isnan(ends[6]));
}
END_TEST

/* The lane sums of the contract, without lanes. */
START_TEST(norm_sums_in_the_stated_order)
{
    enum { N = 1040 };
    float x[N], one[N], out[N];
    uint64_t state = 5;
    struct vector_kernels scalar = scalar_kernels();
    noise_fill(x, N, -3.0, 3.0, &state);
    float lane[16] = {0};
    for (int i = 0; i < N; i++) {
        one[i] = 1.0f;
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    }
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    float scale = 1.0f / sqrtf(lane[0] / (float)N + 1e-6f);
    scalar.rms_norm(x, one, 1e-6f, N, out);
    for (int i = 0; i < N; i++)
        hold(float_bits(out[i]) == float_bits(x[i] * scale), (uint32_t)i);
}
END_TEST

struct row {
    uint32_t n;
    float *logits;
    float *weights;
    float *tile_max;
    float *tile_sums;
    uint32_t *ids;
};

static struct row row_new(uint32_t n)
{
    return (struct row){.n = n,
                        .logits = floats(n),
                        .weights = floats(n),
                        .tile_max = floats(logits_tiles(n)),
                        .tile_sums = floats(logits_tiles(n)),
                        .ids = guard_alloc(n * sizeof(uint32_t))};
}

static void row_free(struct row *row)
{
    give(row->logits, row->n);
    give(row->weights, row->n);
    give(row->tile_max, logits_tiles(row->n));
    give(row->tile_sums, logits_tiles(row->n));
    guard_free(row->ids, row->n * sizeof(uint32_t));
}

static void assert_same_rows(const struct row *a, const struct row *b)
{
    ck_assert_mem_eq(a->weights, b->weights, a->n * sizeof(float));
    ck_assert_mem_eq(a->tile_max, b->tile_max, logits_tiles(a->n) * sizeof(float));
    ck_assert_mem_eq(a->tile_sums, b->tile_sums, logits_tiles(a->n) * sizeof(float));
    ck_assert_mem_eq(a->ids, b->ids, a->n * sizeof(uint32_t));
}

static uint32_t read_row(const struct vector_kernels *k, struct row *row, float scale,
                         struct logits_peak *peak, double *total)
{
    k->logits_peak(row->logits, row->n, row->tile_max, peak);
    *total = k->logits_weigh(row->logits, row->n, peak->max, scale, row->weights, row->tile_sums);
    return k->find_at_least(row->logits, row->n, peak->max - 3.0f, row->ids);
}

START_TEST(logits_give_scalar_bits)
{
    struct vector_kernels k;
    struct vector_kernels scalar = scalar_kernels();
    static const float scales[] = {1.0f, 1.0f / 0.7f, 0.25f, 1e6f, 3e38f};
    uint64_t state = 6;
    if (!pick(_i, &k))
        return;
    for (size_t l = 0; l < ARRAY_LEN(row_lengths); l++) {
        struct row a = row_new(row_lengths[l]);
        struct row b = row_new(row_lengths[l]);
        for (int kind = 0; kind < 2; kind++) {
            fill(a.logits, a.n, kind, &state);
            memcpy(b.logits, a.logits, a.n * sizeof(float));
            float scale = scales[noise_below(&state, ARRAY_LEN(scales))];
            struct logits_peak peak_a, peak_b;
            double total_a, total_b;
            uint32_t found_a = read_row(&k, &a, scale, &peak_a, &total_a);
            uint32_t found_b = read_row(&scalar, &b, scale, &peak_b, &total_b);
            ck_assert_uint_eq(found_a, found_b);
            ck_assert_mem_eq(&peak_a, &peak_b, sizeof peak_a);
            ck_assert_mem_eq(&total_a, &total_b, sizeof total_a);
            assert_same_rows(&a, &b);
            k.logits_weigh(a.logits, a.n, peak_a.max, scale, NULL, a.tile_sums);
            assert_same_rows(&a, &b);
        }
        row_free(&a);
        row_free(&b);
    }
}
END_TEST

/* argmax, tile maxima, sums and found ids against loops over the same row. */
static void check_row(const struct vector_kernels *k, struct row *row)
{
    struct logits_peak peak;
    double total;
    uint32_t found = read_row(k, row, 1.0f, &peak, &total);
    uint32_t argmax = 0;
    uint32_t n_found = 0;
    double want = 0.0;
    for (uint32_t i = 1; i < row->n; i++)
        argmax = row->logits[i] > row->logits[argmax] ? i : argmax;
    ck_assert(peak.is_finite);
    ck_assert_uint_eq(peak.argmax, argmax);
    ck_assert_uint_eq(float_bits(peak.max), float_bits(row->logits[argmax]));
    for (uint32_t i = 0; i < row->n; i++) {
        double w = exp((double)(row->logits[i] - peak.max));
        want += w;
        hold(fabs((double)row->weights[i] - w) <= w * 3e-7, i);
        hold(row->tile_max[i / LOGITS_TILE] >= row->logits[i], i);
        if (row->logits[i] >= peak.max - 3.0f)
            hold(row->ids[n_found++] == i, i);
    }
    ck_assert_uint_eq(found, n_found);
    ck_assert_double_le(fabs(total - want), want * 3e-7);
}

START_TEST(logits_are_read_right)
{
    struct vector_kernels k;
    uint64_t state = 7;
    if (!pick(_i, &k))
        return;
    for (size_t l = 0; l < ARRAY_LEN(row_lengths); l++) {
        struct row row = row_new(row_lengths[l]);
        noise_fill(row.logits, row.n, -12.0, 12.0, &state);
        check_row(&k, &row);
        row_free(&row);
    }
}
END_TEST

START_TEST(ties_go_to_the_lowest_id)
{
    struct vector_kernels k;
    float tile_max[8];
    struct logits_peak peak;
    uint64_t state = 8;
    if (!pick(_i, &k))
        return;
    float *z = floats(1100);
    for (int round = 0; round < 300; round++) {
        noise_fill(z, 1100, -1.0, 0.5, &state);
        uint32_t first = noise_below(&state, 1100);
        uint32_t second = noise_below(&state, 1100);
        z[first] = z[second] = 0.75f;
        if (round % 3 == 0) { /* zeros of either sign are equal, and the one found keeps its sign */
            for (int i = 0; i < 1100; i++)
                z[i] = z[i] < 0.0f ? z[i] : -z[i] - 0.1f;
            z[first] = 0.0f;
            z[second] = -0.0f;
        }
        k.logits_peak(z, 1100, tile_max, &peak);
        ck_assert_uint_eq(peak.argmax, first < second ? first : second);
        ck_assert_uint_eq(float_bits(peak.max), float_bits(z[peak.argmax]));
    }
    give(z, 1100);
}
END_TEST

START_TEST(nan_and_infinity_are_seen_anywhere)
{
    struct vector_kernels k;
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u};
    enum { N = 613 };
    float tile_max[4];
    struct logits_peak peak;
    uint64_t state = 9;
    if (!pick(_i, &k))
        return;
    float *z = floats(N);
    fill_with_edges(z, N, &state);
    for (uint32_t at = 0; at < N; at++) {
        float kept = z[at];
        k.logits_peak(z, N, tile_max, &peak);
        ck_assert(peak.is_finite);
        for (size_t b = 0; b < ARRAY_LEN(bad); b++) {
            memcpy(&z[at], &bad[b], sizeof z[at]);
            k.logits_peak(z, N, tile_max, &peak);
            ck_assert(!peak.is_finite);
        }
        z[at] = kept;
    }
    give(z, N);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vector");
    TCase *tcase = tcase_create("vector");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, norm_sums_in_the_stated_order);
    tcase_add_loop_test(tcase, rotations_are_the_contract, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, rows_are_near_double, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, gelu_is_near_double, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, logits_are_read_right, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, ties_go_to_the_lowest_id, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, nan_and_infinity_are_seen_anywhere, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, rows_give_scalar_bits, ISA_SCALAR + 1, ISA_COUNT);
    tcase_add_loop_test(tcase, rotations_give_scalar_bits, ISA_SCALAR + 1, ISA_COUNT);
    tcase_add_loop_test(tcase, logits_give_scalar_bits, ISA_SCALAR + 1, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
