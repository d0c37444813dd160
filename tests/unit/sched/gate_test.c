/* gate_test.c: every row of the gate table: what passes, what fails, and that no data is never a pass. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/gate.h"

#include <math.h>

#include "tests/support/suite_run.h"

enum { STEPS = 3, REQUESTS = 6000 };

static struct gate_evidence evidence;
static struct gate_thresholds thresholds;

static void add_requests(enum arm arm, int n, uint64_t tpot_us, uint64_t ttft_us, int one_error_in)
{
    for (int i = 1; i <= n; i++) {
        uint64_t spread = 900 + (uint64_t)(i % 200); /* thousandths */
        struct request_outcome outcome = {arm, one_error_in > 0 && i % one_error_in == 0,
                                          ttft_us * spread, tpot_us * spread};
        gate_evidence_add(&evidence, &thresholds, &outcome);
    }
}

static void add_slice(const char *name, uint64_t n_tokens, uint64_t candidate, uint64_t baseline)
{
    struct quality_slice slice = {
        .n_tokens = n_tokens, .candidate_unats = candidate, .baseline_unats = baseline};
    snprintf(slice.name, sizeof slice.name, "%s", name);
    ck_assert(gate_evidence_add_quality(&evidence, &slice));
}

/* A candidate like its baseline in everything. */
static void setup(void)
{
    gate_thresholds_defaults(&thresholds);
    gate_evidence_clear(&evidence);
    add_requests(ARM_CANARY, REQUESTS, 40000, 300000, 1000);
    add_requests(ARM_CONTROL, REQUESTS, 40000, 300000, 1000);
    add_requests(ARM_STABLE, 10 * REQUESTS, 40000, 300000, 1000);
    gate_evidence_add_allocation(&evidence, 1, 1000000, 1000000, 0);
    evidence.has_plan_receipt = evidence.has_traffic = evidence.has_quality = true;
    evidence.issued_kib = evidence.baseline_issued_kib = 1100;
    evidence.logical_kib = evidence.baseline_logical_kib = 1000;
    add_slice("code", 100, 200000000, 200000000);
    add_slice("prose", 300, 900000000, 900000000);
    for (int i = 0; i < 16; i++)
        gate_evidence_add_sample(&evidence, 5e-7);
}

static enum gate_verdict verdict(enum gate gate)
{
    struct gate_judgement judgement;
    gate_judge(gate, &evidence, &thresholds, STEPS, &judgement);
    ck_assert_uint_gt(strlen(judgement.text), 0);
    return judgement.verdict;
}

/* All gates but one pass, so a fault shows at its own gate and at no other. */
static void only(enum gate gate, enum gate_verdict expected)
{
    for (int i = 0; i < GATE_COUNT; i++) {
        enum gate_verdict found = verdict((enum gate)i);
        ck_assert_msg(found == ((enum gate)i == gate ? expected : VERDICT_PASS), "%s says %s",
                      gate_rows[i].key, gate_verdict_name(found));
    }
}

START_TEST(an_equal_candidate_passes_every_gate)
{
    only(GATE_COUNT, VERDICT_PASS);
}
END_TEST

START_TEST(without_data_nothing_passes)
{
    gate_evidence_clear(&evidence);
    for (int i = 0; i < GATE_COUNT; i++)
        ck_assert_msg(verdict((enum gate)i) == VERDICT_NO_DATA, "%s", gate_rows[i].key);
}
END_TEST

START_TEST(the_table_is_that_of_the_design)
{
    static const enum gate fails[] = {GATE_ALLOCATOR_DRIFT, GATE_FALLBACK, GATE_QUALITY,
                                      GATE_TRAFFIC};
    for (int i = 0; i < GATE_COUNT; i++) {
        bool must_fail = false;
        for (size_t f = 0; f < ARRAY_LEN(fails); f++)
            must_fail |= fails[f] == (enum gate)i;
        ck_assert_msg((gate_rows[i].without == GATE_WITHOUT_FAIL) == must_fail, "%s",
                      gate_rows[i].key);
        if (i > 0)
            ck_assert(strcmp(gate_rows[i - 1].key, gate_rows[i].key) < 0);
    }
    ck_assert_uint_eq(gate_test_count(), 4);
    ck_assert_double_eq_tol(gate_needed_to_fail(3), log(12000.0), 1e-9);
}
END_TEST

START_TEST(allocator_drift)
{
    gate_evidence_add_allocation(&evidence, 1, 1000000, 1010000, 0);
    only(GATE_COUNT, VERDICT_PASS);
    gate_evidence_add_allocation(&evidence, 1, 1000000, 989999, 0);
    only(GATE_ALLOCATOR_DRIFT, VERDICT_FAIL);
    gate_evidence_add_allocation(&evidence, 1, 1000000, 1000000, 0); /* a better one undoes nothing */
    only(GATE_ALLOCATOR_DRIFT, VERDICT_FAIL);
}
END_TEST

START_TEST(one_unreachable_page_is_one_too_many)
{
    gate_evidence_add_allocation(&evidence, 1, 1000000, 1000000, 1);
    gate_evidence_add_allocation(&evidence, 1, 1000000, 1000000, 0);
    only(GATE_ALLOCATOR_DRIFT, VERDICT_FAIL);
}
END_TEST

START_TEST(error_rate)
{
    gate_evidence_clear(&evidence);
    setup();
    add_requests(ARM_CANARY, 2000, 40000, 300000, 20);
    ck_assert_int_eq(verdict(GATE_ERROR_RATE), VERDICT_FAIL);
    ck_assert_int_ne(verdict(GATE_TPOT_P99), VERDICT_FAIL);
}
END_TEST

START_TEST(too_few_requests_are_inconclusive)
{
    gate_evidence_clear(&evidence);
    add_requests(ARM_CANARY, 50, 40000, 300000, 0);
    add_requests(ARM_CONTROL, 50, 40000, 300000, 0);
    ck_assert_int_eq(verdict(GATE_ERROR_RATE), VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(verdict(GATE_TPOT_P99), VERDICT_INCONCLUSIVE);
    ck_assert_int_eq(verdict(GATE_TTFT_P99), VERDICT_INCONCLUSIVE);
}
END_TEST

/* Three in ten of the candidate's requests miss the SLO, with no error: goodput alone would not see p99. */
START_TEST(goodput)
{
    evidence.canary.n_good -= 3 * REQUESTS / 10;
    only(GATE_GOODPUT, VERDICT_FAIL);
}
END_TEST

START_TEST(the_slo_is_both_times)
{
    gate_evidence_clear(&evidence);
    struct request_outcome slow_first = {ARM_CANARY, false, 5000000001, 1000000};
    struct request_outcome slow_next = {ARM_CANARY, false, 1000000, 500000001};
    struct request_outcome at_both = {ARM_CANARY, false, 5000000000, 500000000};
    struct request_outcome one_token = {ARM_CANARY, false, 1000000, 0};
    gate_evidence_add(&evidence, &thresholds, &slow_first);
    gate_evidence_add(&evidence, &thresholds, &slow_next);
    ck_assert_uint_eq(evidence.canary.n_good, 0);
    gate_evidence_add(&evidence, &thresholds, &at_both);
    gate_evidence_add(&evidence, &thresholds, &one_token);
    ck_assert_uint_eq(evidence.canary.n_good, 2);
    ck_assert_uint_eq(evidence.canary.tpot.n, 3);
    ck_assert_uint_eq(evidence.n_stable_requests, 0);
}
END_TEST

START_TEST(numerical_divergence)
{
    gate_evidence_add_sample(&evidence, _i == 0 ? 1.01e-4 : _i == 1 ? NAN : -INFINITY);
    only(GATE_NUMERICAL, VERDICT_FAIL);
}
END_TEST

/* The global mean is better, one slice is not. */
START_TEST(a_slice_that_drops_fails_alone)
{
    add_slice("prose", 300, 600000000, 900000000);
    add_slice("code", 100, 210000001, 200000000);
    only(GATE_QUALITY, VERDICT_FAIL);
}
END_TEST

/* Each slice may lose more than all of them together. */
START_TEST(the_global_mean_fails_alone)
{
    snprintf(thresholds.slices[0].name, SLICE_NAME_MAX, "code");
    snprintf(thresholds.slices[1].name, SLICE_NAME_MAX, "prose");
    thresholds.slices[0].eps_ppm = thresholds.slices[1].eps_ppm = 100000;
    thresholds.n_slices = 2;
    evidence.slices[0].candidate_unats = evidence.slices[0].baseline_unats / 100 * 105;
    evidence.slices[1].candidate_unats = evidence.slices[1].baseline_unats / 100 * 105;
    only(GATE_QUALITY, VERDICT_FAIL);
}
END_TEST

START_TEST(a_protected_slice_must_be_there)
{
    snprintf(thresholds.slices[0].name, SLICE_NAME_MAX, "law");
    thresholds.n_slices = 1;
    only(GATE_QUALITY, VERDICT_NO_DATA);
    thresholds.n_slices = 0;
    evidence.slices[0].n_tokens = thresholds.quality_slice_tokens_min - 1;
    only(GATE_QUALITY, VERDICT_NO_DATA);
}
END_TEST

START_TEST(a_fallback_or_a_materialisation)
{
    if (_i == 0)
        evidence.n_fallbacks = 1;
    else
        evidence.n_materialisations = 1;
    only(GATE_FALLBACK, VERDICT_FAIL);
}
END_TEST

START_TEST(traffic)
{
    evidence.issued_kib = 1122;
    only(GATE_COUNT, VERDICT_PASS);
    evidence.issued_kib = 1123; /* 1.1 * 1.02 is 1.122 */
    only(GATE_TRAFFIC, VERDICT_FAIL);
}
END_TEST

START_TEST(hardware_counters_where_the_host_has_them)
{
    evidence.host_has_counters = true;
    only(GATE_TRAFFIC, VERDICT_NO_DATA);
    thresholds.traffic_hardware_unproven = 1;
    only(GATE_COUNT, VERDICT_PASS);
    thresholds.traffic_hardware_unproven = 0;
    evidence.has_hardware = true;
    evidence.hardware_kib = evidence.baseline_hardware_kib = 1500;
    evidence.hardware_logical_kib = evidence.baseline_hardware_logical_kib = 1000;
    only(GATE_COUNT, VERDICT_PASS);
    evidence.hardware_kib = 1531;
    only(GATE_TRAFFIC, VERDICT_FAIL);
}
END_TEST

START_TEST(slow_decode_and_slow_prefill_are_told_apart)
{
    struct latency_sketch *slow = _i == 0 ? &evidence.canary.tpot : &evidence.canary.ttft;
    memset(slow, 0, sizeof *slow);
    for (int i = 0; i < REQUESTS; i++)
        latency_sketch_add(slow, (_i == 0 ? 40000u : 300000u) * (1400u + (uint64_t)(i % 200)));
    only(_i == 0 ? GATE_TPOT_P99 : GATE_TTFT_P99, VERDICT_FAIL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *tc = tcase_create("gate");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, an_equal_candidate_passes_every_gate);
    tcase_add_test(tc, without_data_nothing_passes);
    tcase_add_test(tc, the_table_is_that_of_the_design);
    tcase_add_test(tc, allocator_drift);
    tcase_add_test(tc, one_unreachable_page_is_one_too_many);
    tcase_add_test(tc, error_rate);
    tcase_add_test(tc, too_few_requests_are_inconclusive);
    tcase_add_test(tc, goodput);
    tcase_add_test(tc, the_slo_is_both_times);
    tcase_add_loop_test(tc, numerical_divergence, 0, 3);
    tcase_add_test(tc, a_slice_that_drops_fails_alone);
    tcase_add_test(tc, the_global_mean_fails_alone);
    tcase_add_test(tc, a_protected_slice_must_be_there);
    tcase_add_loop_test(tc, a_fallback_or_a_materialisation, 0, 2);
    tcase_add_test(tc, traffic);
    tcase_add_test(tc, hardware_counters_where_the_host_has_them);
    tcase_add_loop_test(tc, slow_decode_and_slow_prefill_are_told_apart, 0, 2);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
