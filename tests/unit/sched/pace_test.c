/* pace_test.c: the prompt budget follows what steps took, and never leaves its bounds. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pace.h"

#include "tests/support/suite_run.h"

START_TEST(whole_chunk_when_nothing_decodes)
{
    struct pace pace = {0};
    ck_assert_uint_eq(pace_prefill_rows(&pace, 0, 512), 512);
}
END_TEST

START_TEST(little_before_anything_is_known)
{
    struct pace pace = {0};
    ck_assert_uint_eq(pace_prefill_rows(&pace, 1, 512), 8);
    ck_assert_uint_eq(pace_prefill_rows(&pace, 1, 4), 4);
}
END_TEST

/* 5 ms a decode step and 0.5 ms a prompt row: two decode steps' worth of rows may be added. */
START_TEST(budget_stretches_a_step_threefold)
{
    struct pace pace = {0};
    for (int i = 0; i < 100; i++) {
        pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
        pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 40}, 25000000);
    }
    ck_assert_uint_eq(pace_prefill_rows(&pace, 3, 512), 20);
    ck_assert_uint_eq(pace_prefill_rows(&pace, 3, 10), 10);
}
END_TEST

START_TEST(a_few_rows_teach_nothing_about_a_row)
{
    struct pace pace = {0};
    pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 2}, 9000000);
    ck_assert_double_eq(pace.row_ns, 0.0);
    ck_assert_double_eq(pace.decode_ns, 0.0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace");
    TCase *tc = tcase_create("pace");
    tcase_add_test(tc, whole_chunk_when_nothing_decodes);
    tcase_add_test(tc, little_before_anything_is_known);
    tcase_add_test(tc, budget_stretches_a_step_threefold);
    tcase_add_test(tc, a_few_rows_teach_nothing_about_a_row);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
