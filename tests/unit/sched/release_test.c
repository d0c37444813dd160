/* release_test.c: registering by content, and each rule that a change may break. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release.h"

#include "sched/release/release_rules.h"
#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"

static struct registry *registry;
static struct why why;
static char first[SHA256_HEX];

static void begin(void)
{
    ck_assert_int_eq(registry_open(NULL, &registry, &why), OK);
    ck_assert_int_eq(rig_found(registry, "first", first, &why), OK);
}

static void end(void)
{
    registry_close(&registry);
}

static char hashes[4][SHA256_HEX];

static struct release_content content(const char *name)
{
    static const char *const parts[] = {"c", "i", "p", "e"};
    for (int i = 0; i < 4; i++)
        rig_hash(parts[i], hashes[i]);
    return (struct release_content){.checkpoint = hashes[0],
                                    .identity = hashes[1],
                                    .plan = hashes[2],
                                    .evaluation_set = hashes[3],
                                    .name = name};
}

START_TEST(content_is_registered_once)
{
    struct release_content c = content("new");
    const struct change_terms terms = rig_terms(2);
    char id[SHA256_HEX], again[SHA256_HEX];
    bool is_new;
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), OK);
    ck_assert(is_new);
    ck_assert_int_eq(release_register(registry, &terms, &c, again, &is_new, &why), OK);
    ck_assert(!is_new);
    ck_assert_str_eq(id, again);
    const char *own = c.name;
    c.name = NULL; /* says nothing of a name */
    ck_assert_int_eq(release_register(registry, &terms, &c, again, &is_new, &why), OK);
    c.name = "another";
    ck_assert_int_eq(release_register(registry, &terms, &c, again, &is_new, &why),
                     STATUS_NAME_TAKEN);
    ck_assert_ptr_nonnull(strstr(why.text, "already, named 'new': it is not named 'another' as well"));
    c.name = own;
    rig_hash("other", hashes[0]);
    c.name = "first"; /* another generation's */
    ck_assert_int_eq(release_register(registry, &terms, &c, again, &is_new, &why),
                     STATUS_NAME_TAKEN);
    ck_assert_ptr_nonnull(strstr(why.text, "'first' is the name of generation"));
}
END_TEST

START_TEST(what_is_rejected_comes_back_under_another_namespace)
{
    struct release_content c = content("new");
    const struct change_terms terms = rig_terms(2);
    struct record row;
    char id[SHA256_HEX], before[SHA256_HEX];
    bool is_new;
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), OK);
    ck_assert_int_eq(registry_get(registry, REGISTRY_GENERATIONS, id, &row, &why), OK);
    snprintf(before, sizeof before, "%s", record_text(&row, "namespace"));
    record_release(&row);
    ck_assert_int_eq(
        release_move_generation(registry, &terms, id, GENERATION_REJECTED, "does not load", &why),
        OK);
    ck_assert_int_eq(registry_get(registry, REGISTRY_NAMESPACES, before, &row, &why), OK);
    ck_assert_str_eq(record_text(&row, "state"), "fenced");
    record_release(&row);
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), OK);
    ck_assert(is_new);
    ck_assert_int_eq(registry_get(registry, REGISTRY_GENERATIONS, id, &row, &why), OK);
    ck_assert_str_ne(record_text(&row, "namespace"), before);
    record_release(&row);
}
END_TEST

START_TEST(bad_content_is_named)
{
    struct release_content c = content("new");
    const struct change_terms terms = rig_terms(2);
    char id[SHA256_HEX];
    bool is_new;
    c.plan = "abc";
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, "plan");
    c = content("a name");
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), STATUS_BAD_REQUEST);
    c = content("a\nb");
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), STATUS_BAD_REQUEST);
    c = content(hashes[0]);
    ck_assert_int_eq(release_register(registry, &terms, &c, id, &is_new, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, "name");
}
END_TEST

/* Registered, loading, with receipts that the caller may spoil first. */
static void load(const char *label, int odd, const char *field, char ret_id[SHA256_HEX])
{
    struct release_content c = content(label);
    char part[100], hash[SHA256_HEX];
    struct record row, receipts[AGREEMENT_RECEIPTS];
    const struct change_terms terms = rig_terms(2);
    bool is_new;
    snprintf(part, sizeof part, "identity/%s", label);
    rig_hash(part, hashes[1]);
    snprintf(part, sizeof part, "plan/%s", label);
    rig_hash(part, hashes[2]);
    ck_assert_int_eq(release_register(registry, &terms, &c, ret_id, &is_new, &why), OK);
    ck_assert_int_eq(
        release_move_generation(registry, &terms, ret_id, GENERATION_LOADING, NULL, &why), OK);
    ck_assert_int_eq(registry_get(registry, REGISTRY_GENERATIONS, ret_id, &row, &why), OK);
    rig_receipts(label, ret_id, record_text(&row, "namespace"), receipts);
    record_release(&row);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        if (i == odd)
            record_set_text(&receipts[i], field, "odd");
        if (i != odd || field != NULL)
            ck_assert_int_eq(release_receipt(registry, &terms, ret_id,
                                             agreement_receipt_text((enum agreement_receipt)i),
                                             &receipts[i], hash, &why),
                             OK);
        record_release(&receipts[i]);
    }
    ck_assert_int_eq(
        release_move_generation(registry, &terms, ret_id, GENERATION_READY, NULL, &why), OK);
}

/* An evaluation under its manifest; of another generation, or failing, or with one of the two altered. */
static enum status evaluate(const char *id, const char *of, bool passes, const char *spoilt)
{
    struct record row, baseline, manifest, evaluation;
    char hash[SHA256_HEX], other[SHA256_HEX];
    const struct change_terms terms = rig_terms(2);
    ck_assert_int_eq(registry_get(registry, REGISTRY_GENERATIONS, of, &row, &why), OK);
    rig_hash("baseline", other);
    record_copy(&row, &baseline);
    record_set_text(&baseline, "identity", other);
    ck_assert_int_eq(rig_evaluation(&row, &baseline, passes, &manifest, &evaluation, &why), OK);
    record_release(&baseline);
    if (spoilt != NULL && strcmp(spoilt, "manifest") == 0)
        record_set_number(&manifest, "warmup_runs", 9);
    if (spoilt != NULL && strcmp(spoilt, "passes") == 0)
        record_set_flag(&evaluation, "passes", true);
    record_release(&row);
    ck_assert_int_eq(
        release_receipt(registry, &terms, id, "evaluation_manifest", &manifest, hash, &why), OK);
    ck_assert_int_eq(release_receipt(registry, &terms, id, "evaluation", &evaluation, hash, &why),
                     OK);
    record_release(&manifest);
    record_release(&evaluation);
    return release_move_generation(registry, &terms, id, GENERATION_EVALUATED, NULL, &why);
}

START_TEST(evaluated_stands_on_receipts)
{
    char id[SHA256_HEX];
    const struct change_terms terms = rig_terms(2);
    load("a", -1, NULL, id);
    ck_assert_int_eq(
        release_move_generation(registry, &terms, id, GENERATION_EVALUATED, NULL, &why),
        STATUS_RECEIPTS_DISAGREE);                                               /* no evaluation */
    ck_assert_int_eq(evaluate(id, first, true, NULL), STATUS_RECEIPTS_DISAGREE); /* another's */
    ck_assert_ptr_nonnull(strstr(why.text, "the evaluation is of checkpoint"));
    ck_assert_int_eq(evaluate(id, id, false, NULL), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, "gate quality says fail"));
    ck_assert_int_eq(evaluate(id, id, false, "passes"), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, "does not follow from its evidence"));
    ck_assert_int_eq(evaluate(id, id, true, "manifest"), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, "another manifest"));
    ck_assert_int_eq(evaluate(id, id, true, NULL), OK);
    ck_assert_int_eq(release_move_generation(registry, &terms, id, GENERATION_WARMED, NULL, &why),
                     STATUS_RECEIPTS_DISAGREE); /* nobody warmed it */
    load("b", RECEIPT_PLAN, "namespace", id);
    ck_assert_int_eq(evaluate(id, id, true, NULL), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, "namespace");
    ck_assert_uint_eq(why.n_parts, 3); /* both values */
    ck_assert_str_eq(why.parts[1].key, "cache");
    ck_assert_uint_eq(strlen(why.parts[1].text), SHA256_HEX - 1);
    ck_assert_str_eq(why.parts[2].key, "plan");
    ck_assert_str_eq(why.parts[2].text, "odd");
    load("c", RECEIPT_PLACEMENT, NULL, id);
    ck_assert_int_eq(evaluate(id, id, true, NULL), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.text, "the placement receipt is missing");
}
END_TEST

START_TEST(states_only_make_their_moves)
{
    char id[SHA256_HEX];
    const struct change_terms terms = rig_terms(2);
    ck_assert_int_eq(rig_publish(registry, "second", NULL, NULL, id, &why), OK);
    ck_assert_int_eq(
        release_move_generation(registry, &terms, id, GENERATION_EVALUATED, NULL, &why),
        STATUS_ILLEGAL_MOVE);
    ck_assert_ptr_nonnull(strstr(why.text, "cannot go from warmed to evaluated"));
    ck_assert_int_eq(release_move_generation(registry, &terms, id, GENERATION_STABLE, NULL, &why),
                     STATUS_ILLEGAL_MOVE);
    for (int from = 0; from < GENERATION_STATE_COUNT; from++)
        ck_assert(!generation_may_move((enum generation_state)from, (enum generation_state)from));
    ck_assert(rollout_is_over(ROLLOUT_PROMOTED));
    ck_assert(!rollout_is_over(ROLLOUT_BLOCKED));
    ck_assert(namespace_may_move("open", "fenced"));
    ck_assert(!namespace_may_move("fenced", "open"));
}
END_TEST

/* Writes one row under a change of its own. */
static enum status put(const char *what, enum registry_table table, const char *key,
                       struct record *row)
{
    struct change *change;
    const struct change_terms terms = rig_terms(3);
    ck_assert_int_eq(change_begin(registry, &terms, what, &change, &why), OK);
    change_put(change, table, key, row);
    record_release(row);
    return change_commit(&change, &why);
}

static void row_of(enum registry_table table, const char *key, struct record *ret_row)
{
    ck_assert_int_eq(registry_get(registry, table, key, ret_row, &why), OK);
}

/* The rollout's row as it would stand in this state, with the last decision named once more. */
static void row_in(const char *rollout, const char *state, struct record *ret_row)
{
    row_of(REGISTRY_ROLLOUTS, rollout, ret_row);
    const struct record child = record_child(ret_row, "now");
    struct record now;
    record_copy(&child, &now);
    record_set_text(&now, "state", state);
    record_set_record(ret_row, "now", &now);
    record_release(&now);
    char last[SHA256_HEX];
    snprintf(last, sizeof last, "%s",
             record_item_text(ret_row, "decisions", record_list_count(ret_row, "decisions") - 1));
    record_add_text(ret_row, "decisions", last);
}

START_TEST(no_writer_gets_past_the_rules)
{
    struct record row;
    char id[SHA256_HEX], rollout[REGISTRY_KEY_ROOM], key[REGISTRY_KEY_ROOM];
    ck_assert_int_eq(rig_publish(registry, "second", NULL, NULL, id, &why), OK);
    ck_assert_int_eq(rig_start(registry, id, true, rollout, &why), OK);
    /* A move without a decision, with one that led elsewhere, and with one made from another state. */
    row_of(REGISTRY_ROLLOUTS, rollout, &row);
    record_set_text(&row, "note", "x");
    ck_assert_int_eq(put("x", REGISTRY_ROLLOUTS, rollout, &row), STATUS_ILLEGAL_MOVE);
    row_in(rollout, "promoting", &row);
    ck_assert_int_eq(put("x", REGISTRY_ROLLOUTS, rollout, &row), STATUS_RECEIPTS_DISAGREE);
    row_in(rollout, "step", &row);
    ck_assert_int_eq(put("x", REGISTRY_ROLLOUTS, rollout, &row), STATUS_RECEIPTS_DISAGREE);
    row_in(rollout, "step", &row);
    record_set_text(&row, "candidate", first);
    ck_assert_int_eq(put("x", REGISTRY_ROLLOUTS, rollout, &row), STATUS_ILLEGAL_MOVE);
    row_of(REGISTRY_ROUTES, RELEASE_ROUTE, &row); /* more than the step's share */
    record_set_number(&row, "weight_bp", 500);
    ck_assert_int_eq(put("x", REGISTRY_ROUTES, RELEASE_ROUTE, &row), STATUS_ILLEGAL_MOVE);
    /* An epoch out of turn; a bar without a rollback. */
    record_init(&row);
    registry_number_key(9, key);
    ck_assert_int_eq(put("x", REGISTRY_EPOCHS, key, &row), STATUS_ILLEGAL_MOVE);
    row_of(REGISTRY_ROUTES, RELEASE_ROUTE, &row);
    record_set_text(&row, "barred", id);
    ck_assert_int_eq(put("x", REGISTRY_ROUTES, RELEASE_ROUTE, &row), STATUS_ILLEGAL_MOVE);
    /* With a rollback open. */
    ck_assert_int_eq(rig_roll_back(registry, "by hand", &why), OK);
    row_of(REGISTRY_ROUTES, RELEASE_ROUTE, &row);
    record_set_number(&row, "weight_bp", 500);
    ck_assert_int_eq(put("rollout.step", REGISTRY_ROUTES, RELEASE_ROUTE, &row),
                     STATUS_TRANSITION_IN_PROGRESS);
    row_of(REGISTRY_ROUTES, RELEASE_ROUTE, &row);
    record_set_text(&row, "barred", NULL);
    ck_assert_int_eq(put("rollback.step", REGISTRY_ROUTES, RELEASE_ROUTE, &row),
                     STATUS_ILLEGAL_MOVE);
    row_of(REGISTRY_ROUTES, RELEASE_ROUTE, &row); /* restored, and not fenced */
    record_set_text(&row, "candidate", NULL);
    ck_assert_int_eq(put("rollback.step", REGISTRY_ROUTES, RELEASE_ROUTE, &row),
                     STATUS_ILLEGAL_MOVE);
    ck_assert_ptr_nonnull(strstr(why.text, "before the candidate is fenced"));
    row_of(REGISTRY_JOURNALS, "000000000001", &row); /* two steps at once */
    record_set_number(&row, "step", 3);
    ck_assert_int_eq(put("rollback.step", REGISTRY_JOURNALS, "000000000001", &row),
                     STATUS_ILLEGAL_MOVE);
    row_of(REGISTRY_JOURNALS, "000000000001", &row); /* a step without its receipt */
    record_set_number(&row, "step", 2);
    ck_assert_int_eq(put("rollback.step", REGISTRY_JOURNALS, "000000000001", &row),
                     STATUS_NOT_FOUND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("release");
    TCase *tcase = tcase_create("release");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, content_is_registered_once);
    tcase_add_test(tcase, what_is_rejected_comes_back_under_another_namespace);
    tcase_add_test(tcase, bad_content_is_named);
    tcase_add_test(tcase, evaluated_stands_on_receipts);
    tcase_add_test(tcase, states_only_make_their_moves);
    tcase_add_test(tcase, no_writer_gets_past_the_rules);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
