/* rollout_test.c: the machine: every command in every state, how steps end, and what a breach does where. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout.h"

#include "tests/support/suite_run.h"

enum { SAMPLE = 5000 };

static struct rollout_plan plan;
static struct gate_evidence evidence;
static struct rollout rollout;
static struct rollout_decision decision;
static uint64_t now_ms;

static void add_requests(enum arm arm, int n, uint64_t tpot_us)
{
    for (int i = 0; i < n; i++) {
        uint64_t spread = 900 + (uint64_t)(i % 200);
        struct request_outcome outcome = {arm, false, 300000 * spread, tpot_us * spread};
        gate_evidence_add(&evidence, &plan.thresholds, &outcome);
    }
}

static void fill(int n)
{
    gate_evidence_clear(&evidence);
    add_requests(ARM_CANARY, n, 40000);
    add_requests(ARM_CONTROL, n, 40000);
    gate_evidence_add_allocation(&evidence, 1, 1000, 1000, 0);
    evidence.has_plan_receipt = evidence.has_traffic = evidence.has_quality = true;
    evidence.issued_kib = evidence.baseline_issued_kib = 1;
    evidence.logical_kib = evidence.baseline_logical_kib = 1;
    struct quality_slice slice = {"code", 100, 1000, 1000};
    ck_assert(gate_evidence_add_quality(&evidence, &slice));
    for (int i = 0; i < 16; i++)
        gate_evidence_add_sample(&evidence, 0.0);
}

static enum status apply(enum rollout_event_kind kind, struct why *ret_why)
{
    struct rollout_event event = {kind, now_ms, &evidence};
    return rollout_apply(&rollout, &plan, &event, &rollout, &decision, ret_why);
}

static void must(enum rollout_event_kind kind, enum rollout_state state, enum rollout_action action)
{
    struct why why = {0};
    ck_assert_msg(apply(kind, &why) == OK, "%s: %s", rollout_event_name(kind), why.text);
    ck_assert_msg(rollout.state == state, "%s led to %s", rollout_event_name(kind),
                  rollout_state_name(rollout.state));
    ck_assert_int_eq(decision.action, action);
}

static void setup(void)
{
    rollout_plan_defaults(&plan);
    rollout_init(&rollout);
    now_ms = 1000;
    fill(SAMPLE);
}

static void to_first_step(void)
{
    must(EVENT_LOAD, ROLLOUT_LOADING, ACTION_MOVE);
    must(EVENT_LOADED, ROLLOUT_READY, ACTION_MOVE);
    must(EVENT_EVALUATED, ROLLOUT_EVALUATED, ACTION_MOVE);
    must(EVENT_START, ROLLOUT_AWAITING_APPROVAL, ACTION_MOVE);
    ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), 0);
    must(EVENT_APPROVE, ROLLOUT_STEP, ACTION_BEGIN_STEP);
}

START_TEST(from_registration_to_promotion)
{
    to_first_step();
    for (uint32_t step = 0; step < 3; step++) {
        ck_assert_uint_eq(rollout.step, step);
        ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), plan.steps[step].weight_bp);
        fill(SAMPLE - 1); /* one request short */
        must(EVENT_TICK, ROLLOUT_STEP, ACTION_NONE);
        fill(SAMPLE);
        if (step < 2)
            must(EVENT_TICK, ROLLOUT_STEP, ACTION_BEGIN_STEP);
    }
    must(EVENT_TICK, ROLLOUT_AWAITING_APPROVAL, ACTION_MOVE);
    ck_assert(decision.is_judged);
    ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), 2500);
    must(EVENT_APPROVE, ROLLOUT_PROMOTING, ACTION_PROMOTE);
    must(EVENT_TICK, ROLLOUT_PROMOTING, ACTION_NONE);
    must(EVENT_PROMOTION_DONE, ROLLOUT_PROMOTED, ACTION_MOVE);
    ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), 10000);
    must(EVENT_ABORT, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), 0);
    must(EVENT_ROLLBACK_DONE, ROLLOUT_ROLLED_BACK, ACTION_MOVE);
    ck_assert_int_eq(rollout.reason, REASON_COMMAND);
}
END_TEST

START_TEST(auto_approval_asks_nobody)
{
    plan.auto_approve = true;
    rollout.state = ROLLOUT_EVALUATED;
    must(EVENT_START, ROLLOUT_STEP, ACTION_BEGIN_STEP);
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_BEGIN_STEP);
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_BEGIN_STEP);
    must(EVENT_TICK, ROLLOUT_PROMOTING, ACTION_PROMOTE);
}
END_TEST

START_TEST(failures_before_traffic_reject)
{
    static const enum rollout_state from[] = {
        ROLLOUT_LOADING, ROLLOUT_READY,     ROLLOUT_REGISTERED,       ROLLOUT_LOADING,
        ROLLOUT_READY,   ROLLOUT_EVALUATED, ROLLOUT_AWAITING_APPROVAL};
    static const enum rollout_event_kind kinds[] = {EVENT_LOAD_FAILED, EVENT_EVALUATION_FAILED};
    rollout.state = from[_i];
    must(_i < 2 ? kinds[_i] : EVENT_ABORT, ROLLOUT_REJECTED, ACTION_REJECT);
    ck_assert_int_eq(rollout.reason, _i == 0   ? REASON_LOAD_FAILED
                                     : _i == 1 ? REASON_EVALUATION_FAILED
                                               : REASON_COMMAND);
}
END_TEST

/* In every state in which the candidate has traffic a breach rolls back, and says which gate. */
START_TEST(a_breach_rolls_back_wherever_there_is_traffic)
{
    static const enum rollout_state from[] = {ROLLOUT_STEP, ROLLOUT_PAUSED,
                                              ROLLOUT_AWAITING_APPROVAL, ROLLOUT_PROMOTING};
    to_first_step();
    rollout.state = from[_i];
    fill(1);
    evidence.n_fallbacks = 1;
    must(EVENT_TICK, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    ck_assert_int_eq(rollout.reason, REASON_GATE_FAILED);
    ck_assert_int_eq(rollout.gate, GATE_FALLBACK);
    must(EVENT_ROLLBACK_DONE, ROLLOUT_ROLLED_BACK, ACTION_MOVE);
    ck_assert_int_eq(rollout.gate, GATE_FALLBACK);
}
END_TEST

START_TEST(slow_decode_rolls_back)
{
    to_first_step();
    memset(&evidence.canary.tpot, 0, sizeof evidence.canary.tpot);
    for (int i = 0; i < SAMPLE; i++)
        latency_sketch_add(&evidence.canary.tpot, 60000000);
    must(EVENT_TICK, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    ck_assert_int_eq(rollout.gate, GATE_TPOT_P99);
}
END_TEST

static void to_the_longest_time(void)
{
    now_ms += (uint64_t)plan.steps[0].max_seconds * 1000 - 1;
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_NONE);
    now_ms++;
}

START_TEST(time_alone_pauses)
{
    to_first_step();
    fill(SAMPLE - 1);
    to_the_longest_time();
    must(EVENT_TICK, ROLLOUT_PAUSED, ACTION_MOVE);
    ck_assert_int_eq(rollout.reason, REASON_FEW_REQUESTS);
    ck_assert_uint_eq(rollout_weight_bp(&rollout, &plan), 100);
    must(EVENT_TICK, ROLLOUT_PAUSED, ACTION_NONE);
    must(EVENT_RESUME, ROLLOUT_STEP, ACTION_CONTINUE); /* with a longest time of its own */
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_NONE);
    fill(SAMPLE);
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_BEGIN_STEP);
}
END_TEST

/* A p99 right at its threshold is neither passed nor failed. */
START_TEST(inconclusive_pauses_by_name)
{
    to_first_step();
    memset(&evidence.canary.tpot, 0, sizeof evidence.canary.tpot);
    for (uint64_t i = 0; i < SAMPLE; i++)
        latency_sketch_add(&evidence.canary.tpot, 46000 * (900 + i % 200));
    to_the_longest_time();
    must(EVENT_TICK, ROLLOUT_PAUSED, ACTION_MOVE);
    ck_assert_int_eq(rollout.reason, REASON_INCONCLUSIVE);
    ck_assert_int_eq(rollout.gate, GATE_TPOT_P99);
}
END_TEST

START_TEST(no_data_pauses_or_fails_as_the_table_says)
{
    to_first_step();
    evidence.n_numerical_samples = 0;
    to_the_longest_time();
    must(EVENT_TICK, ROLLOUT_PAUSED, ACTION_MOVE);
    ck_assert_int_eq(rollout.reason, REASON_NO_DATA);
    ck_assert_int_eq(rollout.gate, GATE_NUMERICAL);
    must(EVENT_RESUME, ROLLOUT_STEP, ACTION_CONTINUE);
    evidence.has_quality = false; /* due by its sample: this gate is given time, but not for ever */
    must(EVENT_TICK, ROLLOUT_STEP, ACTION_NONE);
    now_ms += (uint64_t)ROLLOUT_PATIENCE_SECONDS * 1000;
    must(EVENT_TICK, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    ck_assert_int_eq(rollout.reason, REASON_NO_DATA);
    ck_assert_int_eq(rollout.gate, GATE_QUALITY);
}
END_TEST

START_TEST(promote_skips_steps_but_no_gate)
{
    struct why why = {0};
    to_first_step();
    fill(SAMPLE - 1);
    ck_assert_int_eq(apply(EVENT_PROMOTE, &why), STATUS_WRONG_STATE);
    ck_assert_ptr_nonnull(strstr(why.text, "5000 of each"));
    fill(SAMPLE);
    evidence.n_numerical_samples = 0;
    ck_assert_int_eq(apply(EVENT_PROMOTE, &why), STATUS_WRONG_STATE);
    ck_assert_ptr_nonnull(strstr(why.text, "gate numerical is no_data"));
    ck_assert_int_eq(rollout.state, ROLLOUT_STEP);
    fill(SAMPLE);
    must(EVENT_PAUSE, ROLLOUT_PAUSED, ACTION_MOVE);
    must(EVENT_PROMOTE, ROLLOUT_AWAITING_APPROVAL, ACTION_MOVE);
    must(EVENT_APPROVE, ROLLOUT_PROMOTING, ACTION_PROMOTE);
}
END_TEST

START_TEST(a_rollback_is_not_preempted_and_a_promotion_is)
{
    struct why why = {0};
    to_first_step();
    must(EVENT_ABORT, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    ck_assert_int_eq(apply(EVENT_ABORT, &why), STATUS_TRANSITION_IN_PROGRESS);
    ck_assert_int_eq(apply(EVENT_PROMOTE, &why), STATUS_TRANSITION_IN_PROGRESS);
    must(EVENT_ROLLBACK_BLOCKED, ROLLOUT_BLOCKED, ACTION_MOVE);
    must(EVENT_ABORT, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
    rollout.state = ROLLOUT_PROMOTING;
    ck_assert_int_eq(apply(EVENT_PAUSE, &why), STATUS_TRANSITION_IN_PROGRESS);
    must(EVENT_ABORT, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK);
}
END_TEST

/* Every event in every state: what is taken makes a legal move or none; what is refused changes
 * nothing and says why. */
START_TEST(every_command_in_every_state)
{
    int n_taken = 0;
    for (int kind = 0; kind < EVENT_COUNT; kind++) {
        for (int served = 0; served < 2; served++) {
            struct rollout before = {.state = (enum rollout_state)_i, .has_served = served == 1};
            struct why why = {0};
            rollout = before;
            enum status s = apply((enum rollout_event_kind)kind, &why);
            if (s == OK) {
                n_taken++;
                ck_assert(rollout.state == before.state ||
                          rollout_may_move(before.state, rollout.state));
                ck_assert((decision.action == ACTION_NONE) ==
                          (memcmp(&before, &rollout, sizeof before) == 0));
            } else {
                ck_assert(s == STATUS_WRONG_STATE || s == STATUS_TRANSITION_IN_PROGRESS);
                ck_assert_mem_eq(&before, &rollout, sizeof before);
                ck_assert_ptr_nonnull(strstr(why.text, rollout_state_name(before.state)));
            }
        }
    }
    ck_assert_int_ge(n_taken, 2); /* a tick at least */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rollout");
    TCase *tc = tcase_create("rollout");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, from_registration_to_promotion);
    tcase_add_test(tc, auto_approval_asks_nobody);
    tcase_add_loop_test(tc, failures_before_traffic_reject, 0, 7);
    tcase_add_loop_test(tc, a_breach_rolls_back_wherever_there_is_traffic, 0, 4);
    tcase_add_test(tc, slow_decode_rolls_back);
    tcase_add_test(tc, time_alone_pauses);
    tcase_add_test(tc, inconclusive_pauses_by_name);
    tcase_add_test(tc, no_data_pauses_or_fails_as_the_table_says);
    tcase_add_test(tc, promote_skips_steps_but_no_gate);
    tcase_add_test(tc, a_rollback_is_not_preempted_and_a_promotion_is);
    tcase_add_loop_test(tc, every_command_in_every_state, 0, ROLLOUT_STATE_COUNT);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
