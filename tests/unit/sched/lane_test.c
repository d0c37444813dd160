/* lane_test.c: several generations in one engine: what they share, what they never see of each other,
 * and how one is closed, fenced and freed while others go on. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane.h"

#include <check.h>
#include <stdatomic.h>
#include <time.h>

#include "config/mem.h"
#include "sched/lane_priv.h"
#include "tests/support/lane_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { MODELS = 2, PROMPT = 70, ANSWER = 40 };

static char *bytes[MODELS];
static struct gguf *gguf[MODELS];

/* Two checkpoints of one shape that differ in their weights. */
static void load(void)
{
    for (uint64_t i = 0; i < MODELS; i++) {
        struct small_model model = small_model_default();
        model.seed += i;
        gguf[i] = small_model_open(&model, &bytes[i]);
    }
}

static void unload(void)
{
    for (int i = 0; i < MODELS; i++) {
        gguf_free(&gguf[i]);
        mem_free(bytes[i]);
    }
}

static void start(struct lane_rig *rig)
{
    struct engine_options o = lane_rig_options();
    lane_rig_init(rig, &o);
}

/* A lane with a namespace of its own. */
static struct lane *add(struct lane_rig *rig, int model, uint8_t name)
{
    struct lane_terms terms = lane_rig_terms();
    terms.namespace_id[0] = name;
    return lane_rig_add(rig, gguf[model], &terms);
}

static struct engine_stats stats_of(const struct lane *lane)
{
    struct engine_stats stats;
    lane_stats_copy(lane, &stats);
    return stats;
}

static void check_conserved(const struct engine_stats *s)
{
    ck_assert_uint_eq(s->requests_admitted, s->requests_finished + s->requests_aborted +
                                                s->requests_failed + s->requests_running +
                                                s->requests_waiting);
}

static void check_same(const struct lane_rig_answer *a, const struct lane_rig_answer *b)
{
    ck_assert(a->is_done && b->is_done);
    ck_assert_int_eq(a->reason, b->reason);
    ck_assert_uint_eq(a->n_ids, b->n_ids);
    ck_assert_mem_eq(a->ids, b->ids, a->n_ids * sizeof *a->ids);
}

/* What each model says alone to prompts of seeds 0 to n - 1. */
static void answer_alone(int model, uint32_t n, struct lane_rig_answer *ret_answers)
{
    struct lane_rig rig;
    start(&rig);
    struct lane *lane = add(&rig, model, 1);
    for (uint32_t i = 0; i < n; i++) {
        ret_answers[i] = (struct lane_rig_answer){0};
        ck_assert_int_eq(
            lane_rig_submit(&rig, lane, lane_rig_request(i, PROMPT, ANSWER, &ret_answers[i])), OK);
        lane_rig_collect(&rig, 1);
        ck_assert_uint_eq(ret_answers[i].n_ids, ANSWER);
    }
    lane_rig_release(&rig);
}

START_TEST(lanes_of_one_checkpoint_share_its_weights_and_a_pass)
{
    struct lane_rig rig;
    start(&rig);
    struct lane *first = add(&rig, 0, 1);
    uint64_t alone = stats_of(first).weight_bytes;
    struct lane *second = add(&rig, 0, 2), *other = add(&rig, 1, 3);
    struct weights *weights = lane_model(first)->weights;
    ck_assert_ptr_eq(weights, lane_model(second)->weights);
    ck_assert_ptr_ne(weights, lane_model(other)->weights);
    ck_assert_uint_eq(weights_holders(weights), 2); /* one by each model, or all by one */
    ck_assert_ptr_eq(first->pass, second->pass);
    ck_assert_ptr_ne(first->pass, other->pass);
    struct engine_stats sum;
    engine_stats_copy(rig.engine, &sum);
    ck_assert_uint_gt(alone, 0);
    ck_assert_uint_eq(sum.weight_bytes, 2 * alone); /* two checkpoints, three lanes */
    lane_rig_release(&rig);
}
END_TEST

START_TEST(lanes_with_other_kernels_share_weights_alone)
{
    struct lane_rig rig;
    struct lane_terms terms = lane_rig_terms();
    start(&rig);
    struct lane *first = add(&rig, 0, 1);
    terms.cache_type = "f32";
    struct lane *wide = lane_rig_add(&rig, gguf[0], &terms);
    terms = lane_rig_terms();
    terms.isa = "scalar";
    struct lane *scalar = lane_rig_add(&rig, gguf[0], &terms);
    ck_assert_ptr_eq(lane_model(first)->weights, lane_model(wide)->weights);
    ck_assert_ptr_eq(lane_model(first)->weights, lane_model(scalar)->weights);
    ck_assert_ptr_eq(first->pass, wide->pass); /* another K/V type is another pool */
    ck_assert_ptr_ne(first->pass, scalar->pass);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(every_lane_answers_as_alone)
{
    enum { N = 8 };
    static struct lane_rig_answer alone[MODELS][N], beside[3][N];
    for (int m = 0; m < MODELS; m++)
        answer_alone(m, N, alone[m]);
    struct lane_rig rig;
    start(&rig);
    const int models[3] = {0, 0, 1};
    struct lane *lanes[3];
    for (int l = 0; l < 3; l++)
        lanes[l] = add(&rig, models[l], (uint8_t)(l + 1));
    for (uint32_t i = 0; i < N; i++)
        for (int l = 0; l < 3; l++)
            ck_assert_int_eq(
                lane_rig_submit(&rig, lanes[l], lane_rig_request(i, PROMPT, ANSWER, &beside[l][i])),
                OK);
    lane_rig_collect(&rig, 3 * N);
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < N; i++)
            check_same(&alone[models[l]][i], &beside[l][i]);
    bool any_differs = false; /* else nothing is shown */
    for (int i = 0; i < N; i++)
        any_differs |= memcmp(alone[0][i].ids, alone[1][i].ids, sizeof alone[0][i].ids) != 0;
    ck_assert(any_differs);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_lane_finds_nothing_that_another_wrote)
{
    struct lane_rig rig;
    start(&rig);
    struct lane *lanes[2] = {add(&rig, 0, 1), add(&rig, 0, 2)};
    for (int l = 0; l < 2; l++) {
        for (int again = 0; again < 2; again++) {
            ck_assert_int_eq(lane_rig_submit(&rig, lanes[l], lane_rig_request(5, PROMPT, 4, NULL)),
                             OK);
            lane_rig_collect(&rig, 1);
            uint64_t hits = stats_of(lanes[l]).prefix_hit_tokens;
            ck_assert_msg((hits > 0) == (again == 1), "lane %d, time %d: %llu hits", l, again,
                          (unsigned long long)hits);
        }
    }
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_closed_lane_refuses_at_once_and_ends_who_has_not_begun)
{
    struct lane_rig rig;
    static struct lane_rig_answer answers[20];
    memset(answers, 0, sizeof answers);
    start(&rig);
    struct lane *lane = add(&rig, 0, 1);
    for (uint32_t i = 0; i < 20; i++) /* eight may run */
        ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(i, 10, 300, &answers[i])),
                         OK);
    while (stats_of(lane).requests_running < 8)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    lane_want(lane, LANE_CLOSED);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, 3, NULL)),
                     STATUS_LANE_CLOSED);
    lane_rig_await(lane, LANE_CLOSED);
    ck_assert_uint_le(lane_in_flight(lane), 8);
    lane_rig_collect(&rig, 20);
    uint32_t whole = 0;
    for (int i = 0; i < 20; i++) {
        bool is_closed = answers[i].reason == FINISH_ERROR;
        ck_assert_int_eq(answers[i].error, is_closed ? STATUS_LANE_CLOSED : OK);
        ck_assert_uint_eq(answers[i].n_ids, is_closed ? 0 : 300);
        whole += !is_closed;
    }
    ck_assert(whole >= 8 && whole < 20);
    ck_assert_int_eq(lane_reached(lane), LANE_CLOSED);
    ck_assert_uint_eq(lane_in_flight(lane), 0);
    struct engine_stats stats = stats_of(lane);
    check_conserved(&stats);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(an_aborted_lane_ends_all_and_the_fence_is_no_miss)
{
    struct lane_rig rig;
    static struct lane_rig_answer answers[12], beside;
    memset(answers, 0, sizeof answers);
    memset(&beside, 0, sizeof beside);
    start(&rig);
    struct lane *lane = add(&rig, 1, 1), *stable = add(&rig, 0, 2);
    ck_assert_int_eq(lane_rig_submit(&rig, stable, lane_rig_request(0, 10, 300, &beside)), OK);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(i, 10, 900, &answers[i])),
                         OK);
    while (stats_of(lane).generated_tokens < 8)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    lane_want(lane, LANE_FENCED);
    lane_want(lane, LANE_CLOSED); /* no way back */
    ck_assert_int_eq(lane_wanted(lane), LANE_FENCED);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, 3, NULL)), STATUS_FENCED);
    lane_rig_await(lane, LANE_FENCED);
    ck_assert_uint_eq(lane_in_flight(lane), 0);
    ck_assert_int_eq(cache_namespace_state(lane->parts.cache), NAMESPACE_FENCED);
    lane_rig_collect(&rig, 13);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(answers[i].reason, FINISH_ERROR);
        ck_assert_int_eq(answers[i].error,
                         answers[i].n_ids > 0 ? STATUS_UNAVAILABLE : STATUS_LANE_CLOSED);
    }
    ck_assert_int_eq(beside.reason, FINISH_LENGTH); /* the other lane did not notice */
    ck_assert_uint_eq(beside.n_ids, 300);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_freed_lane_gives_its_pool_back_and_keeps_its_weights)
{
    struct lane_rig rig;
    static struct lane_rig_answer alone[1], again;
    answer_alone(1, 1, alone);
    start(&rig);
    struct lane *stable = add(&rig, 0, 1);
    uint64_t before = mem_mapped_bytes();
    struct lane *lane = add(&rig, 1, 2);
    uint64_t pool = stats_of(lane).kv_resident_bytes, with_lane = mem_mapped_bytes();
    ck_assert_uint_gt(pool, 0);
    lane_want(lane, LANE_FREED);
    lane_rig_await(lane, LANE_FREED);
    ck_assert_uint_le(mem_mapped_bytes(), with_lane - pool);
    ck_assert_uint_gt(mem_mapped_bytes(), before);
    struct engine_stats stats = stats_of(lane);
    ck_assert_uint_eq(stats.kv_resident_bytes, 0);
    ck_assert_uint_eq(stats.blocks, 0);
    ck_assert_uint_gt(stats.weight_bytes, 0);
    /* A later lane takes its model over, without the file. */
    struct lane_terms terms = lane_rig_terms();
    terms.kept = lane;
    struct lane *later = lane_rig_add(&rig, NULL, &terms);
    ck_assert_ptr_eq(lane_model(later), lane_model(lane));
    ck_assert_ptr_eq(later->pass, lane->pass); /* nothing but a pool was made */
    engine_remove(rig.engine, &lane);
    ck_assert_ptr_null(lane);
    memset(&again, 0, sizeof again);
    ck_assert_int_eq(lane_rig_submit(&rig, later, lane_rig_request(0, PROMPT, ANSWER, &again)), OK);
    lane_rig_collect(&rig, 1);
    check_same(&alone[0], &again);
    engine_remove(rig.engine, &later);
    ck_assert_uint_eq(mem_mapped_bytes(), before);
    ck_assert_int_eq(lane_rig_submit(&rig, stable, lane_rig_request(0, 10, 3, NULL)), OK);
    lane_rig_collect(&rig, 1);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_pass_outlives_the_lane_it_was_made_for)
{
    struct lane_rig rig;
    static struct lane_rig_answer alone[1], after;
    answer_alone(0, 1, alone);
    memset(&after, 0, sizeof after);
    start(&rig);
    struct lane *first = add(&rig, 0, 1), *second = add(&rig, 0, 2);
    engine_remove(rig.engine, &first);
    ck_assert_int_eq(lane_rig_submit(&rig, second, lane_rig_request(0, PROMPT, ANSWER, &after)),
                     OK);
    lane_rig_collect(&rig, 1);
    check_same(&alone[0], &after);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(the_sum_never_falls)
{
    struct lane_rig rig;
    struct engine_stats before, after;
    start(&rig);
    struct lane *lanes[2] = {add(&rig, 0, 1), add(&rig, 1, 2)};
    for (int l = 0; l < 2; l++)
        ck_assert_int_eq(lane_rig_submit(&rig, lanes[l], lane_rig_request(0, PROMPT, 9, NULL)), OK);
    lane_rig_collect(&rig, 2);
    engine_stats_copy(rig.engine, &before);
    ck_assert_uint_eq(before.requests_finished, 2);
    ck_assert_uint_eq(before.generated_tokens, 18);
    ck_assert_uint_eq(before.n_groups, 1); /* of one shape */
    ck_assert_uint_eq(before.blocks, stats_of(lanes[0]).blocks + stats_of(lanes[1]).blocks);
    engine_stats_measure(rig.engine, &before);
    ck_assert_uint_gt(before.kv_measured_bytes, 0);
    ck_assert_uint_eq(before.groups[0].kv_measured_bytes, before.kv_measured_bytes);
    engine_remove(rig.engine, &lanes[1]);
    engine_stats_copy(rig.engine, &after);
    check_conserved(&after);
    ck_assert_uint_eq(after.requests_finished, 2);
    ck_assert_uint_eq(after.generated_tokens, 18);
    ck_assert_uint_eq(after.blocks, stats_of(lanes[0]).blocks);
    ck_assert_uint_eq(after.groups[0].blocks, after.blocks);
    ck_assert_uint_eq(after.weight_bytes, stats_of(lanes[0]).weight_bytes);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_lanes_clock_stands_still_while_others_step)
{
    struct lane_rig rig;
    static struct lane_rig_answer alone, beside, noise[8];
    memset(&alone, 0, sizeof alone);
    memset(&beside, 0, sizeof beside);
    memset(noise, 0, sizeof noise);
    start(&rig);
    struct lane *lane = add(&rig, 0, 1), *other = add(&rig, 1, 2);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, 100, &alone)), OK);
    lane_rig_collect(&rig, 1);
    struct request_times t = alone.times; /* nobody beside it: the clocks agree */
    ck_assert_uint_eq(t.ttft_own_ns, t.first_output_ns - t.submitted_ns);
    ck_assert_uint_eq(t.tpot_own_ns, (t.last_output_ns - t.first_output_ns) / 99);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_int_eq(lane_rig_submit(&rig, other, lane_rig_request(i, 600, 300, &noise[i])),
                         OK);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(1, 10, 100, &beside)), OK);
    lane_rig_collect(&rig, 9);
    t = beside.times;
    uint64_t wall = (t.last_output_ns - t.first_output_ns) / 99;
    /* Less by the others' steps; by how much, a busy machine decides. */
    ck_assert_msg(t.tpot_own_ns < wall, "own %llu, wall %llu", (unsigned long long)t.tpot_own_ns,
                  (unsigned long long)wall);
    ck_assert_uint_gt(t.tpot_own_ns, 0);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_the_figures)
{
    struct lane_rig rig;
    start(&rig);
    add(&rig, 0, 1);
    struct lane_terms terms = lane_rig_terms();
    terms.cache_bytes = (uint64_t)1 << 50;
    struct lane *lane;
    struct why why = {0};
    uint64_t before = mem_mapped_bytes();
    ck_assert_int_eq(lane_load(gguf[1], &terms, rig.engine, &lane, &why), STATUS_NO_MEMORY);
    ck_assert_ptr_null(lane);
    ck_assert_msg(strstr(why.text, "page pool 1073741824.0 MiB") != NULL, "%s", why.text);
    ck_assert_uint_eq(mem_mapped_bytes(), before);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_quota_holds_until_it_is_lifted)
{
    struct lane_rig rig;
    struct lane_terms terms = lane_rig_terms();
    struct lane *lane;
    struct why why = {0};
    start(&rig);
    terms.namespace_id[0] = 1;
    ck_assert_int_eq(lane_load(gguf[0], &terms, rig.engine, &lane, &why), OK);
    uint32_t all = lane_blocks(lane);
    ck_assert_uint_eq(all, lane_pool_tokens(lane) / CACHE_PAGE_TOKENS);
    lane_set_quota(lane, 4);
    ck_assert_uint_eq(lane_blocks(lane), 4);
    ck_assert_int_eq(engine_add(rig.engine, lane, &why), OK);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 250, 10, NULL)),
                     STATUS_CACHE_TOO_SMALL);
    for (uint32_t i = 0; i < 6; i++) /* together more than the quota: they take turns */
        ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(i, 150, 10, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, 6), 60);
    struct engine_stats stats = stats_of(lane);
    ck_assert_uint_le(stats.blocks - stats.blocks_free, 4);
    lane_lift_quota(lane);
    while (lane_blocks(lane) != all)
        sched_yield();
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 250, 10, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, 1), 10);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(there_are_eight_lanes_at_most)
{
    struct lane_rig rig;
    struct lane *lanes[ENGINE_LANES_MAX], *more;
    struct lane_terms terms = lane_rig_terms();
    struct why why = {0};
    start(&rig);
    for (int i = 0; i < ENGINE_LANES_MAX; i++)
        lanes[i] = add(&rig, 0, (uint8_t)(i + 1)); /* four to a pass */
    ck_assert_ptr_ne(lanes[0]->pass, lanes[4]->pass);
    ck_assert_int_eq(lane_load(gguf[0], &terms, rig.engine, &more, &why), OK);
    ck_assert_int_eq(engine_add(rig.engine, more, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(why.text, "8 generations"));
    for (int i = 0; i < ENGINE_LANES_MAX; i++)
        ck_assert_int_eq(
            lane_rig_submit(&rig, lanes[i], lane_rig_request((uint32_t)i, 30, 5, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, ENGINE_LANES_MAX), 5 * ENGINE_LANES_MAX);
    engine_remove(rig.engine, &lanes[3]);
    ck_assert_int_eq(engine_add(rig.engine, more, &why), OK);
    ck_assert_int_eq(lane_rig_submit(&rig, more, lane_rig_request(1, 30, 5, NULL)), OK);
    lane_rig_collect(&rig, 1);
    lane_rig_release(&rig);
}
END_TEST

static atomic_uint n_changes;

static void count_change(void *user)
{
    (void)user;
    atomic_fetch_add(&n_changes, 1);
}

START_TEST(each_state_is_told)
{
    struct engine_options o = lane_rig_options();
    o.on_lane_change = count_change;
    struct lane_rig rig;
    lane_rig_init(&rig, &o);
    struct lane *lane = add(&rig, 0, 1);
    atomic_store(&n_changes, 0);
    for (int life = LANE_CLOSED; life <= LANE_FREED; life++) {
        lane_want(lane, (enum lane_life)life);
        lane_rig_await(lane, (enum lane_life)life);
        for (int ms = 0; atomic_load(&n_changes) < (unsigned)life; ms++) {
            ck_assert_int_lt(ms, 10000);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    ck_assert_uint_eq(atomic_load(&n_changes), LANE_FREED);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(every_allocation_of_a_load_may_fail)
{
    struct lane_rig rig;
    start(&rig);
    add(&rig, 0, 1);
    for (int m = 0; m < MODELS; m++) { /* shared weights, and others */
        uint64_t before = mem_mapped_bytes(), n = 1;
        for (;; n++) {
            struct lane_terms terms = lane_rig_terms();
            struct lane *lane;
            struct why why = {0};
            mem_fail_nth(n);
            enum status s = lane_load(gguf[m], &terms, rig.engine, &lane, &why);
            bool struck = mem_failure_struck();
            mem_fail_nth(0);
            ck_assert((s == OK) == (lane != NULL));
            lane_free(&lane);
            ck_assert_uint_eq(mem_mapped_bytes(), before);
            if (!struck)
                break;
            ck_assert_msg(s == STATUS_NO_MEMORY, "call %llu: %s", (unsigned long long)n,
                          status_code(s));
            ck_assert_msg(why.text[0] != '\0', "call %llu says nothing", (unsigned long long)n);
        }
        ck_assert_uint_gt(n, 30);
    }
    lane_rig_release(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *tc = tcase_create("lane");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, lanes_of_one_checkpoint_share_its_weights_and_a_pass);
    tcase_add_test(tc, lanes_with_other_kernels_share_weights_alone);
    tcase_add_test(tc, every_lane_answers_as_alone);
    tcase_add_test(tc, a_lane_finds_nothing_that_another_wrote);
    tcase_add_test(tc, a_closed_lane_refuses_at_once_and_ends_who_has_not_begun);
    tcase_add_test(tc, an_aborted_lane_ends_all_and_the_fence_is_no_miss);
    tcase_add_test(tc, a_freed_lane_gives_its_pool_back_and_keeps_its_weights);
    tcase_add_test(tc, a_pass_outlives_the_lane_it_was_made_for);
    tcase_add_test(tc, the_sum_never_falls);
    tcase_add_test(tc, a_lanes_clock_stands_still_while_others_step);
    tcase_add_test(tc, what_does_not_fit_is_refused_with_the_figures);
    tcase_add_test(tc, a_quota_holds_until_it_is_lifted);
    tcase_add_test(tc, there_are_eight_lanes_at_most);
    tcase_add_test(tc, each_state_is_told);
    tcase_add_test(tc, every_allocation_of_a_load_may_fail);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
