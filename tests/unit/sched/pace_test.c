/* pace_test.c: the prompt budget follows what steps took, and never leaves its bounds. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pace.h"

#include <math.h>

#include "tests/support/suite_run.h"

enum { DOUBLING = 800 };

static struct pace fresh(void)
{
    struct pace pace;
    pace_init(&pace, DOUBLING);
    return pace;
}

START_TEST(no_bound_when_nothing_decodes)
{
    struct pace pace = fresh();
    ck_assert(isinf(pace_budget_units(&pace, 0)));
    ck_assert_uint_eq(pace_rows(&pace, INFINITY, 0, 512), 512);
}
END_TEST

START_TEST(the_first_step_beside_decoders_is_theirs)
{
    struct pace pace = fresh();
    ck_assert_double_eq(pace_budget_units(&pace, 1), 0.0);
    pace_observe(&pace, (struct pace_step){.decode_rows = 1}, 3000000);
    ck_assert_double_gt(pace_budget_units(&pace, 1), 0.0);
}
END_TEST

/* 5 ms a decode step and 0.5 ms a unit: 2.3 decode steps' worth of units may be added. */
START_TEST(the_budget_stretches_a_step)
{
    struct pace pace = fresh();
    for (int i = 0; i < 100; i++) {
        pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
        pace_observe(&pace,
                     (struct pace_step){.decode_rows = 3, .prefill_rows = 20, .prefill_units = 40},
                     25000000);
    }
    ck_assert_double_eq_tol(pace_budget_units(&pace, 3), 23.0, 0.01);
}
END_TEST

START_TEST(rows_deep_in_a_context_cost_more)
{
    struct pace pace = fresh();
    ck_assert_uint_eq(pace_rows(&pace, 40.0, 0, 512), 40);
    ck_assert_uint_eq(pace_rows(&pace, 40.0, DOUBLING, 512), 20);
    ck_assert_uint_eq(pace_rows(&pace, 40.0, 3 * DOUBLING, 512), 10);
    ck_assert_uint_eq(pace_rows(&pace, 40.0, 0, 16), 16);
    ck_assert_uint_eq(pace_rows(&pace, 0.5, 1000000, 16), 1);
}
END_TEST

START_TEST(a_long_mixed_stretch_is_broken_to_look)
{
    struct pace pace = fresh();
    pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
    struct pace_step mixed = {.decode_rows = 3, .prefill_rows = 10, .prefill_units = 10};
    uint32_t n = 0;
    while (pace_budget_units(&pace, 3) > 0.0 && n < 1000) {
        pace_observe(&pace, mixed, 10000000);
        n++;
    }
    ck_assert_uint_eq(n, 32);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
    ck_assert_double_gt(pace_budget_units(&pace, 3), 0.0);
}
END_TEST

/* Deep in a context every mixed step has few rows: what they say must still be heard, a little at a time. */
START_TEST(a_few_rows_teach_slowly)
{
    struct pace few = fresh(), many = fresh();
    for (int i = 0; i < 2; i++) {
        struct pace *pace = i == 0 ? &few : &many;
        uint32_t rows = i == 0 ? 2 : 20;
        struct pace_step step = {
            .decode_rows = 3, .prefill_rows = rows, .prefill_units = 2.0 * rows};
        pace_observe(pace, (struct pace_step){.decode_rows = 3}, 5000000);
        pace_observe(pace, step, 5000000 + (uint64_t)rows * 2000000);
        ck_assert_double_eq_tol(pace->unit_ns, 1e6, 1.0);
        pace_observe(pace, step, 5000000 + (uint64_t)rows * 4000000);
    }
    ck_assert_double_gt(few.unit_ns, 1e6);
    ck_assert_double_gt(many.unit_ns, few.unit_ns);
}
END_TEST

START_TEST(short_prompts_alone_and_unknown_decoders_teach_nothing)
{
    struct pace pace = fresh();
    pace_observe(&pace, (struct pace_step){.prefill_rows = 10, .prefill_units = 10}, 90000000);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 9, .prefill_units = 9},
                 9000000);
    ck_assert_double_eq(pace.alone_ns, 0.0);
    ck_assert_double_eq(pace.unit_ns, 0.0);
}
END_TEST

/* A step that happened to be quick must not open the door to a whole chunk. */
START_TEST(a_unit_costs_no_less_than_alone)
{
    struct pace pace = fresh();
    pace_observe(&pace, (struct pace_step){.prefill_rows = 500, .prefill_units = 600}, 300000000);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 4, .prefill_units = 4},
                 5000100);
    ck_assert_double_eq_tol(pace_budget_units(&pace, 3), 23.0, 0.01);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace");
    TCase *tc = tcase_create("pace");
    tcase_add_test(tc, no_bound_when_nothing_decodes);
    tcase_add_test(tc, the_first_step_beside_decoders_is_theirs);
    tcase_add_test(tc, the_budget_stretches_a_step);
    tcase_add_test(tc, rows_deep_in_a_context_cost_more);
    tcase_add_test(tc, a_long_mixed_stretch_is_broken_to_look);
    tcase_add_test(tc, a_few_rows_teach_slowly);
    tcase_add_test(tc, short_prompts_alone_and_unknown_decoders_teach_nothing);
    tcase_add_test(tc, a_unit_costs_no_less_than_alone);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
