/* sequential_test_test.c: the promise of each test at the edge of its hypothesis, looked at all the
 * time, and that it finds what there is to find. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/sequential_test.h"

#include <inttypes.h>
#include <math.h>

#include "sched/philox.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

/* False rejections at alpha = 5 % over RUNS runs: 15 expected at most, 36 is beyond five standard
 * deviations of that. */
enum { RUNS = 300, REJECTED_MOST = 36, LOOKS = 24, TRIALS_A_LOOK = 100 };
static const double needed = 2.995732; /* log 20 */

static uint32_t at;

static double draw(void)
{
    return philox_uniform(test_seed(), 7, at++);
}

static uint64_t hits(uint64_t n, double chance)
{
    uint64_t k = 0;
    for (uint64_t i = 0; i < n; i++)
        k += draw() < chance;
    return k;
}

/* What each reading makes of two arms at its hypothesis' edge. */
static double read_edge(int test, struct trials a, struct trials b)
{
    const struct sequential_line line = {0.9, 0.02};
    switch (test) {
    case 0:
        return sequential_above(a, 0.065);
    case 1:
        return sequential_below(a, 0.065);
    case 2:
        return sequential_over_line(a, b, line);
    default:
        return sequential_under_line(a, b, line);
    }
}

START_TEST(false_rejections_keep_to_alpha_at_every_look)
{
    int n_rejected = 0;
    for (int run = 0; run < RUNS; run++) {
        struct trials a = {0, 0}, b = {0, 0};
        bool is_rejected = false;
        for (int look = 0; look < LOOKS && !is_rejected; look++) {
            a.n += TRIALS_A_LOOK;
            b.n += TRIALS_A_LOOK;
            a.n_hits += hits(TRIALS_A_LOOK, 0.065); /* 0.9 * 0.05 + 0.02 */
            b.n_hits += hits(TRIALS_A_LOOK, 0.05);
            is_rejected = read_edge(_i, a, b) >= needed;
        }
        n_rejected += is_rejected;
    }
    printf("test %d: %d of %d rejected at the edge\n", _i, n_rejected, RUNS);
    ck_assert_int_le(n_rejected, REJECTED_MOST);
}
END_TEST

static double log_binomial(struct trials t, double p)
{
    double n = (double)t.n, k = (double)t.n_hits;
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p);
}

/* The mean of E over every outcome, not drawn but summed: 1 at the edge, less inside the hypothesis. */
START_TEST(the_mean_is_one_at_the_edge)
{
    static const uint64_t sizes[] = {1, 2, 17, 100, 1000};
    static const double chances[] = {0.001, 0.01, 0.3, 0.95};
    double p = chances[_i];
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        double at_edge[2] = {0}, inside[2] = {0};
        for (struct trials t = {0, sizes[s]}; t.n_hits <= t.n; t.n_hits++) {
            double above = sequential_above(t, p), below = sequential_below(t, p);
            at_edge[0] += exp(log_binomial(t, p) + above);
            at_edge[1] += exp(log_binomial(t, p) + below);
            inside[0] += exp(log_binomial(t, 0.9 * p) + above);
            inside[1] += exp(log_binomial(t, 1.0 - 0.9 * (1.0 - p)) + below);
        }
        for (int side = 0; side < 2; side++) {
            ck_assert_double_eq_tol(at_edge[side], 1.0, 1e-7);
            ck_assert_double_lt(inside[side], 1.0);
        }
    }
}
END_TEST

/* Two arms on the line: over every pair of outcomes the chance of E >= 1/alpha is at most alpha. */
START_TEST(pairs_keep_to_alpha_exactly)
{
    static const double alphas[] = {0.5, 0.2, 0.05, 0.01};
    const struct sequential_line line = {0.9, 0.02};
    const double b_chance = 0.2, a_chance = 0.9 * b_chance + 0.02;
    double over[4] = {0}, under[4] = {0};
    for (struct trials a = {0, 60}; a.n_hits <= a.n; a.n_hits++) {
        for (struct trials b = {0, 40}; b.n_hits <= b.n; b.n_hits++) {
            double chance = exp(log_binomial(a, a_chance) + log_binomial(b, b_chance));
            for (size_t i = 0; i < ARRAY_LEN(alphas); i++) {
                over[i] += sequential_over_line(a, b, line) >= -log(alphas[i]) ? chance : 0.0;
                under[i] += sequential_under_line(a, b, line) >= -log(alphas[i]) ? chance : 0.0;
            }
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(alphas); i++) {
        ck_assert_double_le(over[i], alphas[i]);
        ck_assert_double_le(under[i], alphas[i]);
    }
    ck_assert_double_gt(over[0], 0.0);
    ck_assert_double_gt(under[0], 0.0);
}
END_TEST

static uint64_t latency(double stretch)
{
    double radius = sqrt(-2.0 * log(draw() + 0x1p-54));
    return (uint64_t)(1e7 * stretch * exp(0.25 * radius * cos(2.0 * M_PI * draw())));
}

/* Two distributions of different shape, each hardly inside the hypothesis: 1 % of a lies above, and
 * just over 1 % of b; then just over 1 % of a, and just under 1 % of b. */
START_TEST(tails_keep_to_alpha_whatever_the_shape)
{
    static struct latency_sketch a, b;
    int n_rejected = 0;
    for (int run = 0; run < RUNS; run++) {
        bool is_rejected = false;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        for (int look = 0; look < LOOKS && !is_rejected; look++) {
            for (int i = 0; i < TRIALS_A_LOOK; i++) {
                latency_sketch_add(&a, draw() < (_i == 0 ? 0.99 : 0.9895) ? 1000000 : 12000000);
                latency_sketch_add(&b, draw() < (_i == 0 ? 0.9895 : 0.9905) ? 9000000 : 10000000);
            }
            double e = _i == 0 ? sequential_p99_over(&a, &b, 1200000)
                               : sequential_p99_under(&a, &b, 1200000);
            is_rejected = e >= needed;
        }
        n_rejected += is_rejected;
    }
    printf("tail %d: %d of %d rejected at the edge\n", _i, n_rejected, RUNS);
    ck_assert_int_le(n_rejected, REJECTED_MOST);
}
END_TEST

START_TEST(tails_are_told_apart)
{
    static struct latency_sketch slow, same, control;
    for (int i = 0; i < 5000; i++) {
        latency_sketch_add(&slow, latency(1.5));
        latency_sketch_add(&same, latency(1.0));
        latency_sketch_add(&control, latency(1.0));
    }
    ck_assert_double_ge(sequential_p99_over(&slow, &control, 1150000), 10.0);
    ck_assert_double_eq(sequential_p99_under(&slow, &control, 1150000), 0.0);
    ck_assert_double_ge(sequential_p99_under(&same, &control, 1150000), needed);
    ck_assert_double_eq(sequential_p99_over(&same, &control, 1150000), 0.0);
}
END_TEST

START_TEST(rates_are_told_apart)
{
    const struct sequential_line line = {1.0, 0.005};
    struct trials stable = {1000, 1000000}, bad = {50, 1000}, good = {5, 5000};
    ck_assert_double_ge(sequential_over_line(bad, stable, line), 20.0);
    ck_assert_double_eq(sequential_under_line(bad, stable, line), 0.0);
    ck_assert_double_ge(sequential_under_line(good, stable, line), needed);
    ck_assert_double_eq(sequential_over_line(good, stable, line), 0.0);
}
END_TEST

/* The search over cells against every cell in turn. */
START_TEST(the_search_finds_the_least)
{
    for (int i = 0; i < 200; i++) {
        struct trials a = {hits(200, draw()), 200}, b = {hits(300, draw()), 300};
        double least = SEQUENTIAL_ENOUGH;
        for (uint32_t cell = 1; cell < 20000; cell++) {
            double p = cell / 20000.0;
            least = fmin(least, sequential_above(a, 0.9 * p + 0.02) + sequential_below(b, p));
        }
        double found = sequential_over_line(a, b, (struct sequential_line){0.9, 0.02});
        ck_assert_double_le(found, fmax(0.0, least) + 1e-9);
        ck_assert_double_ge(found, fmax(0.0, least - 1.0) * 0.9);
    }
}
END_TEST

START_TEST(nothing_seen_is_no_evidence)
{
    static const struct latency_sketch none;
    struct trials no = {0, 0};
    const struct sequential_line line = {1.0, 0.0};
    ck_assert_double_eq(sequential_above(no, 0.5), 0.0);
    ck_assert_double_eq(sequential_below(no, 0.5), 0.0);
    ck_assert_double_eq(sequential_over_line(no, no, line), 0.0);
    ck_assert_double_eq(sequential_p99_under(&none, &none, 1100000), 0.0);
}
END_TEST

int main(void)
{
    printf("FOLDKV_TEST_SEED=%" PRIu64 "\n", test_seed());
    Suite *suite = suite_create("sequential_test");
    TCase *tc = tcase_create("sequential_test");
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, false_rejections_keep_to_alpha_at_every_look, 0, 4);
    tcase_add_loop_test(tc, the_mean_is_one_at_the_edge, 0, 4);
    tcase_add_test(tc, pairs_keep_to_alpha_exactly);
    tcase_add_loop_test(tc, tails_keep_to_alpha_whatever_the_shape, 0, 2);
    tcase_add_test(tc, tails_are_told_apart);
    tcase_add_test(tc, rates_are_told_apart);
    tcase_add_test(tc, the_search_finds_the_least);
    tcase_add_test(tc, nothing_seen_is_no_evidence);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
