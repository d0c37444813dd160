/* elementary_test.c: the double-precision functions against the long double ones of libm, in units
 * in the last place. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementary.h"

#include <float.h>
#include <math.h>

#include "config/base.h"
#include "tests/support/noise.h"
#include "tests/support/suite_run.h"

enum { N_POINTS = 200000 };

/* |got - want| in the distance between doubles at want. */
static double ulps(double got, long double want)
{
    int exponent;
    (void)frexpl(want, &exponent);
    int step = exponent - DBL_MANT_DIG;
    return (double)fabsl(ldexpl((long double)got - want, -step));
}

/* An assertion that holds is a write to a pipe; so the loops look first and speak only when there
 * is something to say. */
static void hold(double error, const char *name, double x)
{
    if (!(error < 2.0))
        ck_abort_msg("%s(%a) is off by %g units in the last place", name, x, error);
}

static void assert_exp(double x)
{
    hold(ulps(elementary_exp(x), expl((long double)x)), "exp", x);
}

static void assert_log(double x)
{
    hold(ulps(elementary_log(x), logl((long double)x)), "log", x);
}

static void assert_sincos(double x)
{
    double sine, cosine;
    elementary_sincos(x, &sine, &cosine);
    hold(ulps(sine, sinl((long double)x)), "sine", x);
    hold(ulps(cosine, cosl((long double)x)), "cosine", x);
}

START_TEST(exp_is_near)
{
    uint64_t state = 1;
    for (int i = 0; i < N_POINTS; i++) {
        assert_exp(noise_between(-700.0, 700.0, &state));
        assert_exp(noise_between(-1.0, 1.0, &state));
        assert_exp(ldexp(noise_between(-1.0, 1.0, &state), -(int)noise_below(&state, 60)));
    }
    for (int n = -1009; n <= 1009; n++) { /* where the reduction changes over */
        double edge = ((double)n + 0.5) * 0x1.62e42fefa39efp-1;
        assert_exp(edge);
        assert_exp(nextafter(edge, 1000.0));
        assert_exp(nextafter(edge, -1000.0));
    }
}
END_TEST

START_TEST(exp_ends)
{
    ck_assert(elementary_exp(0.0) == 1.0);
    ck_assert(elementary_exp(-0.0) == 1.0);
    assert_exp(700.0);
    assert_exp(-700.0);
    ck_assert(elementary_exp(nextafter(700.0, 800.0)) == (double)INFINITY);
    ck_assert(elementary_exp(nextafter(-700.0, -800.0)) == 0.0);
    ck_assert(elementary_exp((double)INFINITY) == (double)INFINITY);
    ck_assert(elementary_exp((double)-INFINITY) == 0.0);
    ck_assert(isnan(elementary_exp((double)NAN)));
}
END_TEST

START_TEST(log_is_near)
{
    uint64_t state = 2;
    for (int i = 0; i < N_POINTS; i++) {
        assert_log(noise_between(0.5, 2.0, &state));
        assert_log(noise_between(1.0, 200000.0, &state));
        assert_log(1.0 +
                   ldexp(noise_between(-1.0, 1.0, &state), -(int)noise_below(&state, 50) - 1));
        assert_log(ldexp(noise_between(1.0, 2.0, &state), (int)noise_below(&state, 2045) - 1022));
    }
}
END_TEST

START_TEST(log_ends)
{
    ck_assert(elementary_log(1.0) == 0.0);
    assert_log(DBL_MIN);
    assert_log(DBL_MAX);
    assert_log(nextafter(1.0, 2.0));
    assert_log(nextafter(1.0, 0.0));
    assert_log(0x1.6a09e667f3bcdp+0);
    assert_log(nextafter(0x1.6a09e667f3bcdp+0, 2.0));
}
END_TEST

START_TEST(sincos_is_near)
{
    uint64_t state = 3;
    for (int i = 0; i < N_POINTS; i++) {
        assert_sincos(noise_between(-0x1p21, 0x1p21, &state));
        assert_sincos(noise_between(-10.0, 10.0, &state));
        assert_sincos(ldexp(noise_between(-1.0, 1.0, &state), 21 - (int)noise_below(&state, 80)));
    }
}
END_TEST

/* The doubles next to multiples of pi / 2 are those that cancel most. */
START_TEST(sincos_is_near_where_it_cancels)
{
    for (int n = 1; n < 1335000; n += n < 4000 ? 1 : 97) {
        double x = (double)((long double)n * 1.57079632679489661923132169163975144L);
        assert_sincos(x);
        assert_sincos(-nextafter(x, 0.0));
        assert_sincos(nextafter(x, 3e6));
    }
}
END_TEST

START_TEST(sincos_ends)
{
    double sine, cosine;
    elementary_sincos(0.0, &sine, &cosine);
    ck_assert(sine == 0.0 && cosine == 1.0);
    elementary_sincos(1e-300, &sine, &cosine);
    ck_assert(sine == 1e-300 && cosine == 1.0);
    assert_sincos(0x1p21);
    assert_sincos(-0x1p21);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elementary");
    TCase *tcase = tcase_create("elementary");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, exp_ends);
    tcase_add_test(tcase, exp_is_near);
    tcase_add_test(tcase, log_ends);
    tcase_add_test(tcase, log_is_near);
    tcase_add_test(tcase, sincos_ends);
    tcase_add_test(tcase, sincos_is_near);
    tcase_add_test(tcase, sincos_is_near_where_it_cancels);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
