/* injection_test.c: each fault, put into a serving candidate, ends the rollout by the gate that is there for it. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/canary_rig.h"
#include "tests/support/suite_run.h"

/* That a p99 is below a value can be said after some hundreds of requests only. */
enum { ROUNDS_MAX = 400, REQUESTS_A_ROUND = 8, TAIL_REQUESTS = 1500 };

static struct canary_rig rig;

static void print_gates(const char *when)
{
    for (int gate = 0; gate < GATE_COUNT; gate++) {
        struct gate_judgement judgement;
        canary_rig_judge(&rig, (enum gate)gate, &judgement);
        printf("  %s, %s: %s: %s\n", when, gate_rows[gate].key, gate_verdict_name(judgement.verdict),
               judgement.text);
    }
}

/* Whatever else is said of an equal candidate, no gate fails. */
static void serve_sound(uint32_t n_rounds)
{
    struct release_rollout rollout;
    for (uint32_t i = 0; i < n_rounds; i++) {
        canary_rig_round(&rig, REQUESTS_A_ROUND);
        canary_rig_read(&rig, &rollout);
        if (rollout.now.state != ROLLOUT_STEP) {
            print_gates("sound");
            ck_abort_msg("%s: %s", rollout_state_name(rollout.now.state), rollout.note);
        }
    }
}

static void ends_by(enum fault fault, enum gate gate)
{
    struct release_rollout rollout;
    uint64_t before = rig.n_requests[ARM_CANARY];
    canary_rig_read(&rig, &rollout);
    for (int i = 0; i < ROUNDS_MAX && rollout.now.state == ROLLOUT_STEP; i++) {
        canary_rig_round(&rig, REQUESTS_A_ROUND);
        canary_rig_read(&rig, &rollout);
    }
    printf("%s: %s after %llu requests: %s\n", fault_name(fault),
           rollout_state_name(rollout.now.state),
           (unsigned long long)(rig.n_requests[ARM_CANARY] - before), rollout.note);
    if (rollout.now.state != ROLLOUT_ROLLING_BACK || rollout.now.gate != gate)
        print_gates("broken");
    ck_assert_int_eq(rollout.now.state, ROLLOUT_ROLLING_BACK);
    ck_assert_int_eq(rollout.now.reason, REASON_GATE_FAILED);
    ck_assert_str_eq(gate_rows[rollout.now.gate].key, gate_rows[gate].key);
    ck_assert_int_eq(rig.n_bars, 1);
    canary_rig_settle(&rig);
    canary_rig_read(&rig, &rollout);
    ck_assert_int_eq(rollout.now.state, ROLLOUT_ROLLED_BACK);
}

static const struct injection {
    enum fault fault;
    enum gate gate;
} injections[] = {
    {FAULT_NAN_WEIGHT, GATE_ERROR_RATE},       {FAULT_SCALED_SCORES, GATE_NUMERICAL},
    {FAULT_LOST_PAGE, GATE_ALLOCATOR_DRIFT},   {FAULT_MASKED_KERNEL, GATE_FALLBACK},
    {FAULT_STALE_PLAN, GATE_ERROR_RATE},       {FAULT_OTHER_NAMESPACE, GATE_ERROR_RATE},
    {FAULT_REPEATED_KV, GATE_FALLBACK},        {FAULT_LOST_SLICE, GATE_QUALITY},
    {FAULT_SLOW_PREFILL, GATE_TTFT_P99},       {FAULT_SLOW_DECODE, GATE_TPOT_P99},
    {FAULT_LATE_STARTS, GATE_GOODPUT},         {FAULT_REFUSED_REQUESTS, GATE_ERROR_RATE},
};

START_TEST(a_fault_ends_the_rollout_by_its_own_gate)
{
    canary_rig_init(&rig, &(struct canary_options){.has_late_tail = injections[_i].gate == GATE_GOODPUT});
    serve_sound(4);
    if (injections[_i].gate == GATE_TPOT_P99 || injections[_i].gate == GATE_TTFT_P99)
        canary_rig_serve(&rig, ARM_CONTROL, TAIL_REQUESTS);
    canary_rig_break(&rig, injections[_i].fault);
    ends_by(injections[_i].fault, injections[_i].gate);
    ck_assert_uint_eq(rig.n_errors[ARM_STABLE] + rig.n_errors[ARM_CONTROL], 0);
    canary_rig_release(&rig);
}
END_TEST

/* Each gate has its injection. */
START_TEST(no_gate_is_left_out)
{
    for (int gate = 0; gate < GATE_COUNT; gate++) {
        bool is_injected = gate == GATE_TRAFFIC; /* below */
        for (size_t i = 0; i < ARRAY_LEN(injections); i++)
            is_injected |= injections[i].gate == (enum gate)gate;
        ck_assert_msg(is_injected, "%s is not injected", gate_rows[gate].key);
    }
}
END_TEST

/* A head map that groups worse is no fault; it costs bytes, and that is what it is stopped for. */
START_TEST(maps_that_read_twice_end_it_by_traffic)
{
    canary_rig_init(&rig, &(struct canary_options){.has_split_maps = true});
    ends_by(FAULT_NONE, GATE_TRAFFIC);
    canary_rig_release(&rig);
}
END_TEST

START_TEST(an_equal_candidate_serves_on)
{
    canary_rig_init(&rig, &(struct canary_options){0});
    struct gate_judgement numerical = {.verdict = VERDICT_NO_DATA};
    for (int i = 0; i < ROUNDS_MAX && numerical.verdict == VERDICT_NO_DATA; i++) {
        serve_sound(5);
        canary_rig_judge(&rig, GATE_NUMERICAL, &numerical);
    }
    print_gates("sound");
    ck_assert_uint_eq(rig.n_errors[ARM_CANARY], 0);
    static const enum gate bounds[] = {GATE_ALLOCATOR_DRIFT, GATE_FALLBACK, GATE_NUMERICAL,
                                       GATE_QUALITY};
    for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
        struct gate_judgement judgement;
        canary_rig_judge(&rig, bounds[i], &judgement);
        ck_assert_msg(judgement.verdict == VERDICT_PASS, "%s: %s", gate_rows[bounds[i]].key,
                      judgement.text);
    }
    canary_rig_release(&rig);
}
END_TEST

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    Suite *suite = suite_create("injection");
    TCase *tc = tcase_create("injections");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_fault_ends_the_rollout_by_its_own_gate, 0, (int)ARRAY_LEN(injections));
    tcase_add_test(tc, no_gate_is_left_out);
    tcase_add_test(tc, maps_that_read_twice_end_it_by_traffic);
    tcase_add_test(tc, an_equal_candidate_serves_on);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
