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

/* Of a pass that is the only one. */
static double budget(const struct pace *pace, uint32_t decode_rows)
{
    static const struct pace_company none;
    return pace_budget_units(pace, decode_rows, &none);
}

START_TEST(no_bound_when_nothing_decodes)
{
    struct pace pace = fresh();
    ck_assert(isinf(budget(&pace, 0)));
    ck_assert_uint_eq(pace_rows(&pace, INFINITY, 0, 512), 512);
}
END_TEST

START_TEST(the_first_step_beside_decoders_is_theirs)
{
    struct pace pace = fresh();
    ck_assert_double_eq(budget(&pace, 1), 0.0);
    pace_observe(&pace, (struct pace_step){.decode_rows = 1}, 3000000);
    ck_assert_double_gt(budget(&pace, 1), 0.0);
}
END_TEST

/* 5 ms a decode step and 0.5 ms a unit: 1.9 decode steps' worth of units may be added. */
START_TEST(the_budget_stretches_a_step)
{
    struct pace pace = fresh();
    for (int i = 0; i < 100; i++) {
        pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
        pace_observe(&pace,
                     (struct pace_step){.decode_rows = 3, .prefill_rows = 20, .prefill_units = 40},
                     25000000);
    }
    ck_assert_double_eq_tol(budget(&pace, 3), 19.0, 0.01);
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
    while (budget(&pace, 3) > 0.0 && n < 1000) {
        pace_observe(&pace, mixed, 10000000);
        n++;
    }
    ck_assert_uint_eq(n, 32);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
    ck_assert_double_gt(budget(&pace, 3), 0.0);
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

START_TEST(prompts_alone_give_the_first_guess)
{
    struct pace pace = fresh();
    pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 9, .prefill_units = 9},
                 9000000);
    ck_assert_double_eq(pace.unit_ns, 0.0); /* what decode rows take is not known */
    struct pace_step alone = {.prefill_rows = 500, .prefill_units = 600};
    pace_observe(&pace, alone, 300000000);
    ck_assert_double_eq_tol(pace.unit_ns, 0.5e6, 1.0);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
    pace_observe(&pace, (struct pace_step){.decode_rows = 3, .prefill_rows = 4, .prefill_units = 4},
                 7000000);
    pace_observe(&pace, alone, 900000000);
    ck_assert_double_eq_tol(pace.unit_ns, 0.5e6, 1.0);
}
END_TEST

/* Whatever the first step says of a unit: a thousandth, what it takes, a hundred times that. */
START_TEST(the_budget_doubles_at_most_until_it_is_found)
{
    static const double first_ns[] = {0.5e3, 0.5e6, 50e6};
    for (size_t i = 0; i < sizeof first_ns / sizeof first_ns[0]; i++) {
        struct pace pace = fresh();
        double before = 2.0, unit_ns = first_ns[i];
        for (int n = 0; n < 100; n++, unit_ns = 0.5e6) {
            pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
            double units = budget(&pace, 3);
            ck_assert_double_le(units, 2.0 * before);
            ck_assert_double_lt(units, 46.0);
            struct pace_step step = {.decode_rows = 3, .prefill_rows = (uint32_t)fmax(units, 1.0)};
            step.prefill_units = step.prefill_rows;
            pace_observe(&pace, step, 5000000 + (uint64_t)(step.prefill_units * unit_ns));
            before = fmax(before, units);
        }
        pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
        ck_assert_double_eq_tol(budget(&pace, 3), 19.0, 0.5);
    }
}
END_TEST

/* What the machine did to one step is no measure of the next. */
START_TEST(one_step_held_up_or_hurried_changes_little)
{
    struct pace_step decode = {.decode_rows = 3};
    struct pace_step mixed = {.decode_rows = 3, .prefill_rows = 20, .prefill_units = 40};
    for (int i = 0; i < 4; i++) {
        struct pace pace = fresh();
        for (int n = 0; n < 100; n++) {
            pace_observe(&pace, decode, 5000000);
            pace_observe(&pace, mixed, 25000000);
        }
        pace_observe(&pace, i < 2 ? decode : mixed, i % 2 == 0 ? 1000 : 900000000);
        pace_observe(&pace, decode, 5000000);
        ck_assert_double_eq_tol(budget(&pace, 3), 19.0, 3.0);
    }
}
END_TEST

/* Streams of other passes are held up by a prompt here just as its own are. */
START_TEST(the_streams_of_others_bound_a_prompt)
{
    struct pace pace = fresh();
    struct pace_company company = {.is_unknown = true};
    ck_assert_double_eq(pace_budget_units(&pace, 0, &company), 0.0);
    company = (struct pace_company){.decode_ns = 10e6};
    ck_assert_double_eq_tol(pace_budget_units(&pace, 0, &company), 4.0, 0.01);
    struct pace_step step = {.prefill_rows = 20, .prefill_units = 20, .is_in_company = true};
    pace_observe(&pace, step, 20000000);
    ck_assert_double_eq_tol(pace_budget_units(&pace, 0, &company), 19.0, 0.01);
    company.n_prompting = 1;
    ck_assert_double_eq_tol(pace_budget_units(&pace, 0, &company), 9.5, 0.01);
    pace_observe(&pace, (struct pace_step){.decode_rows = 1}, 5000000);
    ck_assert_double_eq_tol(pace_budget_units(&pace, 1, &company), 14.25, 0.01);
}
END_TEST

/* It begins with four rows, most of which is reading the weights, and must not stay there. */
START_TEST(a_prompt_beside_others_finds_its_measure)
{
    struct pace pace = fresh();
    struct pace_company company = {.decode_ns = 10e6};
    double units = 0.0;
    for (int i = 0; i < 200; i++) {
        units = pace_budget_units(&pace, 0, &company);
        uint32_t rows = pace_rows(&pace, units, 0, 512);
        struct pace_step step = {.prefill_rows = rows, .prefill_units = rows, .is_in_company = true};
        pace_observe(&pace, step, 8000000 + 500000 * (uint64_t)rows);
    }
    ck_assert_double_gt(units, 19.0); /* 8 ms + 22 * 0.5 ms = 19 ms */
    ck_assert_double_lt(units, 23.0);
}
END_TEST

/* 5 ms a decode step and 0.5 ms a unit: a step of 20 units takes 15 ms, and one of more than 16.5 ms is late. */
START_TEST(a_step_that_was_held_up_is_late)
{
    static const struct pace_company none;
    struct pace pace = fresh();
    struct pace_step step = {.decode_rows = 3, .prefill_rows = 20, .prefill_units = 20};
    ck_assert(!pace_is_late(&pace, &step, &none, 1e9)); /* than what? */
    for (int i = 0; i < 100; i++) {
        pace_observe(&pace, (struct pace_step){.decode_rows = 3}, 5000000);
        pace_observe(&pace, step, 15000000);
    }
    double on_time = pace_end_ns(&pace, &step, 0.5, 7500000);
    ck_assert_double_eq_tol(on_time, 15e6, 1.0);
    ck_assert(!pace_is_late(&pace, &step, &none, on_time));
    double held_up = pace_end_ns(&pace, &step, 0.5, 11500000);
    ck_assert_double_eq_tol(held_up, 19e6, 1.0);
    ck_assert(pace_is_late(&pace, &step, &none, held_up));
    step.decode_rows = 0;
    ck_assert(!pace_is_late(&pace, &step, &none, held_up)); /* nobody waits */
}
END_TEST

/* A second pass with prompts has half of the room. */
START_TEST(company_makes_a_step_late_sooner)
{
    struct pace pace = fresh();
    struct pace_company company = {.n_prompting = 1};
    struct pace_step step = {.decode_rows = 1, .prefill_rows = 8, .prefill_units = 8};
    pace_observe(&pace, (struct pace_step){.decode_rows = 1}, 5000000);
    ck_assert(!pace_is_late(&pace, &step, &company, 10.7e6));
    ck_assert(pace_is_late(&pace, &step, &company, 10.8e6));
    company.is_unknown = true;
    ck_assert(!pace_is_late(&pace, &step, &company, 10.8e6));
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
    tcase_add_test(tc, prompts_alone_give_the_first_guess);
    tcase_add_test(tc, the_budget_doubles_at_most_until_it_is_found);
    tcase_add_test(tc, one_step_held_up_or_hurried_changes_little);
    tcase_add_test(tc, the_streams_of_others_bound_a_prompt);
    tcase_add_test(tc, a_prompt_beside_others_finds_its_measure);
    tcase_add_test(tc, a_step_that_was_held_up_is_late);
    tcase_add_test(tc, company_makes_a_step_late_sooner);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
