/* rollout_receipt_test.c: decisions are derived again from their receipts, and forgeries are not. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_receipt.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct rollout_plan plan;
static struct gate_evidence evidence;

static void setup(void)
{
    rollout_plan_defaults(&plan);
    gate_evidence_clear(&evidence);
    for (uint64_t i = 0; i < 12000; i++) {
        struct request_outcome outcome = {i % 2 == 0 ? ARM_CANARY : ARM_CONTROL, i % 1000 == 0,
                                          300000 * (900 + i % 200), 40000 * (900 + i % 200)};
        gate_evidence_add(&evidence, &plan.thresholds, &outcome);
    }
    evidence.has_plan_receipt = true;
}

/* The receipt of one event in one state. */
static char *receipt_of(enum rollout_state state, enum rollout_event_kind kind)
{
    struct rollout before = {.state = state, .has_served = true, .started_ms = 77}, next;
    struct rollout_event event = {kind, 99999, &evidence};
    struct rollout_decision decision;
    struct why why = {0};
    char *text = NULL;
    ck_assert_msg(rollout_apply(&before, &plan, &event, &next, &decision, &why) == OK, "%s",
                  why.text);
    ck_assert_int_eq(rollout_receipt_write(&before, &plan, &event, &next, &decision, &text, NULL),
                     OK);
    return text;
}

static enum status rederive(const char *text, struct why *ret_why)
{
    return rollout_receipt_rederive((struct slice){text, strlen(text)}, &plan, ret_why);
}

static const struct {
    enum rollout_state state;
    enum rollout_event_kind kind;
} decisions[] = {
    {ROLLOUT_STEP, EVENT_TICK},       {ROLLOUT_STEP, EVENT_PAUSE},
    {ROLLOUT_STEP, EVENT_ABORT},      {ROLLOUT_AWAITING_APPROVAL, EVENT_APPROVE},
    {ROLLOUT_PAUSED, EVENT_RESUME},   {ROLLOUT_ROLLING_BACK, EVENT_ROLLBACK_DONE},
    {ROLLOUT_EVALUATED, EVENT_START}, {ROLLOUT_PROMOTED, EVENT_ABORT},
};

START_TEST(decisions_are_derived_again)
{
    struct why why = {0};
    char *text = receipt_of(decisions[_i].state, decisions[_i].kind);
    ck_assert_msg(rederive(text, &why) == OK, "%s", why.text);
    if (_i == 0) /* quality, allocator and traffic have no data, and the sample is there */
        ck_assert_ptr_nonnull(strstr(text, "{\"action\":\"roll_back\",\"after\":{\"gate\":"
                                           "\"allocator_drift\",\"has_served\":true,\"reason\":"
                                           "\"no_data\""));
    mem_free(text);
}
END_TEST

/* One thing changed each time: an outcome, a verdict, the evidence under it, the plan. */
static const struct {
    const char *from, *to;
} forgeries[] = {
    {"\"action\":\"roll_back\"", "\"action\":\"begin_step\""},
    {"\"state\":\"rolling_back\"", "\"state\":\"step\""},
    {"\"gate\":\"error_rate\",\"verdict\":\"pass\"",
     "\"gate\":\"error_rate\",\"verdict\":\"fail\""},
    {"\"errors\":12", "\"errors\":11"},
    {"\"has\":true", "\"has\":false"},
    {"\"plan_sha256\":\"", "\"plan_sha256\":\"0"},
    {"\"event\":\"tick\"", "\"event\":\"pause\""},
    {"\"event\":\"tick\"", "\"event\":\"wish\""},
    {"\"at_ms\":99999", "\"at_ms\":-1"},
    {"{\"action\"", " {\"action\""},
    {"foldkv.rollout_decision/1", "foldkv.rollout_decision/9"},
};

START_TEST(forgeries_are_found)
{
    static char forged[ROLLOUT_RECEIPT_BYTES_MAX];
    struct why why = {0};
    char *text = receipt_of(ROLLOUT_STEP, EVENT_TICK);
    char *at = strstr(text, forgeries[_i].from);
    ck_assert_msg(at != NULL, "'%s' is not in the receipt", forgeries[_i].from);
    snprintf(forged, sizeof forged, "%.*s%s%s", (int)(at - text), text, forgeries[_i].to,
             at + strlen(forgeries[_i].from));
    ck_assert_int_eq(rederive(forged, &why), STATUS_BAD_FILE);
    ck_assert_uint_gt(strlen(why.text), 0);
    mem_free(text);
}
END_TEST

START_TEST(another_plan_does_not_give_this_receipt)
{
    struct why why = {0};
    char *text = receipt_of(ROLLOUT_STEP, EVENT_TICK);
    plan.thresholds.ttft_p99_eps_ppm++;
    ck_assert_int_eq(rederive(text, &why), STATUS_BAD_FILE);
    mem_free(text);
}
END_TEST

START_TEST(damaged_receipts_are_refused)
{
    struct why why = {0};
    char *text = receipt_of(ROLLOUT_STEP, EVENT_TICK);
    size_t len = strlen(text);
    for (size_t cut = 0; cut < len; cut += 1 + len / 50)
        ck_assert_int_eq(rollout_receipt_rederive((struct slice){text, cut}, &plan, &why),
                         STATUS_BAD_FILE);
    mem_free(text);
}
END_TEST

/* Every allocation fails once, in writing and in re-deriving. */
START_TEST(memory_that_cannot_be_had)
{
    struct why why = {0};
    char *text = receipt_of(ROLLOUT_STEP, EVENT_TICK);
    for (uint64_t n = 1; n < 100; n++) {
        mem_fail_nth(n);
        enum status s = rederive(text, &why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, has_struck ? STATUS_NO_MEMORY : OK);
        if (!has_struck) {
            ck_assert_uint_gt(n, 5);
            mem_free(text);
            return;
        }
    }
    ck_abort();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rollout_receipt");
    TCase *tc = tcase_create("rollout_receipt");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, decisions_are_derived_again, 0, (int)ARRAY_LEN(decisions));
    tcase_add_loop_test(tc, forgeries_are_found, 0, (int)ARRAY_LEN(forgeries));
    tcase_add_test(tc, another_plan_does_not_give_this_receipt);
    tcase_add_test(tc, damaged_receipts_are_refused);
    tcase_add_test(tc, memory_that_cannot_be_had);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
