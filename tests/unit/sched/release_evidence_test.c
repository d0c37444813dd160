/* release_evidence_test.c: an evaluation carries a rollout as long as it is of what is loaded and stable. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_evidence.h"

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
    ck_ok(rig_publish(registry, "third", NULL, NULL, third, &why));
    ck_ok(world_recover(&world, registry, &why));
}

static void end(void)
{
    registry_close(&registry);
}

static void hash_of(const char *label, const char *part, char ret_hex[SHA256_HEX])
{
    char text[64];
    snprintf(text, sizeof text, "%s/%s", part, label);
    rig_hash(text, ret_hex);
}

/* Loaded again: with another plan than it was registered with, or with that one. */
static void load_again(const char *id, const char *label, const char *plan)
{
    const struct change_terms terms = rig_terms(6);
    char space[SHA256_HEX], hash[SHA256_HEX], hex[SHA256_HEX];
    struct record row, receipts[AGREEMENT_RECEIPTS];
    ck_ok(registry_get(registry, REGISTRY_GENERATIONS, id, &row, &why));
    snprintf(space, sizeof space, "%s", record_text(&row, "namespace"));
    record_release(&row);
    rig_receipts(label, id, space, receipts);
    hash_of(plan, "plan", hex);
    record_set_text(&receipts[RECEIPT_PLAN], "plan", hex);
    record_set_text(&receipts[RECEIPT_PLAN], "backend", "scalar");
    ck_ok(release_receipt(registry, &terms, id, "plan", &receipts[RECEIPT_PLAN], hash, &why));
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
}

static void is_refused(enum status s, const char *field, const char *evaluated, const char *side,
                       const char *found)
{
    ck_assert_int_eq(s, STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, field);
    ck_assert_ptr_nonnull(strstr(why.text, "evaluate it again"));
    ck_assert_str_eq(why.parts[0].text, field);
    ck_assert_str_eq(why.parts[1].key, "evaluated");
    ck_assert_str_eq(why.parts[1].text, evaluated);
    ck_assert_str_eq(why.parts[2].key, side);
    ck_assert_str_eq(why.parts[2].text, found);
}

START_TEST(another_plan_carries_no_rollout)
{
    char own[SHA256_HEX], other[SHA256_HEX];
    hash_of("second", "plan", own);
    hash_of("other", "plan", other);
    load_again(second, "second", "other");
    is_refused(rig_start(registry, second, false, NULL, &why), "plan", own, "loaded", other);
    ck_assert_ptr_nonnull(strstr(why.text, "backend scalar"));
    load_again(second, "second", "second");
    ck_ok(rig_start(registry, second, false, NULL, &why));
    load_again(second, "second", "other"); /* between the start and its approval */
    is_refused(rig_command(registry, EVENT_APPROVE, NULL, &why), "plan", own, "loaded", other);
    load_again(second, "second", "second");
    ck_ok(rig_command(registry, EVENT_APPROVE, NULL, &why));
    ck_ok(rig_command(registry, EVENT_PAUSE, NULL, &why));
    load_again(second, "second", "other");
    is_refused(rig_command(registry, EVENT_RESUME, NULL, &why), "plan", own, "loaded", other);
    is_refused(rig_command(registry, EVENT_PROMOTE, NULL, &why), "plan", own, "loaded", other);
    ck_ok(rig_command(registry, EVENT_ABORT, NULL, &why)); /* the way back needs no evaluation */
}
END_TEST

START_TEST(another_baseline_carries_no_rollout)
{
    char was[SHA256_HEX], is[SHA256_HEX], own[SHA256_HEX], other[SHA256_HEX];
    hash_of("first", "identity", was);
    hash_of("second", "identity", is);
    ck_ok(rig_start(registry, second, true, NULL, &why));
    for (int step = 1; step <= 3; step++)
        ck_ok(rig_tick(registry, RIG_PASS, &why));
    ck_ok(world_settle(&world, &why));
    is_refused(rig_start(registry, third, false, NULL, &why), "baseline", was, "stable", is);
    ck_ok(rig_roll_back(registry, NULL, &why)); /* stable is what it was evaluated against */
    ck_ok(world_settle(&world, &why));
    hash_of("first", "plan", own);
    hash_of("other", "plan", other);
    load_again(first, "first", "other");
    is_refused(rig_start(registry, third, false, NULL, &why), "baseline_plan", own, "stable",
               other);
    load_again(first, "first", "first");
    ck_ok(rig_start(registry, third, false, NULL, &why));
}
END_TEST

START_TEST(no_other_writer_makes_a_stale_one_a_canary)
{
    const struct change_terms terms = rig_terms(7);
    struct change *change;
    load_again(second, "second", "other");
    ck_ok(change_begin(registry, &terms, "a.writer", &change, &why));
    ck_ok(release_put_state(registry, change, second, GENERATION_CANARY, NULL, &why));
    ck_assert_int_eq(change_commit(&change, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, "plan");
}
END_TEST

START_TEST(what_was_never_evaluated_is_no_evaluation_of_now)
{
    struct record row;
    ck_ok(registry_get(registry, REGISTRY_GENERATIONS, first, &row, &why));
    ck_assert_int_eq(release_evidence_current(registry, &row, &why), STATUS_RECEIPTS_DISAGREE);
    record_release(&row);
    ck_ok(registry_get(registry, REGISTRY_GENERATIONS, second, &row, &why));
    ck_ok(release_evidence_current(registry, &row, &why));
    record_release(&row);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("release_evidence");
    TCase *tcase = tcase_create("current");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, another_plan_carries_no_rollout);
    tcase_add_test(tcase, another_baseline_carries_no_rollout);
    tcase_add_test(tcase, no_other_writer_makes_a_stale_one_a_canary);
    tcase_add_test(tcase, what_was_never_evaluated_is_no_evaluation_of_now);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
