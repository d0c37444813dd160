/* lanes_test.c: the sixteen-lane vector: the same bits from every instruction set, and exp against double.
 *
 * HOW     Scalar is the definition; each other set of this machine is compared with it over all halves, over edges in every
 *         combination, over random floats, and over exp's arguments spread across all floats.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kernels/cpu_features.h"
#include "kernels/half.h"
#include "kernels/kernel.h"
#include "tests/kernels/lanes_probe.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

/* Strides are primes, so that every pattern of low bits comes up. */
enum { HALVES = 0x10000, RANDOM_ROUNDS = 20000, EXP_STRIDE = 1031, HALF_STRIDE = 4093 };

static const uint32_t edges[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x33000000,
    0x33000001, 0x387fe000, 0x38800000, 0x3f800000, 0xbf800000, 0x3f800001, 0x477fefff,
    0x477ff000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x42b0999a,
    0x42b0c0a5, 0xc2ae0000, 0xc2ae0001, 0xc2aeac4f, 0xc2cff1b5,
};

static const struct lanes_probe *const want = &lanes_probe__scalar;

/* NULL if this machine does not have the set. */
static const struct lanes_probe *probe_of(int isa)
{
    if ((isa_available() >> isa & 1u) == 0)
        return NULL;
#if KERNELS_X86
    if (isa == ISA_AVX2)
        return &lanes_probe__avx2;
    if (isa == ISA_AVX512)
        return &lanes_probe__avx512;
#elif KERNELS_ARM
    if (isa == ISA_NEON)
        return &lanes_probe__neon;
#endif
    return isa == ISA_SCALAR ? want : NULL;
}

static bool same_bits(float a, float b)
{
    return float_bits(a) == float_bits(b) || (isnan(a) && isnan(b));
}

/* Check writes a record for each assertion it passes, so inner loops test first and assert only what is wrong. */
static void assert_same(const float *got, const float *expected, const char *op, const float *a,
                        const float *b)
{
    for (int i = 0; i < LANES; i++)
        if (!same_bits(got[i], expected[i]))
            ck_abort_msg("%s(%a, %a) is %a, not %a", op, (double)a[i], b != NULL ? (double)b[i] : 0,
                         (double)got[i], (double)expected[i]);
}

static void assert_halves(const float *x, const uint16_t *got)
{
    for (int i = 0; i < LANES; i++)
        if (got[i] != half_from_float(x[i]))
            ck_abort_msg("%a is stored as %x, not %x", (double)x[i], got[i], half_from_float(x[i]));
}

/* All operations on one set of arguments. */
static void compare_all(const struct lanes_probe *p, const float *a, const float *b, const float *c)
{
    float x[LANES], y[LANES];
#define COMPARE_2(op)                                                                              \
    p->op(a, b, x);                                                                                \
    want->op(a, b, y);                                                                             \
    assert_same(x, y, #op, a, b)
    COMPARE_2(add);
    COMPARE_2(sub);
    COMPARE_2(mul);
    COMPARE_2(div);
    COMPARE_2(max);
    p->fma(a, b, c, x);
    want->fma(a, b, c, y);
    assert_same(x, y, "fma", a, b);
    p->sqrt(a, x);
    want->sqrt(a, y);
    assert_same(x, y, "sqrt", a, NULL);
    p->exp(a, x);
    want->exp(a, y);
    assert_same(x, y, "exp", a, NULL);
    if (p->any_gt(a, b) != want->any_gt(a, b) || !same_bits(p->fold_add(a), want->fold_add(a)))
        ck_abort_msg("any_gt or fold_add differs");
    bool nan = false, zero = false;
    for (int i = 0; i < LANES; i++) {
        nan |= isnan(a[i]);
        zero |= a[i] == 0;
    }
    /* the header promises no order for NaN; zeros of two signs are equal */
    if (!nan && !zero && !same_bits(p->fold_max(a), want->fold_max(a)))
        ck_abort_msg("fold_max differs");
}

START_TEST(halves_load_and_store_as_in_half_h)
{
    const struct lanes_probe *p = probe_of(_i);
    uint16_t halves[LANES], back[LANES];
    float x[LANES], y[LANES];
    float want_f16[LANES], want_bf16[LANES];
    for (uint32_t h = 0; p != NULL && h < HALVES; h += LANES) {
        for (uint32_t i = 0; i < LANES; i++)
            halves[i] = (uint16_t)(h + i);
        for (int i = 0; i < LANES; i++) {
            want_f16[i] = half_to_float(halves[i]);
            want_bf16[i] = bf16_to_float(halves[i]);
        }
        p->load_f16(halves, x);
        p->load_bf16(halves, y);
        ck_assert_mem_eq(x, want_f16, sizeof x); /* the bits of a NaN too */
        ck_assert_mem_eq(y, want_bf16, sizeof y);
        p->store_f16(x, back);
        assert_halves(x, back);
    }
}
END_TEST

START_TEST(floats_round_to_halves_as_in_half_h)
{
    const struct lanes_probe *p = probe_of(_i);
    float x[LANES];
    uint16_t halves[LANES];
    for (uint64_t bits = 0; p != NULL && bits < (uint64_t)1 << 32; bits += LANES * HALF_STRIDE) {
        for (uint32_t i = 0; i < LANES; i++)
            x[i] = float_from_bits((uint32_t)bits + i * HALF_STRIDE);
        p->store_f16(x, halves);
        assert_halves(x, halves);
    }
}
END_TEST

START_TEST(edges_agree_in_every_combination)
{
    const struct lanes_probe *p = probe_of(_i);
    float a[LANES], b[LANES], c[LANES];
    for (size_t i = 0; p != NULL && i < ARRAY_LEN(edges); i++)
        for (size_t j = 0; j < ARRAY_LEN(edges); j++) {
            for (size_t l = 0; l < LANES; l++) {
                a[l] = float_from_bits(edges[i]);
                b[l] = float_from_bits(edges[j]);
                c[l] = float_from_bits(edges[(i + j + l) % ARRAY_LEN(edges)]);
            }
            compare_all(p, a, b, c);
            compare_all(p, c, a, b);
        }
}
END_TEST

START_TEST(random_floats_agree)
{
    const struct lanes_probe *p = probe_of(_i);
    uint64_t seed = test_seed();
    float v[3][LANES];
    for (int round = 0; p != NULL && round < RANDOM_ROUNDS; round++) {
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < LANES; i++)
                v[k][i] = round % 2 == 0 ? float_from_bits((uint32_t)noise_next(&seed))
                                         : (float)noise_between(-90, 90, &seed);
        compare_all(p, v[0], v[1], v[2]);
    }
}
END_TEST

START_TEST(keep_cuts_at_every_lane)
{
    const struct lanes_probe *p = probe_of(_i);
    float a[LANES], x[LANES];
    for (int i = 0; i < LANES; i++)
        a[i] = (float)i + 0.5f;
    for (int n = -3; p != NULL && n <= 20; n++) {
        p->keep(a, n, x);
        for (int i = 0; i < LANES; i++)
            ck_assert(x[i] == (i < n ? a[i] : -INFINITY));
    }
}
END_TEST

/* Arguments spread over all floats; what lanes.h promises of exp, and scalar's bits. */
START_TEST(exp_is_as_near_as_promised)
{
    const struct lanes_probe *p = probe_of(_i);
    float a[LANES], x[LANES], y[LANES];
    double worst = 0;
    for (uint64_t bits = 0; p != NULL && bits < (uint64_t)1 << 32; bits += LANES * EXP_STRIDE) {
        for (uint32_t i = 0; i < LANES; i++)
            a[i] = float_from_bits((uint32_t)bits + i * EXP_STRIDE);
        p->exp(a, x);
        want->exp(a, y);
        assert_same(x, y, "exp", a, NULL);
        for (int i = 0; i < LANES; i++) {
            bool ok = isnan(a[i])     ? isnan(x[i])
                      : a[i] < -87.0f ? float_bits(x[i]) == 0
                      : a[i] > 88.3f  ? x[i] == INFINITY
                                      : isfinite(x[i]);
            if (!ok)
                ck_abort_msg("exp(%a) is %a", (double)a[i], (double)x[i]);
            if (a[i] >= -87.0f && a[i] <= 88.3f)
                worst = fmax(worst, fabs((double)x[i] / exp((double)a[i]) - 1));
        }
    }
    ck_assert_double_lt(worst, 1.2e-7);
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *c = tcase_create("lanes");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, halves_load_and_store_as_in_half_h, 0, ISA_COUNT);
    tcase_add_loop_test(c, floats_round_to_halves_as_in_half_h, 0, ISA_COUNT);
    tcase_add_loop_test(c, keep_cuts_at_every_lane, 0, ISA_COUNT);
    tcase_add_loop_test(c, edges_agree_in_every_combination, 0, ISA_COUNT);
    tcase_add_loop_test(c, random_floats_agree, 0, ISA_COUNT);
    tcase_add_loop_test(c, exp_is_as_near_as_promised, 0, ISA_COUNT);
    Suite *s = suite_create("lanes");
    suite_add_tcase(s, c);
    return suite_run(s);
}
