/* rollout_driver_test.c: evidence belongs to its step, decisions come by ticks and commands, and a candidate is barred before
 * its rollback is durable. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/rollout_driver.h"

#include <pthread.h>

#include "config/mem.h"
#include "sched/release/registry_priv.h"
#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"

enum { REQUESTS = 6000 };

static struct registry *registry;
static struct rollout_driver *driver;
static struct world world;
static struct why why;
static char first[SHA256_HEX], second[SHA256_HEX], rollout[REGISTRY_KEY_ROOM];
static struct lane_evidence lanes[2]; /* candidate, baseline */
static bool has_lanes;
static int n_bars, n_unbars, n_decisions;
static int64_t now_us;

static bool lanes_of(void *user, const struct release_rollout *ro,
                     struct lane_evidence *ret_candidate, struct lane_evidence *ret_baseline)
{
    (void)user;
    ck_assert_str_eq(ro->candidate, second);
    *ret_candidate = lanes[0];
    *ret_baseline = lanes[1];
    return has_lanes;
}

static void bar(void *user, const char *candidate, bool is_barred)
{
    struct projection p;
    (void)user;
    ck_assert_str_eq(candidate, second);
    n_bars += is_barred;
    n_unbars += !is_barred;
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.barred, ""); /* it comes before the row */
    snprintf(world.barred, sizeof world.barred, "%s", is_barred ? candidate : "");
}

static void decided(void *user, const struct release_rollout *ro,
                    const struct rollout_decision *decision)
{
    (void)user, (void)ro;
    ck_assert_int_ne(decision->action, ACTION_NONE);
    n_decisions++;
}

static void make_driver(void)
{
    const struct rollout_driver_options options = {
        .lanes = lanes_of, .bar = bar, .on_decision = decided};
    ck_ok(rollout_driver_new(&options, &driver, &why));
}

static struct change_terms terms_now(void)
{
    struct change_terms terms = rig_terms(now_us);
    return terms;
}

static void begin(void)
{
    now_us = 1000000;
    n_bars = n_unbars = n_decisions = 0;
    has_lanes = true;
    memset(lanes, 0, sizeof lanes);
    ck_ok(registry_open(NULL, &registry, &why));
    ck_ok(rig_found(registry, "first", first, &why));
    ck_ok(rig_publish(registry, "second", NULL, NULL, second, &why));
    ck_ok(world_recover(&world, registry, &why));
    make_driver();
}

static void end(void)
{
    ck_assert_msg(world.n_wrong == 0, "%s", world.wrong);
    rollout_driver_free(&driver);
    registry_close(&registry);
}

static void start(bool is_auto)
{
    struct rollout_plan plan;
    const struct change_terms terms = terms_now();
    rig_plan(is_auto, &plan);
    ck_ok(rollout_driver_start(driver, registry, &terms, second, &plan, rollout, &why));
}

static enum status command(enum rollout_event_kind kind)
{
    const struct change_terms terms = terms_now();
    return rollout_driver_command(driver, registry, &terms, rollout, kind, &why);
}

/* A quarter of a second later. */
static bool tick(void)
{
    bool has_changed;
    now_us += ROLLOUT_TICK_MS * 1000;
    ck_ok(rollout_driver_tick(driver, registry, now_us, &has_changed, &why));
    return has_changed;
}

static void stands(enum rollout_state state, uint32_t step)
{
    struct release_rollout read;
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    ck_assert_str_eq(rollout_state_name(read.now.state), rollout_state_name(state));
    ck_assert_uint_eq(read.now.step, step);
}

static void add_requests(enum arm arm, int n)
{
    const struct request_outcome outcome = {arm, false, 300000000, 40000000};
    for (int i = 0; i < n; i++)
        rollout_driver_outcome(driver, &outcome);
}

static void measure(struct lane_evidence *lane)
{
    lane->n_steps += 1000;
    lane->step_ns += 1000000;
    lane->n_samples += 20;
    lane->n_snapshots++;
    lane->expected_bytes = lane->resident_bytes = 1 << 20;
    lane->has_plan_receipt = true;
    lane->issued_bytes += 1100 << 10;
    lane->logical_bytes += 1000 << 10;
}

/* All that a step of an equal candidate leaves. */
static void serve(void)
{
    const struct quality_slice slice = {
        .name = "code", .n_tokens = 100, .candidate_unats = 200000000, .baseline_unats = 200000000};
    add_requests(ARM_CANARY, REQUESTS);
    add_requests(ARM_CONTROL, REQUESTS);
    ck_assert(rollout_driver_quality(driver, &slice, 1));
    measure(&lanes[0]);
    measure(&lanes[1]);
}

static struct quality_slice quality_of(const char *name)
{
    static struct gate_evidence evidence;
    rollout_driver_copy(driver, &evidence);
    for (uint32_t i = 0; i < evidence.n_slices; i++)
        if (strcmp(evidence.slices[i].name, name) == 0)
            return evidence.slices[i];
    return (struct quality_slice){0};
}

static uint64_t canary_requests(void)
{
    static struct gate_evidence evidence;
    rollout_driver_copy(driver, &evidence);
    return evidence.canary.n_requests;
}

START_TEST(a_late_drop_in_quality_is_not_diluted)
{
    struct quality_slice slices[] = {
        {.name = "code", .n_tokens = 100, .candidate_unats = 200000000, .baseline_unats = 200000000},
        {.name = "text", .n_tokens = 100, .candidate_unats = 100000000, .baseline_unats = 100000000}};
    start(true);
    ck_assert(!tick());
    for (int run = 0; run < 50; run++)
        ck_assert(rollout_driver_quality(driver, slices, 2));
    ck_assert_uint_eq(quality_of("code").n_tokens, 100);
    ck_assert(!tick()); /* too few requests, nothing else */
    slices[0].candidate_unats = 220000000; /* 10 % worse: over 51 runs 0.2 % */
    ck_assert(rollout_driver_quality(driver, slices, 2));
    ck_assert_uint_eq(quality_of("code").candidate_unats, 220000000);
    ck_assert(tick());
    stands(ROLLOUT_ROLLING_BACK, 0);
}
END_TEST

START_TEST(an_equal_candidate_is_promoted_step_by_step)
{
    struct projection p;
    add_requests(ARM_CANARY, 5); /* nobody has traffic yet */
    start(true);
    ck_assert_uint_eq(canary_requests(), 0);
    for (uint32_t step = 0; step < 3; step++) {
        stands(ROLLOUT_STEP, step);
        ck_assert(!tick());
        serve();
        ck_assert(tick());
        ck_assert_uint_eq(canary_requests(), step < 2 ? 0u : REQUESTS);
    }
    stands(ROLLOUT_PROMOTING, 2);
    ck_ok(world_settle(&world, &why));
    ck_assert(!tick());
    stands(ROLLOUT_PROMOTED, 2);
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.stable, second);
    ck_assert_int_eq(n_bars, 0);
    ck_assert_int_eq(n_decisions, 4);
    add_requests(ARM_CANARY, 5);
    ck_assert_uint_eq(canary_requests(), 0);
}
END_TEST

START_TEST(a_breach_bars_before_it_is_durable)
{
    start(true);
    serve();
    lane_evidence_add_sample(&lanes[0], 0.01);
    ck_assert(tick());
    ck_assert_int_eq(n_bars, 1);
    stands(ROLLOUT_ROLLING_BACK, 0);
    ck_ok(world_settle(&world, &why));
    stands(ROLLOUT_ROLLED_BACK, 0);
    ck_assert(!tick());
    ck_assert_int_eq(n_unbars, 0);
}
END_TEST

/* A disk that fails in the middle of it: barred, and decided as soon as it can be written. */
START_TEST(what_cannot_be_written_stays_barred)
{
    bool has_changed;
    start(true);
    serve();
    lane_evidence_add_sample(&lanes[0], 0.01);
    registry->is_lost = true;
    ck_assert_int_eq(rollout_driver_tick(driver, registry, now_us, &has_changed, &why),
                     STATUS_READ_ONLY);
    ck_assert(!has_changed);
    ck_assert_int_eq(n_bars, 1);
    ck_assert_int_eq(n_unbars, 0);
    registry->is_lost = false;
    ck_assert(tick());
    stands(ROLLOUT_ROLLING_BACK, 0);
}
END_TEST

START_TEST(commands_are_events)
{
    start(false);
    stands(ROLLOUT_AWAITING_APPROVAL, 0);
    ck_ok(command(EVENT_APPROVE));
    stands(ROLLOUT_STEP, 0);
    add_requests(ARM_CANARY, 7);
    ck_ok(command(EVENT_PAUSE));
    ck_assert(!tick());
    add_requests(ARM_CANARY, 7); /* a pause keeps the traffic and the evidence */
    ck_ok(command(EVENT_RESUME));
    ck_assert_uint_eq(canary_requests(), 14);
    ck_assert_int_eq(command(EVENT_PROMOTE), STATUS_WRONG_STATE); /* not yet */
    ck_assert_int_eq(n_bars, 0);
    serve();
    ck_ok(command(EVENT_PROMOTE));
    stands(ROLLOUT_AWAITING_APPROVAL, 0);
    ck_ok(command(EVENT_APPROVE));
    stands(ROLLOUT_PROMOTING, 0);
    ck_ok(command(EVENT_ABORT));
    stands(ROLLOUT_ROLLING_BACK, 0);
    ck_assert_int_eq(n_bars, 1);
}
END_TEST

START_TEST(a_refused_abort_bars_nobody)
{
    struct change_terms terms = terms_now();
    start(true);
    terms.is_dry_run = true;
    ck_ok(rollout_driver_command(driver, registry, &terms, rollout, EVENT_ABORT, &why));
    ck_assert_int_eq(n_bars, 0);
    terms.is_dry_run = false;
    terms.epoch_expected = 99;
    ck_assert_int_eq(rollout_driver_command(driver, registry, &terms, rollout, EVENT_ABORT, &why),
                     STATUS_EPOCH_MISMATCH);
    ck_assert_int_eq(n_bars, 0);
    stands(ROLLOUT_STEP, 0);
}
END_TEST

START_TEST(back_after_the_promotion)
{
    char key[REGISTRY_KEY_ROOM];
    const struct change_terms terms = terms_now();
    start(true);
    for (int step = 0; step < 3; step++) {
        serve();
        ck_assert(tick());
    }
    ck_ok(world_settle(&world, &why));
    ck_ok(rollout_driver_roll_back(driver, registry, &terms, key, &why));
    ck_assert_str_eq(key, rollout);
    ck_assert_int_eq(n_bars, 1);
    ck_ok(world_settle(&world, &why));
    stands(ROLLOUT_ROLLED_BACK, 2);
    ck_assert_int_eq(rollout_driver_roll_back(driver, registry, &terms, key, &why),
                     STATUS_ILLEGAL_MOVE);
    ck_assert_int_eq(n_bars, 1);
}
END_TEST

START_TEST(a_restart_begins_the_evidence_anew)
{
    start(true);
    add_requests(ARM_CANARY, 7);
    rollout_driver_free(&driver);
    make_driver();
    add_requests(ARM_CANARY, 3); /* before the first tick nobody knows of the rollout */
    ck_assert(!tick());
    add_requests(ARM_CANARY, 2);
    ck_assert_uint_eq(canary_requests(), 2);
}
END_TEST

/* What was measured before the step is not of the step, unless it is a breach; a lane that was loaded anew counts from 0. */
START_TEST(lanes_count_from_the_beginning_of_the_step)
{
    static struct gate_evidence evidence;
    measure(&lanes[0]);
    measure(&lanes[1]);
    start(true);
    measure(&lanes[0]);
    measure(&lanes[1]);
    ck_assert(!tick());
    rollout_driver_copy(driver, &evidence);
    ck_assert_uint_eq(evidence.n_numerical_samples, 20);
    ck_assert_uint_eq(evidence.logical_kib, 1000);
    memset(&lanes[0], 0, sizeof lanes[0]);
    lanes[0].n_samples = 3;
    ck_assert(!tick());
    rollout_driver_copy(driver, &evidence);
    ck_assert_uint_eq(evidence.n_numerical_samples, 3);
    has_lanes = false; /* stays as it was */
    lanes[0].n_samples = 9;
    ck_assert(!tick());
    rollout_driver_copy(driver, &evidence);
    ck_assert_uint_eq(evidence.n_numerical_samples, 3);
}
END_TEST

static void read_status(struct record *ret_status)
{
    char *text;
    ck_ok(rollout_driver_status(driver, registry, rollout, &text, &why));
    ck_ok(record_read(text, strlen(text), ret_status, &why));
    mem_free(text);
}

START_TEST(status_shows_arms_and_gates)
{
    struct record status;
    char *text;
    int64_t number;
    start(true);
    serve();
    read_status(&status);
    struct record now = record_child(&status, "now"), arms = record_child(&status, "arms"),
                  plan = record_child(&status, "plan");
    struct record canary = record_child(&arms, "canary"),
                  gate = record_item(&status, "gates", GATE_TPOT_P99);
    ck_assert_str_eq(record_text(&status, "id"), rollout);
    ck_assert_str_eq(record_text(&now, "state"), "step");
    ck_assert_uint_eq(record_list_count(&plan, "steps"), 3);
    ck_assert_uint_eq(record_list_count(&status, "decisions"), 1);
    ck_assert(record_number(&status, "weight_bp", &number) && number == 100);
    ck_assert(record_number(&canary, "requests", &number) && number == REQUESTS);
    ck_assert(record_number(&canary, "tpot_p99_ns", &number));
    ck_assert_int_ge(number, 40000000);
    ck_assert_int_le(number, 40400000);
    ck_assert_uint_eq(record_list_count(&status, "gates"), GATE_COUNT);
    ck_assert_str_eq(record_text(&gate, "gate"), "tpot_p99");
    ck_assert_str_eq(record_text(&gate, "verdict"), "pass");
    record_release(&status);
    ck_ok(command(EVENT_ABORT));
    ck_ok(world_settle(&world, &why));
    read_status(&status); /* over: no arms, and its decisions are still there */
    ck_assert(!record_has(&status, "arms"));
    ck_assert_uint_eq(record_list_count(&status, "decisions"), 3);
    record_release(&status);
    ck_assert_int_eq(rollout_driver_status(driver, registry, "000000000099", &text, &why),
                     STATUS_NOT_FOUND);
}
END_TEST

static enum gate_verdict verdict_of(enum gate gate)
{
    static struct release_rollout read;
    enum gate_verdict verdicts[GATE_COUNT];
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    return rollout_driver_verdicts(driver, registry, &read, verdicts) ? verdicts[gate] : VERDICT_NO_DATA;
}

static void shows_the_failure(void)
{
    struct record status;
    int64_t number;
    read_status(&status);
    struct record gate = record_item(&status, "gates", GATE_NUMERICAL), arms = record_child(&status, "arms"),
                  canary = record_child(&arms, "canary"), judged = record_child(&status, "judged");
    ck_assert_str_eq(record_text(&gate, "gate"), "numerical");
    ck_assert_str_eq(record_text(&gate, "verdict"), "fail");
    ck_assert_ptr_nonnull(strstr(record_text(&gate, "figures"), "is 10000000 ppb"));
    ck_assert(record_number(&canary, "requests", &number) && number == REQUESTS);
    ck_assert(record_number(&judged, "step", &number) && number == 0);
    ck_assert(record_number(&judged, "at_ms", &number) && number == now_us / 1000);
    ck_assert_str_eq(record_text(&judged, "decision"), record_item_text(&status, "decisions", 1));
    ck_assert_int_eq(verdict_of(GATE_NUMERICAL), VERDICT_FAIL);
    ck_assert_int_eq(verdict_of(GATE_TPOT_P99), VERDICT_PASS);
    record_release(&status);
}

/* In the very tick that failed, while it is rolled back, when it is over, and after a restart. */
START_TEST(the_verdicts_that_ended_it_stay)
{
    struct record status;
    start(true);
    ck_assert_int_eq(verdict_of(GATE_NUMERICAL), VERDICT_NO_DATA);
    serve();
    ck_assert_int_eq(verdict_of(GATE_TPOT_P99), VERDICT_PASS);
    read_status(&status);
    ck_assert(!record_has(&status, "judged")); /* they are of now */
    record_release(&status);
    lane_evidence_add_sample(&lanes[0], 0.01);
    ck_assert(tick());
    stands(ROLLOUT_ROLLING_BACK, 0);
    shows_the_failure();
    ck_ok(world_settle(&world, &why));
    stands(ROLLOUT_ROLLED_BACK, 0);
    shows_the_failure();
    rollout_driver_free(&driver);
    make_driver();
    shows_the_failure();
}
END_TEST

static void *add_many(void *user)
{
    add_requests(*(enum arm *)user, 2000);
    return NULL;
}

START_TEST(outcomes_come_from_any_thread)
{
    enum arm arms[2] = {ARM_CANARY, ARM_CONTROL};
    pthread_t threads[2];
    static struct gate_evidence evidence;
    start(true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, &arms[i]), 0);
    for (int i = 0; i < 10; i++) {
        struct record status;
        measure(&lanes[0]);
        read_status(&status);
        record_release(&status);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    rollout_driver_copy(driver, &evidence);
    ck_assert_uint_eq(evidence.canary.n_requests, 2000);
    ck_assert_uint_eq(evidence.n_stable_requests, 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rollout_driver");
    TCase *tcase = tcase_create("rollout_driver");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, an_equal_candidate_is_promoted_step_by_step);
    tcase_add_test(tcase, a_late_drop_in_quality_is_not_diluted);
    tcase_add_test(tcase, a_breach_bars_before_it_is_durable);
    tcase_add_test(tcase, what_cannot_be_written_stays_barred);
    tcase_add_test(tcase, commands_are_events);
    tcase_add_test(tcase, a_refused_abort_bars_nobody);
    tcase_add_test(tcase, back_after_the_promotion);
    tcase_add_test(tcase, a_restart_begins_the_evidence_anew);
    tcase_add_test(tcase, lanes_count_from_the_beginning_of_the_step);
    tcase_add_test(tcase, status_shows_arms_and_gates);
    tcase_add_test(tcase, the_verdicts_that_ended_it_stay);
    tcase_add_test(tcase, outcomes_come_from_any_thread);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
