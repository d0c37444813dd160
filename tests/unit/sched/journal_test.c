/* journal_test.c: a release from its registration to promotion and to rollback, and the order of the journal's steps. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/journal.h"

#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"

static struct registry *registry;
static struct world world;
static struct why why;
static char first[SHA256_HEX], second[SHA256_HEX], third[SHA256_HEX];

static void begin(void)
{
    ck_ok(registry_open(NULL, &registry, &why));
    ck_ok(rig_found(registry, "first", first, &why));
    ck_ok(rig_publish(registry, "second", NULL, NULL, second, &why));
    ck_ok(world_recover(&world, registry, &why));
}

static void end(void)
{
    ck_assert_msg(world.n_wrong == 0, "%s", world.wrong);
    registry_close(&registry);
}

static void start(const char *id, bool is_auto, char ret_rollout[REGISTRY_KEY_ROOM])
{
    ck_ok(rig_start(registry, id, is_auto, ret_rollout, &why));
}

static void promote(const char *id)
{
    char rollout[REGISTRY_KEY_ROOM];
    start(id, true, rollout);
    for (int step = 1; step <= 3; step++)
        ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(world_settle(&world, &why));
}

static void stands(const char *rollout, enum rollout_state state)
{
    struct release_rollout read;
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    ck_assert_str_eq(rollout_state_name(read.now.state), rollout_state_name(state));
}

static void text_of(enum registry_table table, const char *key, const char *member,
                    const char *expected)
{
    struct record row;
    ck_ok(registry_get(registry, table, key, &row, &why));
    const char *text = record_text(&row, member);
    if (expected == NULL)
        ck_assert_ptr_null(text);
    else
        ck_assert_str_eq(text, expected);
    record_release(&row);
}

static void bar_in_memory(void)
{
    struct projection p;
    ck_ok(projection_read(registry, &p, &why));
    snprintf(world.barred, sizeof world.barred, "%s", p.barred);
}

START_TEST(a_candidate_is_promoted)
{
    struct projection p;
    char rollout[REGISTRY_KEY_ROOM];
    start(second, false, rollout);
    stands(rollout, ROLLOUT_AWAITING_APPROVAL);
    ck_ok(projection_read(registry, &p, &why));
    ck_assert(!p.is_candidate_admitted);
    ck_ok(rig_command(registry, EVENT_APPROVE, NULL, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert(p.is_candidate_admitted);
    ck_assert_str_eq(p.candidate, second);
    ck_assert_uint_eq(p.weight_bp, 100);
    ck_assert_uint_eq(strlen(p.control_namespace), 64);
    ck_assert_str_ne(p.control_namespace, p.stable_namespace);
    ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_uint_eq(p.weight_bp, 2500);
    ck_ok(rig_tick(registry, RIG_PASS, &why));
    stands(rollout, ROLLOUT_AWAITING_APPROVAL);
    ck_ok(rig_command(registry, EVENT_APPROVE, NULL, &why));
    ck_ok(world_settle(&world, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.stable, second);
    ck_assert_str_eq(p.previous, first);
    ck_assert_str_eq(p.candidate, "");
    ck_assert_str_eq(world.stable, second);
    stands(rollout, ROLLOUT_PROMOTED);
    text_of(REGISTRY_GENERATIONS, second, "state", "stable");
    text_of(REGISTRY_GENERATIONS, first, "state", "previous");
}
END_TEST

START_TEST(a_gate_that_fails_rolls_back_in_the_order_of_the_contract)
{
    char rollout[REGISTRY_KEY_ROOM], key[REGISTRY_KEY_ROOM];
    struct projection p;
    start(second, true, rollout);
    ck_ok(rig_tick(registry, RIG_PASS, &why));
    world.in_flight = 3;
    world.drain_turns = 2;
    ck_ok(rig_tick(registry, RIG_FAIL, &why));
    stands(rollout, ROLLOUT_ROLLING_BACK);
    ck_ok(projection_read(registry, &p, &why));
    ck_assert(!p.is_candidate_admitted);
    ck_assert_str_eq(p.pinned, first);
    bar_in_memory();
    ck_ok(world_settle(&world, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.stable, first);
    ck_assert_str_eq(p.candidate, "");
    ck_assert_str_eq(p.barred, "");
    stands(rollout, ROLLOUT_ROLLED_BACK);
    struct release_rollout read;
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    ck_assert_str_eq(rollout_reason_name(read.now.reason), "gate_failed");
    ck_assert_int_eq(read.now.gate, GATE_NUMERICAL);
    ck_assert_uint_eq(read.n_decisions, 4); /* start, a pass, the breach, the end */
    ck_assert_ptr_nonnull(strstr(read.note, "gate numerical: gate_failed ("));
    text_of(REGISTRY_GENERATIONS, second, "state", "rolled_back");
    ck_assert_int_eq(world.n_applied[STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS], 3);
    static const char *const order[] = {"STOP_NEW_CANDIDATE_ADMISSION",
                                        "PIN_PREVIOUS_ACTIVE_RELEASE",
                                        "DRAIN_OR_ABORT_CANDIDATE_REQUESTS",
                                        "FENCE_CANDIDATE_CACHE_NAMESPACE",
                                        "RESTORE_PREVIOUS_ROUTE",
                                        "RETAIN_FAILED_RECEIPTS_FOR_AUDIT",
                                        "ROLLBACK_COMPLETE"};
    for (int i = 1; i <= 7; i++) {
        snprintf(key, sizeof key, "000000000001.%02d", i);
        text_of(REGISTRY_JOURNAL_STEPS, key, "step", order[i - 1]);
    }
}
END_TEST

START_TEST(what_was_promoted_is_rolled_back_to_the_previous_one)
{
    struct projection p;
    promote(second);
    ck_ok(rig_roll_back(registry, "the operator says so", &why));
    bar_in_memory();
    ck_assert_str_eq(world.barred, second);
    ck_ok(world_settle(&world, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.stable, first);
    ck_assert_str_eq(p.previous, "");
    ck_assert_str_eq(world.stable, first);
    text_of(REGISTRY_GENERATIONS, first, "state", "stable");
    text_of(REGISTRY_GENERATIONS, second, "state", "rolled_back");
    ck_assert_int_eq(rig_roll_back(registry, "again", &why), STATUS_ILLEGAL_MOVE);
    /* The same content again: the same id, another namespace, and the old one stays fenced. */
    char again[SHA256_HEX];
    struct record row;
    ck_ok(rig_publish(registry, "second", NULL, NULL, again, &why));
    ck_assert_str_eq(again, second);
    ck_ok(registry_get(registry, REGISTRY_GENERATIONS, second, &row, &why));
    ck_assert(!world_is_fenced(&world, record_text(&row, "namespace")));
    record_release(&row);
    ck_assert_int_ge(world.n_fenced, 1);
}
END_TEST

START_TEST(the_next_promotion_retires_the_one_before)
{
    promote(second);
    ck_ok(rig_publish(registry, "third", NULL, NULL, third, &why));
    promote(third);
    text_of(REGISTRY_GENERATIONS, first, "state", "retired");
    text_of(REGISTRY_GENERATIONS, second, "state", "previous");
    text_of(REGISTRY_GENERATIONS, third, "state", "stable");
    struct record row;
    ck_ok(registry_get(registry, REGISTRY_GENERATIONS, first, &row, &why));
    ck_assert(world_is_fenced(&world, record_text(&row, "namespace")));
    record_release(&row);
}
END_TEST

START_TEST(a_rollback_preempts_a_promotion_and_nothing_preempts_it)
{
    char rollout[REGISTRY_KEY_ROOM];
    start(second, true, rollout);
    for (int step = 1; step <= 3; step++)
        ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(rig_command(registry, EVENT_ABORT, "second thoughts", &why));
    text_of(REGISTRY_JOURNALS, "000000000001", "state", "preempted");
    ck_assert_int_eq(rig_roll_back(registry, "again", &why), STATUS_TRANSITION_IN_PROGRESS);
    ck_assert_int_eq(rig_command(registry, EVENT_PAUSE, "wait", &why),
                     STATUS_TRANSITION_IN_PROGRESS);
    ck_assert_int_eq(rig_command(registry, EVENT_ABORT, "again", &why),
                     STATUS_TRANSITION_IN_PROGRESS);
    bar_in_memory();
    ck_ok(world_settle(&world, &why));
    text_of(REGISTRY_GENERATIONS, second, "state", "rolled_back");
    text_of(REGISTRY_GENERATIONS, first, "state", "stable");
}
END_TEST

START_TEST(a_previous_release_that_does_not_verify_blocks)
{
    char rollout[REGISTRY_KEY_ROOM];
    struct projection p;
    start(second, true, rollout);
    ck_ok(rig_roll_back(registry, "by hand", &why));
    bar_in_memory();
    world.is_pin_failing = true;
    ck_assert_int_eq(world_settle(&world, &why), STATUS_ROLLBACK_BLOCKED);
    ck_assert_ptr_nonnull(strstr(why.text, "the weights are not what was hashed"));
    stands(rollout, ROLLOUT_BLOCKED);
    ck_ok(projection_read(registry, &p, &why));
    ck_assert(!p.is_candidate_admitted);
    world.is_pin_failing = false;
    ck_assert_int_eq(world_settle(&world, &why),
                     STATUS_ROLLBACK_BLOCKED); /* it waits for a person */
    ck_ok(rig_roll_back(registry, "try again", &why));
    ck_ok(world_settle(&world, &why));
    stands(rollout, ROLLOUT_ROLLED_BACK);
}
END_TEST

START_TEST(pause_resume_abort)
{
    char rollout[REGISTRY_KEY_ROOM];
    struct release_rollout read;
    start(second, true, rollout);
    ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(rig_tick(registry, RIG_PAUSE, &why));
    stands(rollout, ROLLOUT_PAUSED);
    ck_ok(rig_tick(registry, RIG_PASS, &why)); /* nobody resumed it */
    stands(rollout, ROLLOUT_PAUSED);
    ck_assert_int_eq(rig_command(registry, EVENT_APPROVE, NULL, &why), STATUS_WRONG_STATE);
    ck_ok(rig_command(registry, EVENT_RESUME, NULL, &why));
    stands(rollout, ROLLOUT_STEP);
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    ck_assert_uint_eq(read.now.step, 1);
    ck_ok(rig_command(registry, EVENT_PAUSE, "wait", &why));
    ck_ok(rig_command(registry, EVENT_ABORT, "enough", &why));
    bar_in_memory();
    ck_ok(world_settle(&world, &why));
    ck_ok(release_rollout_read(registry, rollout, &read, &why));
    ck_assert_str_eq(read.note, "enough");
    ck_assert_int_eq(rig_command(registry, EVENT_ABORT, "again", &why), STATUS_NOT_FOUND);
}
END_TEST

START_TEST(before_its_first_step_a_rollout_just_ends)
{
    char rollout[REGISTRY_KEY_ROOM], next[REGISTRY_KEY_ROOM];
    start(second, false, rollout);
    ck_ok(rig_command(registry, EVENT_ABORT, "not today", &why));
    stands(rollout, ROLLOUT_REJECTED);
    text_of(REGISTRY_GENERATIONS, second, "state", "warmed");
    start(second, false, next);
    ck_assert_str_ne(rollout, next);
}
END_TEST

/* Back at any moment: what awaits its approval does not stand in the way. */
START_TEST(a_rollback_rejects_what_only_awaits_approval)
{
    char rollout[REGISTRY_KEY_ROOM];
    struct projection p;
    promote(second);
    ck_ok(rig_publish(registry, "third", NULL, NULL, third, &why));
    start(third, false, rollout);
    ck_ok(rig_roll_back(registry, NULL, &why));
    stands(rollout, ROLLOUT_REJECTED);
    bar_in_memory();
    ck_ok(world_settle(&world, &why));
    ck_ok(projection_read(registry, &p, &why));
    ck_assert_str_eq(p.stable, first);
    text_of(REGISTRY_GENERATIONS, second, "state", "rolled_back");
}
END_TEST

/* It was promoted once, but another one is stable since. */
START_TEST(only_the_last_promotion_is_rolled_back)
{
    char rollout[REGISTRY_KEY_ROOM];
    struct rollout_decision decision;
    const struct change_terms terms = rig_terms(8);
    const struct rollout_event event = {.kind = EVENT_ABORT};
    start(second, true, rollout);
    for (int step = 1; step <= 3; step++)
        ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(world_settle(&world, &why));
    ck_ok(rig_publish(registry, "third", NULL, NULL, third, &why));
    promote(third);
    ck_assert_int_eq(release_rollout_apply(registry, &terms, rollout, &event, &decision, &why),
                     STATUS_ILLEGAL_MOVE);
    stands(rollout, ROLLOUT_PROMOTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal");
    TCase *tcase = tcase_create("journal");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_candidate_is_promoted);
    tcase_add_test(tcase, a_gate_that_fails_rolls_back_in_the_order_of_the_contract);
    tcase_add_test(tcase, what_was_promoted_is_rolled_back_to_the_previous_one);
    tcase_add_test(tcase, the_next_promotion_retires_the_one_before);
    tcase_add_test(tcase, a_rollback_preempts_a_promotion_and_nothing_preempts_it);
    tcase_add_test(tcase, a_previous_release_that_does_not_verify_blocks);
    tcase_add_test(tcase, pause_resume_abort);
    tcase_add_test(tcase, before_its_first_step_a_rollout_just_ends);
    tcase_add_test(tcase, a_rollback_rejects_what_only_awaits_approval);
    tcase_add_test(tcase, only_the_last_promotion_is_rolled_back);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
