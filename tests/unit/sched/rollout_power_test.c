/* rollout_power_test.c: what `rollout plan` promises is what the gates find, by drawing it. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_power.h"

#include <inttypes.h>
#include <math.h>

#include "sched/philox.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

/* 95 % is promised: of 200, 190 expected; below 174 is beyond five standard deviations. */
enum { RUNS = 200, FOUND_LEAST = 174 };

static struct rollout_plan plan;
static struct rollout_service service;
static struct rollout_power power;
static uint32_t drawn;

static double uniform(void)
{
    return philox_uniform(test_seed(), 9, drawn++) + 0x1p-54;
}

static uint64_t latency(double median_ns, uint32_t spread_milli)
{
    double normal = sqrt(-2.0 * log(uniform())) * cos(2.0 * M_PI * uniform());
    return (uint64_t)(median_ns * exp(spread_milli / 1e3 * normal));
}

static void setup(void)
{
    rollout_plan_defaults(&plan);
    rollout_service_defaults(&service);
    rollout_power_of(&plan, 0, &service, &power);
}

static uint64_t hits(uint64_t n, uint64_t ppm)
{
    uint64_t k = 0;
    for (uint64_t i = 0; i < n; i++)
        k += uniform() * 1e6 < (double)ppm;
    return k;
}

/* One sample of the step at the printed regression of one gate. */
static void sample(enum gate gate, struct gate_evidence *evidence)
{
    gate_evidence_clear(evidence);
    struct arm_evidence *canary = &evidence->canary, *control = &evidence->control;
    canary->n_requests = power.n_canary;
    control->n_requests = power.n_control;
    evidence->n_stable_requests = power.n_stable;
    if (gate == GATE_ERROR_RATE) {
        canary->n_errors = hits(power.n_canary, power.error_ppm);
        evidence->n_stable_errors = power.n_stable * service.error_ppm / 1000000;
    } else if (gate == GATE_GOODPUT) {
        canary->n_good = hits(power.n_canary, power.good_ppm);
        control->n_good = hits(power.n_control, service.good_ppm);
    }
    bool is_tpot = gate == GATE_TPOT_P99;
    if (!is_tpot && gate != GATE_TTFT_P99)
        return;
    uint32_t spread = is_tpot ? service.tpot_spread_milli : service.ttft_spread_milli;
    double factor = (double)(is_tpot ? power.tpot_ppm : power.ttft_ppm) / 1e6;
    for (uint64_t i = 0; i < power.n_canary; i++)
        latency_sketch_add(is_tpot ? &canary->tpot : &canary->ttft, latency(1e7 * factor, spread));
    for (uint64_t i = 0; i < power.n_control; i++)
        latency_sketch_add(is_tpot ? &control->tpot : &control->ttft, latency(1e7, spread));
}

static const enum gate gates[] = {GATE_ERROR_RATE, GATE_GOODPUT, GATE_TPOT_P99, GATE_TTFT_P99};

/* Each gate with arms of one size and with a candidate of five times control's. */
START_TEST(the_printed_regression_is_found)
{
    static const uint32_t steps[] = {0, 2};
    static struct gate_evidence evidence;
    const enum gate gate = gates[_i % 4];
    rollout_power_of(&plan, steps[_i / 4], &service, &power);
    int n_found = 0;
    for (int run = 0; run < RUNS; run++) {
        struct gate_judgement judgement;
        sample(gate, &evidence);
        gate_judge(gate, &evidence, &plan.thresholds, plan.n_steps, &judgement);
        n_found += judgement.verdict == VERDICT_FAIL;
    }
    printf("%s: found in %d of %d\n", gate_rows[gate].key, n_found, RUNS);
    ck_assert_int_ge(n_found, FOUND_LEAST);
}
END_TEST

START_TEST(more_requests_find_less)
{
    struct rollout_power more;
    plan.steps[0].min_requests *= 4;
    rollout_power_of(&plan, 0, &service, &more);
    ck_assert_uint_gt(power.error_ppm, service.error_ppm + plan.thresholds.error_rate_margin_ppm);
    ck_assert_uint_lt(more.error_ppm, power.error_ppm);
    ck_assert_uint_gt(more.good_ppm, power.good_ppm);
    ck_assert_uint_lt(more.tpot_ppm, power.tpot_ppm);
    ck_assert_uint_gt(more.tpot_ppm, 1000000 + plan.thresholds.tpot_p99_eps_ppm);
    ck_assert_uint_lt(more.ttft_ppm, power.ttft_ppm);
    ck_assert(power.passes_equal);
}
END_TEST

START_TEST(too_few_requests_are_said)
{
    plan.steps[0].min_requests = 100;
    rollout_power_of(&plan, 0, &service, &power);
    ck_assert_uint_eq(power.tpot_ppm, 0);
    ck_assert(!power.passes_equal);
    ck_assert_uint_eq(power.n_canary, 100);
    ck_assert_uint_eq(power.n_stable, 9900);
}
END_TEST

START_TEST(the_capped_arm_sets_the_sample)
{
    rollout_power_of(&plan, 2, &service, &power);
    ck_assert_uint_eq(power.n_control, 5000);
    ck_assert_uint_eq(power.n_canary, 25000);
    ck_assert_uint_eq(power.n_stable, 75000);
}
END_TEST

int main(void)
{
    printf("FOLDKV_TEST_SEED=%" PRIu64 "\n", test_seed());
    Suite *suite = suite_create("rollout_power");
    TCase *tc = tcase_create("rollout_power");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, the_printed_regression_is_found, 0, 8);
    tcase_add_test(tc, more_requests_find_less);
    tcase_add_test(tc, too_few_requests_are_said);
    tcase_add_test(tc, the_capped_arm_sets_the_sample);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
