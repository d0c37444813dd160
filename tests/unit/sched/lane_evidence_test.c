/* lane_evidence_test.c: differences of figures, and the verdicts that gates make of them. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_evidence.h"

#include <math.h>

#include "sched/judge/gate.h"
#include "tests/support/suite_run.h"

static struct gate_thresholds thresholds;

static enum gate_verdict verdict(enum gate gate, const struct gate_evidence *evidence)
{
    struct gate_judgement judgement;
    gate_judge(gate, evidence, &thresholds, 3, &judgement);
    return judgement.verdict;
}

static void add_snapshot(struct lane_evidence *e, uint64_t expected, uint64_t resident,
                         uint64_t n_unreachable)
{
    const struct allocation_term term = {expected, resident};
    lane_evidence_add_snapshot(e, &term, 1, n_unreachable);
}

/* What a sound lane has after a while. */
static struct lane_evidence sound(void)
{
    struct lane_evidence e = {.n_steps = 500,
                              .step_ns = 1000000,
                              .has_plan_receipt = true,
                              .issued_bytes = 5000000,
                              .logical_bytes = 5000000};
    for (int i = 0; i < 20; i++)
        lane_evidence_add_sample(&e, 0.0);
    add_snapshot(&e, 1 << 22, 1 << 22, 0);
    return e;
}

static void set_up(void)
{
    gate_thresholds_defaults(&thresholds);
}

START_TEST(counters_are_subtracted_and_worst_cases_are_not)
{
    struct lane_evidence before = sound(), now, since;
    lane_evidence_add_sample(&before, 1e-3);
    now = before;
    now.n_steps += 7;
    now.issued_bytes += 64;
    now.n_fallbacks = 3;
    lane_evidence_add_sample(&now, 1e-6);
    lane_evidence_since(&now, &before, &since);
    ck_assert_uint_eq(since.n_steps, 7);
    ck_assert_uint_eq(since.issued_bytes, 64);
    ck_assert_uint_eq(since.logical_bytes, 0);
    ck_assert_uint_eq(since.n_fallbacks, 3);
    ck_assert_uint_eq(since.n_samples, 1);
    ck_assert_uint_eq(since.numerical_worst_ppb, 1000000);
    ck_assert_uint_eq(since.n_snapshots, 0);
    ck_assert_uint_eq(since.expected_bytes, 1 << 22);
    ck_assert(since.has_plan_receipt);
}
END_TEST

START_TEST(a_sound_lane_passes_its_four_gates)
{
    struct lane_evidence lane = sound(), baseline = sound();
    struct gate_evidence evidence = {.n_stable_errors = 5};
    lane_evidence_to_gate(&lane, &baseline, &evidence);
    ck_assert_int_eq(verdict(GATE_NUMERICAL, &evidence), VERDICT_PASS);
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT, &evidence), VERDICT_PASS);
    ck_assert_int_eq(verdict(GATE_FALLBACK, &evidence), VERDICT_PASS);
    ck_assert_int_eq(verdict(GATE_TRAFFIC, &evidence), VERDICT_PASS);
    ck_assert_uint_eq(evidence.n_stable_errors, 5);
}
END_TEST

START_TEST(a_silent_lane_passes_none)
{
    struct lane_evidence none = {0};
    struct gate_evidence evidence = {0};
    lane_evidence_to_gate(&none, NULL, &evidence);
    ck_assert_int_eq(verdict(GATE_NUMERICAL, &evidence), VERDICT_NO_DATA);
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT, &evidence), VERDICT_NO_DATA);
    ck_assert_int_eq(verdict(GATE_FALLBACK, &evidence), VERDICT_NO_DATA);
    ck_assert_int_eq(verdict(GATE_TRAFFIC, &evidence), VERDICT_NO_DATA);
    /* A receipt alone is no data either: nothing has been run by it. */
    none.has_plan_receipt = true;
    lane_evidence_to_gate(&none, NULL, &evidence);
    ck_assert_int_eq(verdict(GATE_FALLBACK, &evidence), VERDICT_NO_DATA);
}
END_TEST

/* One way to go wrong, and the one gate that sees it. */
/* 100 bytes too many in one group, as many too few in the other. */
START_TEST(a_drift_that_cancels_out_in_the_total_is_found)
{
    static const struct allocation_term sound_terms[] = {{4000, 4000}, {1000, 1000}},
                                        terms[] = {{4000, 4100}, {1000, 900}};
    struct lane_evidence lane = sound();
    struct gate_evidence evidence;
    struct gate_judgement judgement;
    gate_evidence_clear(&evidence);
    lane_evidence_add_snapshot(&lane, sound_terms, 2, 0);
    lane_evidence_to_gate(&lane, &lane, &evidence);
    gate_judge(GATE_ALLOCATOR_DRIFT, &evidence, &thresholds, 3, &judgement);
    ck_assert_int_eq(judgement.verdict, VERDICT_PASS);
    lane_evidence_add_snapshot(&lane, terms, 2, 0);
    lane_evidence_to_gate(&lane, &lane, &evidence);
    gate_judge(GATE_ALLOCATOR_DRIFT, &evidence, &thresholds, 3, &judgement);
    ck_assert_int_eq(judgement.verdict, VERDICT_FAIL);
    ck_assert_str_eq(judgement.text, "cache group 1: expected 1000 bytes, resident 900");
}
END_TEST

static enum gate spoil(int i, struct lane_evidence *lane)
{
    switch (i) {
    case 0:
        lane_evidence_add_sample(lane, 2e-4);
        return GATE_NUMERICAL;
    case 1:
        lane_evidence_add_sample(lane, (double)NAN);
        return GATE_NUMERICAL;
    case 2:
        add_snapshot(lane, 1 << 22, 1 << 22, 1);
        return GATE_ALLOCATOR_DRIFT;
    case 3:
        add_snapshot(lane, 1 << 22, (1 << 22) * 2, 0);
        return GATE_ALLOCATOR_DRIFT;
    case 4:
        lane->n_fallbacks++;
        return GATE_FALLBACK;
    case 5:
        lane->n_materialisations++;
        return GATE_FALLBACK;
    default:
        lane->issued_bytes += lane->logical_bytes / 20;
        return GATE_TRAFFIC;
    }
}

START_TEST(each_fault_fails_its_own_gate_alone)
{
    struct lane_evidence lane = sound(), baseline = sound();
    struct gate_evidence evidence = {0};
    enum gate own = spoil(_i, &lane);
    static const enum gate all[] = {GATE_NUMERICAL, GATE_ALLOCATOR_DRIFT, GATE_FALLBACK,
                                    GATE_TRAFFIC};
    lane_evidence_to_gate(&lane, &baseline, &evidence);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        ck_assert_int_eq(verdict(all[i], &evidence),
                         all[i] == own ? VERDICT_FAIL : VERDICT_PASS);
}
END_TEST

START_TEST(hardware_counts_only_where_both_have_it)
{
    struct lane_evidence lane = sound(), baseline = sound();
    struct gate_evidence evidence = {0};
    lane.host_has_counters = baseline.host_has_counters = true;
    lane_evidence_to_gate(&lane, &baseline, &evidence);
    ck_assert_int_eq(verdict(GATE_TRAFFIC, &evidence), VERDICT_NO_DATA);
    lane.hardware_bytes = 3000000, lane.hardware_logical_bytes = 2000000;
    baseline.hardware_bytes = 2500000, baseline.hardware_logical_bytes = 2000000;
    lane_evidence_to_gate(&lane, &baseline, &evidence);
    ck_assert_int_eq(verdict(GATE_TRAFFIC, &evidence), VERDICT_FAIL);
    lane.hardware_bytes = baseline.hardware_bytes;
    lane_evidence_to_gate(&lane, &baseline, &evidence);
    ck_assert_int_eq(verdict(GATE_TRAFFIC, &evidence), VERDICT_PASS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_evidence");
    TCase *tc = tcase_create("evidence");
    tcase_add_checked_fixture(tc, set_up, NULL);
    tcase_add_test(tc, counters_are_subtracted_and_worst_cases_are_not);
    tcase_add_test(tc, a_drift_that_cancels_out_in_the_total_is_found);
    tcase_add_test(tc, a_sound_lane_passes_its_four_gates);
    tcase_add_test(tc, a_silent_lane_passes_none);
    tcase_add_loop_test(tc, each_fault_fails_its_own_gate_alone, 0, 7);
    tcase_add_test(tc, hardware_counts_only_where_both_have_it);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
