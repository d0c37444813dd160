/* philox_test.c: the known answers of the generator's authors, and what a uniform number is made
 * of. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/philox.h"

#include "config/base.h"
#include "tests/support/suite_run.h"

/* Random123's known answers for philox4x32 with 10 rounds: nothing, everything, digits of pi. */
static const struct known {
    uint32_t counter[4];
    uint64_t key;
    uint32_t want[4];
} known[] = {
    {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     0xffffffffffffffff,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(gives_the_known_answers)
{
    struct philox_block counter;
    memcpy(counter.word, known[_i].counter, sizeof counter.word);
    struct philox_block got = philox(counter, known[_i].key);
    ck_assert_mem_eq(got.word, known[_i].want, sizeof got.word);
}
END_TEST

START_TEST(uniform_is_the_top_53_bits)
{
    /* 0xe169c58d6627e8d5 >> 11, as a fraction of 2^53 */
    ck_assert(philox_uniform(0, 0, 0) == (double)(0xe169c58d6627e8d5u >> 11) / 9007199254740992.0);
}
END_TEST

START_TEST(seed_choice_and_position_all_count)
{
    double base = philox_uniform(1, 2, 3);
    ck_assert(base == philox_uniform(1, 2, 3));
    ck_assert(base != philox_uniform(1 + (1ull << 32), 2, 3));
    ck_assert(base != philox_uniform(2, 2, 3));
    ck_assert(base != philox_uniform(1, 3, 2));
    ck_assert(base != philox_uniform(1, 2, 4));
    ck_assert(base != philox_uniform(1, 1, 3));
}
END_TEST

START_TEST(uniform_is_spread)
{
    enum { N = 100000, BINS = 20 };
    int count[BINS] = {0};
    for (uint32_t i = 0; i < N; i++)
        count[(int)(philox_uniform(42, 0, i) * BINS)]++;
    double chi2 = 0.0;
    for (int b = 0; b < BINS; b++)
        chi2 += (count[b] - N / BINS) * (double)(count[b] - N / BINS) / (N / BINS);
    ck_assert_double_lt(
        chi2, 43.8); /* 19 degrees of freedom: one in a thousand is worse, and the seed is fixed */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("philox");
    TCase *tcase = tcase_create("philox");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, gives_the_known_answers, 0, ARRAY_LEN(known));
    tcase_add_test(tcase, uniform_is_the_top_53_bits);
    tcase_add_test(tcase, seed_choice_and_position_all_count);
    tcase_add_test(tcase, uniform_is_spread);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
