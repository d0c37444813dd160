/* fault_table_test.c: docs/release.md's table of faults, a test a row: what finds the fault, and that nothing is done about it
 * but what is allowed: another kernel of the same contract, computing again, a block, a rollback. Never are
 * pages of one identity read under another.
 *
 * The rows that are gates are injection_test.c's; here is what becomes of the requests. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/release/agreement.h"
#include "sched/lane_collector.h"
#include "tests/support/canary_rig.h"
#include "tests/support/suite_run.h"

enum { PROMPT_IDS = 150, ANSWER_IDS = 24 };

static struct canary_rig rig;
static struct lane_rig_answer answer, expected;

static void set_up(void)
{
    canary_rig_init(&rig, &(struct canary_options){0});
}

static void tear_down(void)
{
    canary_rig_release(&rig);
}

/* The same prompt each time, on one lane, to its end. */
static void ask(enum arm arm, struct lane_rig_answer *ret_answer)
{
    *ret_answer = (struct lane_rig_answer){0};
    struct request *request = lane_rig_request(3, PROMPT_IDS, ANSWER_IDS, ret_answer);
    ck_assert_int_eq(lane_rig_submit(&rig.lanes, rig.arms[arm], request), OK);
    (void)lane_rig_collect(&rig.lanes, 1);
}

static uint64_t hit_tokens(enum arm arm)
{
    struct engine_stats stats;
    lane_stats_copy(rig.arms[arm], &stats);
    return stats.prefix_hit_tokens;
}

static void answers_well(const struct lane_rig_answer *a)
{
    ck_assert(a->is_done);
    ck_assert_int_eq(a->reason, FINISH_LENGTH);
    ck_assert_uint_eq(a->n_ids, ANSWER_IDS);
}

static void is_the_same(const struct lane_rig_answer *a, const struct lane_rig_answer *b)
{
    ck_assert_uint_eq(a->n_ids, b->n_ids);
    ck_assert_mem_eq(a->ids, b->ids, a->n_ids * sizeof a->ids[0]);
}

/* Puts the fault in during a request, which ends as it ends. */
static void break_candidate(enum fault fault)
{
    struct lane_rig_answer during;
    canary_rig_break(&rig, fault);
    ask(ARM_CANARY, &during);
}

static struct lane_evidence evidence(enum arm arm)
{
    struct lane_evidence e;
    lane_collector_copy(lane_evidence_collector(rig.arms[arm]), &e);
    return e;
}

/* ---- stale plan, or plan of another generation: found by run(); refused ---- */

START_TEST(a_stale_plan_reads_nothing)
{
    ask(ARM_STABLE, &expected);
    break_candidate(FAULT_STALE_PLAN);
    for (int i = 0; i < 2; i++) {
        ask(ARM_CANARY, &answer);
        ck_assert_int_eq(answer.reason, FINISH_ERROR);
        ck_assert_int_eq(answer.error, STATUS_STALE_PLAN);
        ck_assert_uint_eq(answer.n_ids, 0);
    }
    ask(ARM_STABLE, &answer); /* others notice nothing */
    is_the_same(&answer, &expected);
}
END_TEST

/* ---- incompatible namespace, fenced page: found by the look-up; computed again under the own namespace ---- */

START_TEST(a_fenced_namespace_answers_fenced_and_another_computes_anew)
{
    ask(ARM_STABLE, &expected);
    answers_well(&expected);
    ask(ARM_CANARY, &answer); /* its pages are there and would be found */
    break_candidate(FAULT_OTHER_NAMESPACE);
    uint64_t hits = hit_tokens(ARM_CANARY);
    ask(ARM_CANARY, &answer);
    ck_assert_int_eq(answer.reason, FINISH_ERROR);
    ck_assert_int_eq(answer.error, STATUS_FENCED);
    ck_assert_uint_eq(answer.n_ids, 0);
    ck_assert_uint_eq(hit_tokens(ARM_CANARY), hits);
    ck_assert_uint_eq(hit_tokens(ARM_CONTROL), 0);
    ask(ARM_CONTROL, &answer); /* no output came, so it may go elsewhere: cold, and right */
    ck_assert_uint_eq(hit_tokens(ARM_CONTROL), 0);
    is_the_same(&answer, &expected);
}
END_TEST

START_TEST(one_number_less_alike_shares_no_page)
{
    for (int i = 0; i < 3; i++)
        ask(ARM_STABLE, &answer);
    ck_assert_uint_gt(hit_tokens(ARM_STABLE), 0);
    ask(ARM_CANARY, &answer); /* differs in one number */
    ask(ARM_CONTROL, &answer); /* differs in its namespace */
    ck_assert_uint_eq(hit_tokens(ARM_CANARY), 0);
    ck_assert_uint_eq(hit_tokens(ARM_CONTROL), 0);
    ask(ARM_CONTROL, &answer);
    ck_assert_uint_gt(hit_tokens(ARM_CONTROL), 0);
}
END_TEST

/* ---- kernel dispatch failure: found by the plan receipt; the next kernel of the same contract, counted ---- */

START_TEST(another_kernel_of_the_contract_gives_the_same_and_is_counted)
{
    ask(ARM_CANARY, &expected);
    answers_well(&expected);
    ck_assert_uint_eq(evidence(ARM_CANARY).n_fallbacks, 0);
    break_candidate(FAULT_MASKED_KERNEL);
    ask(ARM_CANARY, &answer);
    is_the_same(&answer, &expected);
    struct kernels best;
    kernels_pick(isa_available(), &best);
    if (best.isa != ISA_SCALAR)
        ck_assert_uint_ge(evidence(ARM_CANARY).n_fallbacks, ANSWER_IDS);
    ck_assert_uint_eq(evidence(ARM_CANARY).n_materialisations, 0);
    ck_assert_uint_eq(evidence(ARM_STABLE).n_fallbacks, 0);
}
END_TEST

/* ---- fallback materialisation: found by the allocation receipt; block or roll back ---- */

START_TEST(repeated_kv_is_right_and_counted_all_the_same)
{
    ask(ARM_CANARY, &expected);
    ck_assert_uint_eq(evidence(ARM_CANARY).n_materialisations, 0);
    break_candidate(FAULT_REPEATED_KV);
    ask(ARM_CANARY, &answer);
    is_the_same(&answer, &expected); /* no answer shows it */
    ck_assert_uint_ge(evidence(ARM_CANARY).n_materialisations, ANSWER_IDS);
    ck_assert_uint_eq(evidence(ARM_STABLE).n_materialisations, 0);
    canary_rig_round(&rig, 1);
    struct release_rollout rollout;
    canary_rig_read(&rig, &rollout);
    ck_assert_int_eq(rollout.now.state, ROLLOUT_ROLLING_BACK);
    ck_assert_int_eq(rollout.now.gate, GATE_FALLBACK);
}
END_TEST

/* ---- numerical, quality, traffic, SLO gate: found by the gate; here: a breach blocks the promotion ---- */

START_TEST(a_breach_is_not_talked_round)
{
    struct why why = {0};
    struct release_rollout rollout;
    const struct change_terms terms = rig_terms(2000000);
    canary_rig_round(&rig, 4);
    break_candidate(FAULT_LOST_SLICE);
    canary_rig_round(&rig, 4);
    ck_assert_int_eq(rollout_driver_command(rig.driver, rig.registry, &terms, rig.key, EVENT_PROMOTE, &why),
                     STATUS_TRANSITION_IN_PROGRESS);
    canary_rig_settle(&rig);
    canary_rig_read(&rig, &rollout);
    ck_assert_int_eq(rollout.now.state, ROLLOUT_ROLLED_BACK);
    ck_assert_int_eq(rollout.now.gate, GATE_QUALITY);
    ck_assert_int_ne(rollout_driver_command(rig.driver, rig.registry, &terms, rig.key, EVENT_PROMOTE, &why), OK);
    struct projection route;
    ck_assert_int_eq(projection_read(rig.registry, &route, &why), OK);
    ck_assert_str_eq(route.stable, rig.stable_id);
}
END_TEST

/* ---- placement without an owner: found by the placement receipt; refused ---- */

START_TEST(a_head_that_nobody_owns_is_refused_by_name)
{
    struct record receipts[AGREEMENT_RECEIPTS];
    struct why why = {0};
    char id[SHA256_HEX], space[SHA256_HEX];
    rig_hash("id", id);
    rig_hash("space", space);
    rig_receipts("owned", id, space, receipts);
    const char *identity = record_text(&receipts[RECEIPT_CHECKPOINT], "identity");
    ck_assert_int_eq(agreement_check(receipts, identity, &why), OK);
    record_set_number(&receipts[RECEIPT_PLACEMENT], "unowned_query_heads", 3);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, "unowned_query_heads");
    ck_assert_str_eq(why.parts[1].key, "placement");
    ck_assert_str_eq(why.parts[1].text, "3");
    ck_assert_msg(strstr(why.text, "3") != NULL, "%s", why.text);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault_table");
    TCase *tc = tcase_create("faults");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_stale_plan_reads_nothing);
    tcase_add_test(tc, a_fenced_namespace_answers_fenced_and_another_computes_anew);
    tcase_add_test(tc, one_number_less_alike_shares_no_page);
    tcase_add_test(tc, another_kernel_of_the_contract_gives_the_same_and_is_counted);
    tcase_add_test(tc, repeated_kv_is_right_and_counted_all_the_same);
    tcase_add_test(tc, a_breach_is_not_talked_round);
    tcase_add_test(tc, a_head_that_nobody_owns_is_refused_by_name);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
