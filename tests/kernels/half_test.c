/* half_test.c: half precision and bfloat16 in plain C, over all 65,536 values and the points where rounding turns.
 *
 * HOW     The value of a half is written down from the format's definition in double; rounding is checked at each midpoint
 *         between neighbours and one float to either side. (Check writes a record for each assertion passed: the loops assert
 *         only what is wrong.)
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "config/base.h"
#include "kernels/half.h"
#include "tests/support/suite_run.h"

enum { HALVES = 0x10000, INFINITE = 0x7c00 };

static bool is_nan_half(uint32_t h)
{
    return (h & 0x7fffu) > INFINITE;
}

static double half_value(uint32_t h)
{
    int exponent = (int)(h >> 10 & 31u);
    double fraction = h & 0x3ffu;
    double magnitude = exponent == 31  ? (double)INFINITY
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return (h & 0x8000u) != 0 ? -magnitude : magnitude;
}

START_TEST(every_half_has_its_value_and_comes_back)
{
    for (uint32_t h = 0; h < HALVES; h++) {
        float x = half_to_float((uint16_t)h);
        /* a NaN becomes quiet and keeps sign and payload */
        bool ok = is_nan_half(h) ? isnan(x) && half_from_float(x) == (h | 0x200u)
                                 : float_bits(x) == float_bits((float)half_value(h)) &&
                                       half_from_float(x) == h;
        if (!ok)
            ck_abort_msg("half %x is %a", h, (double)x);
    }
}
END_TEST

START_TEST(rounding_is_to_nearest_even)
{
    for (uint32_t h = 0; h < INFINITE; h++) {
        double next =
            h + 1 == INFINITE ? 65536.0 : half_value(h + 1); /* where the next value would be */
        float middle = (float)((half_value(h) + next) / 2);
        uint32_t even = h % 2 == 0 ? h : h + 1;
        bool ok = half_from_float(middle) == even && half_from_float(nextafterf(middle, 0)) == h &&
                  half_from_float(nextafterf(middle, INFINITY)) == h + 1 &&
                  half_from_float(-middle) == (even | 0x8000u);
        if (!ok)
            ck_abort_msg("the midpoint above half %x rounds wrong", h);
    }
    ck_assert_uint_eq(half_from_float(INFINITY), INFINITE);
    ck_assert_uint_eq(half_from_float(-3.0e38f), INFINITE | 0x8000u);
    ck_assert_uint_eq(half_from_float(0x1p-149f), 0);
}
END_TEST

START_TEST(bfloat16_is_the_top_of_a_float)
{
    for (uint32_t h = 0; h < HALVES; h++)
        if (float_bits(bf16_to_float((uint16_t)h)) != h << 16)
            ck_abort_msg("bfloat16 %x", h);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("half");
    tcase_set_timeout(c, 20);
    tcase_add_test(c, bfloat16_is_the_top_of_a_float);
    tcase_add_test(c, every_half_has_its_value_and_comes_back);
    tcase_add_test(c, rounding_is_to_nearest_even);
    Suite *s = suite_create("half");
    suite_add_tcase(s, c);
    return suite_run(s);
}
