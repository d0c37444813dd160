/* rollout_seeds_test.c: the figures of a canary over 200 printed seeds: equal candidates are promoted,
 * worse ones are not, and the chance of a false abort keeps its word. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rollout_simulation.h"

#include <inttypes.h>

#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { SEEDS = 200, OF_PROMOTED = 190, OF_ABORTED = 190, FALSE_ABORTS_MOST = 2 };

struct tally {
    int n_promoted, n_paused, n_aborted;
    int by_gate[GATE_COUNT];
    uint64_t n_canary;
};

static struct tally run_all(const char *what, const struct simulation *simulation)
{
    struct tally tally = {0};
    for (int i = 0; i < SEEDS; i++) {
        struct simulation_result result;
        simulation_run(simulation, test_seed() + (uint64_t)i, &result);
        bool is_aborted = result.rollout.state == ROLLOUT_ROLLED_BACK;
        tally.n_promoted += result.rollout.state == ROLLOUT_PROMOTED;
        tally.n_paused += result.was_paused;
        tally.n_aborted += is_aborted;
        tally.n_canary += result.n_canary;
        if (is_aborted)
            tally.by_gate[result.rollout.gate]++;
    }
    printf("%s: seeds %" PRIu64 " to %" PRIu64 ": %d promoted, %d paused, %d aborted (", what,
           test_seed(), test_seed() + SEEDS - 1, tally.n_promoted, tally.n_paused, tally.n_aborted);
    for (int i = 0; i < GATE_COUNT; i++)
        if (tally.by_gate[i] > 0)
            printf(" %s %d", gate_rows[i].key, tally.by_gate[i]);
    printf(" ), %.0f candidate requests a rollout\n", (double)tally.n_canary / SEEDS);
    return tally;
}

static struct simulation equal(bool auto_approve)
{
    static struct rollout_plan plan;
    rollout_plan_defaults(&plan);
    plan.auto_approve = auto_approve;
    return simulation_equal(&plan);
}

START_TEST(equal_candidates_are_promoted)
{
    struct simulation simulation = equal(false);
    struct tally tally = run_all("equal", &simulation);
    ck_assert_int_le(tally.n_aborted, FALSE_ABORTS_MOST);
    ck_assert_int_ge(tally.n_promoted, OF_PROMOTED);
    ck_assert_int_eq(tally.n_promoted + tally.n_paused + tally.n_aborted, SEEDS);
}
END_TEST

START_TEST(a_slower_decode_is_aborted_by_its_gate)
{
    struct simulation simulation = equal(true);
    simulation.tpot_factor = 1.3;
    struct tally tally = run_all("TPOT + 30 %", &simulation);
    ck_assert_int_ge(tally.n_aborted, OF_ABORTED);
    ck_assert_int_ge(tally.by_gate[GATE_TPOT_P99], OF_ABORTED);
    ck_assert_int_eq(tally.n_promoted, 0);
}
END_TEST

START_TEST(errors_are_aborted_by_their_gate)
{
    struct simulation simulation = equal(true);
    simulation.candidate_error_rate = 0.05;
    struct tally tally = run_all("5 % errors", &simulation);
    ck_assert_int_ge(tally.n_aborted, OF_ABORTED);
    ck_assert_int_ge(tally.by_gate[GATE_ERROR_RATE] + tally.by_gate[GATE_GOODPUT], OF_ABORTED);
    ck_assert_int_ge(tally.by_gate[GATE_ERROR_RATE], OF_ABORTED);
    ck_assert_int_eq(tally.n_promoted, 0);
}
END_TEST

START_TEST(a_slower_prefill_is_aborted_by_its_gate)
{
    struct simulation simulation = equal(true);
    simulation.ttft_factor = 2.0;
    struct tally tally = run_all("TTFT x 2", &simulation);
    ck_assert_int_ge(tally.by_gate[GATE_TTFT_P99], OF_ABORTED);
    ck_assert_int_eq(tally.n_promoted, 0);
}
END_TEST

/* Exactly at the threshold a candidate is neither: the chance of an abort keeps to alpha. */
START_TEST(at_the_threshold_aborts_keep_to_alpha)
{
    struct simulation simulation = equal(true);
    simulation.tpot_factor = 1.0 + simulation.plan->thresholds.tpot_p99_eps_ppm / 1e6;
    simulation.candidate_error_rate =
        simulation.error_rate + simulation.plan->thresholds.error_rate_margin_ppm / 1e6;
    struct rollout_plan plan = *simulation.plan;
    for (uint32_t i = 0; i < plan.n_steps; i++) /* 12 000 requests of each arm, then a pause */
        plan.steps[i].max_seconds = 1200000 / plan.steps[i].weight_bp * 100 / 50;
    simulation.plan = &plan;
    struct tally tally = run_all("at the threshold", &simulation);
    ck_assert_int_le(tally.n_aborted, FALSE_ABORTS_MOST);
}
END_TEST

int main(void)
{
    printf("FOLDKV_TEST_SEED=%" PRIu64 "\n", test_seed());
    Suite *suite = suite_create("rollout_seeds");
    TCase *tc = tcase_create("rollout_seeds");
    tcase_set_timeout(tc, 280);
    tcase_add_test(tc, equal_candidates_are_promoted);
    tcase_add_test(tc, a_slower_decode_is_aborted_by_its_gate);
    tcase_add_test(tc, errors_are_aborted_by_their_gate);
    tcase_add_test(tc, a_slower_prefill_is_aborted_by_its_gate);
    tcase_add_test(tc, at_the_threshold_aborts_keep_to_alpha);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
