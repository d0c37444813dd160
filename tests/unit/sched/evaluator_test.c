/* evaluator_test.c: real evaluations of small models: two lanes in one engine, requests over a port, receipts that are
 * derived again. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluator.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "sched/engine.h"
#include "sched/evaluate/evaluation_order.h"
#include "sched/lane_collector.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { CONTEXT = 256, RUNNING = 8, CHUNK = 32 };
#define DEADLINE_NS 100000000000u

static struct engine *engine;
static struct evaluator *evaluator;
static struct evaluation_set *set;
static struct evaluation_host host;
static struct evaluation_terms terms;
static struct lane *baseline, *candidate;
static atomic_uint n_news;
static struct why why;

/* ---- models ---- */

/* What is done to a candidate's file. */
typedef void change_fn(struct gguf_writer *writer);

static float *first_norm(struct gguf_writer *writer)
{
    struct gguf_writer_tensor *tensor = gguf_writer_find(writer, "blk.0.attn_norm.weight");
    ck_assert_ptr_nonnull(tensor);
    return (float *)(void *)tensor->data;
}

static void change_one_number(struct gguf_writer *writer)
{
    first_norm(writer)[0] *= 1.0001f;
}

static void set_nan(struct gguf_writer *writer)
{
    first_norm(writer)[0] = NAN;
}

/* Logits ten times as large: sure of what is wrong. */
static void overstate(struct gguf_writer *writer)
{
    struct gguf_writer_tensor *tensor = gguf_writer_find(writer, "output_norm.weight");
    ck_assert_ptr_nonnull(tensor);
    for (size_t i = 0; i < tensor->bytes / sizeof(float); i++)
        ((float *)(void *)tensor->data)[i] *= 10.0f;
}

static struct kernels fast_kernels, slow_kernels;

/* The names of the plan receipt's kernels: those that the lane was made with. */
static void tell_plan(struct lane *lane)
{
    const char *functions[256];
    size_t n = 0;
    for (size_t i = 0; i < kernels_row_count() && n < ARRAY_LEN(functions); i++)
        if (kernels_row_is_chosen(&fast_kernels, i))
            functions[n++] = kernels_row(i).function;
    lane_collector_expect(lane_evidence_collector(lane), functions, n);
}

static struct lane *load(change_fn *change, uint8_t space, const struct kernels *kernels)
{
    struct small_model model = small_model_default();
    struct lane_terms lane_terms = {
        .cache_bytes = 8 << 20, .cache_type = "f32", .kernels = kernels};
    struct lane *lane = NULL;
    struct gguf *gguf = NULL;
    size_t len;
    model.context = CONTEXT;
    struct gguf_writer *writer = small_model_writer(&model);
    if (change != NULL)
        change(writer);
    char *bytes = gguf_writer_finish(writer, &len);
    gguf_writer_free(&writer);
    memset(lane_terms.namespace_id, space, sizeof lane_terms.namespace_id);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    ck_assert_msg(lane_load(gguf, &lane_terms, engine, &lane, &why) == OK, "%s", why.text);
    gguf_free(&gguf);
    mem_free(bytes);
    if (kernels == &fast_kernels)
        tell_plan(lane);
    ck_assert_msg(engine_add(engine, lane, &why) == OK, "%s", why.text);
    return lane;
}

/* ---- the slow one ---- */

static void spin(uint64_t ns)
{
    for (uint64_t until = clock_now_ns() + ns; clock_now_ns() < until;)
        continue;
}

static void slow_finish(uint32_t d_v, float l, const float *acc, float *out)
{
    spin(100000);
    fast_kernels.attention.finish(d_v, l, acc, out);
}

/* ---- around each test ---- */

static enum status encode(void *user, struct slice text, bool is_start, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    (void)user;
    (void)is_start;
    *ret_ids = mem_alloc(text.len * sizeof **ret_ids);
    if (*ret_ids == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory");
    for (size_t i = 0; i < text.len; i++)
        (*ret_ids)[i] = (unsigned char)text.bytes[i];
    *ret_n = (uint32_t)text.len;
    return OK;
}

static void on_news(void *user)
{
    (void)user;
    atomic_fetch_add(&n_news, 1);
}

static void setup(void)
{
    struct engine_options options = {.n_threads = 1,
                                     .running_max = RUNNING,
                                     .queue_max = 64,
                                     .queue_tokens_max = 1 << 20,
                                     .prefill_chunk = CHUNK};
    struct evaluator_options own = {.on_news = on_news};
    ck_assert_msg(engine_new(&options, &engine, &why) == OK, "%s", why.text);
    own.engine = engine;
    ck_assert_msg(evaluator_new(&own, &evaluator, &why) == OK, "%s", why.text);
    ck_assert_msg(evaluation_set_shipped(&set, &why) == OK, "%s", why.text);
    kernels_pick(UINT32_MAX, &fast_kernels);
    slow_kernels = fast_kernels;
    slow_kernels.attention.finish = slow_finish;
    evaluation_host_read("scalar", 1, &host);
    baseline = load(NULL, 1, &fast_kernels);
    terms = (struct evaluation_terms){.set = set, .host = &host, .vocab = 256, .encode = encode};
    memset(terms.tokenizer, 9, SHA256_BYTES);
    evaluation_terms_defaults(&(struct evaluation_room){CONTEXT, RUNNING, CHUNK}, &terms);
    terms.matrix = (struct evaluation_matrix){{1, {128}}, {1, {RUNNING}}, {2, {1, CHUNK}}};
    terms.thresholds.error_rate_margin_ppm = 50000;
    /* On a machine with other work, over steps of a fraction of a millisecond: only a candidate that is many
     * times as slow is told apart, and few rows come to the oracle. */
    terms.thresholds.tpot_p99_eps_ppm = terms.thresholds.ttft_p99_eps_ppm = 1000000000;
    terms.thresholds.numerical_samples_min = 1;
}

static void teardown(void)
{
    evaluator_free(&evaluator);
    engine_free(&engine);
    evaluation_set_free(&set);
}

static struct evaluation_plan *plan_of(void)
{
    struct evaluation_plan *plan = NULL;
    uint8_t plans[2][SHA256_BYTES];
    memset(plans, 5, sizeof plans);
    ck_assert_int_eq(evaluation_side_of(lane_model(baseline), plans[0], &terms.baseline), OK);
    ck_assert_int_eq(evaluation_side_of(lane_model(candidate), plans[1], &terms.candidate), OK);
    ck_assert_msg(evaluation_plan_new(&terms, &plan, &why) == OK, "%s", why.text);
    return plan;
}

static void start(void)
{
    struct evaluation_plan *plan = plan_of();
    ck_assert_msg(evaluator_start(evaluator, &plan, candidate, baseline, &why) == OK, "%s",
                  why.text);
    ck_assert_ptr_null(plan);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void wait_end(struct evaluator_end *ret_end)
{
    uint64_t until = clock_now_ns() + DEADLINE_NS;
    while (!evaluator_take_end(evaluator, ret_end)) {
        ck_assert_msg(clock_now_ns() < until, "the run does not end");
        nap();
    }
}

/* The receipt of an end, derived again under the terms' thresholds. */
static struct evaluation_result *derive(const struct evaluator_end *end)
{
    struct evaluation_result *result = mem_zalloc(1, sizeof *result);
    ck_assert_msg(end->status == OK, "%s", end->why.text);
    struct slice text = {end->receipt, strlen(end->receipt)};
    ck_assert_msg(evaluation_receipt_read(text, &terms.thresholds, result, &why) == OK, "%s",
                  why.text);
    ck_assert_int_eq(evaluation_result_passes(result, &terms.thresholds), end->passes);
    return result;
}

static void check_verdict(const struct evaluation_result *result, enum gate gate,
                          enum gate_verdict expected)
{
    struct gate_judgement judgement;
    gate_judge(gate, &result->evidence, &terms.thresholds, 1, &judgement);
    ck_assert_msg(judgement.verdict == expected, "%s: %s: %s", gate_rows[gate].key,
                  gate_verdict_name(judgement.verdict), judgement.text);
}

/* ---- tests ---- */

START_TEST(a_good_candidate_passes)
{
    struct evaluator_end end;
    candidate = load(change_one_number, 2, &fast_kernels);
    start();
    wait_end(&end);
    struct evaluation_result *result = derive(&end);
    for (int i = 0; i < GATE_COUNT; i++)
        check_verdict(result, (enum gate)i, VERDICT_PASS);
    ck_assert(end.passes);
    ck_assert(end.cells.has_passed[0] && end.cells.has_passed[1]);
    ck_assert_uint_ge(result->evidence.canary.n_requests, 300);
    ck_assert_uint_ge(result->evidence.control.n_requests, 300);
    ck_assert_uint_ge(atomic_load(&n_news), 1);
    mem_free(end.receipt);
    mem_free(result);
}
END_TEST

static change_fn *const bad_weights[] = {set_nan, overstate};

START_TEST(changed_weights_fail_quality)
{
    struct evaluator_end end;
    candidate = load(bad_weights[_i], 2, &fast_kernels);
    start();
    wait_end(&end);
    struct evaluation_result *result = derive(&end);
    ck_assert(!end.passes);
    check_verdict(result, GATE_QUALITY, VERDICT_FAIL);
    ck_assert_uint_eq(evaluation_cells_most(&end.cells).context, 0);
    mem_free(end.receipt);
    mem_free(result);
}
END_TEST

START_TEST(a_slower_candidate_fails_the_slo)
{
    struct evaluator_end end;
    terms.thresholds.goodput_slo_tpot_ms = 4;
    candidate = load(change_one_number, 2, &slow_kernels);
    start();
    wait_end(&end);
    struct evaluation_result *result = derive(&end);
    ck_assert(!end.passes);
    check_verdict(result, GATE_GOODPUT, VERDICT_FAIL);
    check_verdict(result, GATE_QUALITY, VERDICT_PASS);
    mem_free(end.receipt);
    mem_free(result);
}
END_TEST

START_TEST(cells_that_cannot_be_run_fail_alone)
{
    struct evaluator_end end;
    candidate = load(change_one_number, 2, &fast_kernels);
    terms.matrix =
        (struct evaluation_matrix){{2, {128, 2 * CONTEXT}}, {2, {2, RUNNING + 1}}, {1, {1}}};
    terms.repetitions_max = 2;
    terms.warmup_runs = 0;
    start();
    wait_end(&end);
    struct evaluation_result *result = derive(&end);
    static const bool expected[] = {true, false, false, false};
    for (uint32_t i = 0; i < ARRAY_LEN(expected); i++)
        ck_assert_msg(end.cells.has_passed[i] == expected[i], "cell %u", i);
    ck_assert_uint_eq(result->evidence.canary.n_errors, 0);
    ck_assert_uint_eq(evaluation_cells_most(&end.cells).context, 128);
    ck_assert_uint_eq(result->n_failures, 3); /* each once, with its reason */
    bool is_told[4] = {false};
    for (uint32_t i = 0; i < result->n_failures; i++) {
        is_told[result->failures[i].cell] = true;
        ck_assert_str_ne(result->failures[i].why, "");
    }
    ck_assert(!is_told[0] && is_told[1] && is_told[2] && is_told[3]);
    mem_free(end.receipt);
    mem_free(result);
}
END_TEST

START_TEST(a_run_that_is_cancelled_says_so)
{
    struct evaluator_end end;
    struct evaluator_progress progress;
    candidate = load(change_one_number, 2, &fast_kernels);
    start();
    do {
        nap();
        evaluator_progress(evaluator, &progress);
    } while (progress.n_done < 10);
    struct evaluation_plan *second = plan_of();
    ck_assert_int_eq(evaluator_start(evaluator, &second, candidate, baseline, &why),
                     STATUS_TRANSITION_IN_PROGRESS);
    evaluator_cancel(evaluator);
    wait_end(&end);
    ck_assert_int_eq(end.status, STATUS_CANCELLED);
    ck_assert_ptr_null(end.receipt);
    ck_assert_uint_eq(lane_in_flight(candidate), 0);
    ck_assert_uint_eq(lane_in_flight(baseline), 0);
    ck_assert_msg(evaluator_start(evaluator, &second, candidate, baseline, &why) == OK, "%s",
                  why.text);
}
END_TEST

START_TEST(progress_only_rises)
{
    struct evaluator_end end;
    struct evaluator_progress before = {0}, now;
    candidate = load(change_one_number, 2, &fast_kernels);
    terms.repetitions_max = 3;
    start();
    uint32_t n_rises = 0;
    do {
        nap();
        evaluator_progress(evaluator, &now);
        ck_assert_uint_ge(now.n_done, before.n_done);
        ck_assert_uint_ge(now.repetition, before.repetition);
        n_rises += now.n_done > before.n_done;
        before = now;
    } while (now.stage != EVALUATOR_ENDED);
    ck_assert_uint_ge(n_rises, 3);
    ck_assert(now.has_gates);
    struct canonical_json json;
    char *text = NULL;
    canonical_init(&json, 1 << 16);
    evaluator_progress_write(&now, NULL, &json);
    ck_assert_int_eq(canonical_take(&json, &text, NULL), OK);
    ck_assert_ptr_nonnull(strstr(text, "\"stage\":\"ended\""));
    mem_free(text);
    wait_end(&end);
    mem_free(end.receipt);
    evaluator_progress(evaluator, &now);
    ck_assert_int_eq(now.stage, EVALUATOR_IDLE);
}
END_TEST

START_TEST(a_lane_that_closes_ends_the_run)
{
    struct evaluator_end end;
    struct evaluator_progress progress;
    candidate = load(change_one_number, 2, &fast_kernels);
    start();
    do {
        nap();
        evaluator_progress(evaluator, &progress);
    } while (progress.n_done < 10);
    lane_want(_i == 0 ? baseline : candidate, LANE_FENCED);
    wait_end(&end);
    ck_assert_int_ne(end.status, OK);
    ck_assert_int_ne(end.status, STATUS_CANCELLED);
    ck_assert_ptr_null(end.receipt);
    ck_assert_uint_eq(lane_in_flight(baseline) + lane_in_flight(candidate), 0);
}
END_TEST

/* Share of the prompts' tokens that warming the lane found in its cache. */
static double warmed_share(struct lane *lane, struct lane *other)
{
    struct evaluator_end end;
    struct evaluation_plan *plan = NULL;
    struct engine_stats before, after;
    lane_stats_copy(lane, &before);
    ck_assert_msg(evaluation_plan_new(&terms, &plan, &why) == OK, "%s", why.text);
    ck_assert_int_eq(evaluator_warm(evaluator, &plan, lane, other, &why), OK);
    wait_end(&end);
    ck_assert_msg(end.status == OK, "%s", end.why.text);
    ck_assert(end.is_warming && end.passes);
    ck_assert_msg(strstr(end.receipt, "\"shared_pages\":0,") != NULL, "%s", end.receipt);
    ck_assert_msg(strstr(end.receipt, "\"kind\":\"warming\"") != NULL, "%s", end.receipt);
    mem_free(end.receipt);
    lane_stats_copy(lane, &after);
    return (double)(after.prefix_hit_tokens - before.prefix_hit_tokens) /
           (double)(after.prefix_lookup_tokens - before.prefix_lookup_tokens);
}

/* Prompts begin alike: how much one finds of another that runs beside it is a matter of time. */
START_TEST(warming_fills_the_candidates_own_namespace)
{
    uint8_t other[SHA256_BYTES] = {7};
    candidate = load(NULL, 2, &fast_kernels); /* the same weights: only the namespace parts them */
    memset(terms.candidate.kernel_plan, 1, SHA256_BYTES);
    ck_assert_int_eq(evaluation_side_of(lane_model(baseline), terms.tokenizer, &terms.baseline),
                     OK);
    ck_assert_int_eq(evaluation_side_of(lane_model(candidate), other, &terms.candidate), OK);
    /* First the baseline is warmed, as if it were the candidate; then the candidate finds nothing of it. */
    ck_assert_double_lt(warmed_share(baseline, candidate), 0.5);
    ck_assert_double_lt(warmed_share(candidate, baseline), 0.5);
    ck_assert_double_gt(warmed_share(candidate, baseline), 0.9);
}
END_TEST

START_TEST(one_namespace_for_both_is_refused)
{
    struct evaluator_end end;
    candidate = load(change_one_number, 1, &fast_kernels);
    struct evaluation_plan *plan = plan_of();
    ck_assert_int_eq(evaluator_warm(evaluator, &plan, candidate, baseline, &why), OK);
    wait_end(&end);
    ck_assert_int_eq(end.status, STATUS_RECEIPTS_DISAGREE);
    ck_assert_msg(strstr(end.why.text, "namespace") != NULL, "%s", end.why.text);
}
END_TEST

/* Waits for so many runs of the canary. */
static void await_runs(uint64_t n, struct evaluator_quality *quality)
{
    uint64_t until = clock_now_ns() + DEADLINE_NS;
    while (!evaluator_quality(evaluator, quality) || quality->n_runs < n) {
        ck_assert_msg(clock_now_ns() < until, "the canary gives nothing");
        nap();
    }
}

/* Evaluates a candidate and starts the canary against what was found (mem_free). */
static struct evaluation_result *evaluate_and_watch(uint32_t share_ppm)
{
    struct evaluator_end end;
    candidate = load(change_one_number, 2, &fast_kernels);
    terms.repetitions_max = 1;
    start();
    wait_end(&end);
    struct evaluation_result *result = derive(&end);
    struct evaluator_canary canary = {
        .candidate = candidate, .share_ppm = share_ppm, .n_slices = result->evidence.n_slices};
    memcpy(canary.baseline, result->evidence.slices, sizeof canary.baseline);
    struct evaluation_plan *plan = plan_of();
    ck_assert_msg(evaluator_canary_start(evaluator, &plan, &canary, &why) == OK, "%s", why.text);
    mem_free(end.receipt);
    return result;
}

START_TEST(the_canary_finds_what_the_evaluation_found)
{
    struct evaluator_quality quality;
    struct evaluation_result *result = evaluate_and_watch(1000000);
    await_runs(2, &quality);
    evaluator_canary_stop(evaluator);
    ck_assert_uint_eq(lane_in_flight(candidate), 0);
    ck_assert_uint_eq(quality.n_slices, result->evidence.n_slices);
    ck_assert_mem_eq(quality.slices, result->evidence.slices,
                     quality.n_slices * sizeof *quality.slices);
    mem_free(result);
}
END_TEST

/* A millionth of the time: after the first run the next prompt is far away, unless somebody waits for it. */
START_TEST(the_canary_rests_unless_it_is_hurried)
{
    struct evaluator_quality quality;
    struct evaluation_result *result = evaluate_and_watch(1);
    await_runs(1, &quality);
    for (int i = 0; i < 20; i++)
        nap();
    ck_assert(evaluator_quality(evaluator, &quality));
    ck_assert_uint_eq(quality.n_runs, 1);
    evaluator_canary_hurry(evaluator);
    await_runs(2, &quality);
    evaluator_canary_stop(evaluator);
    mem_free(result);
}
END_TEST

START_TEST(an_evaluator_may_go_at_any_moment)
{
    candidate = load(change_one_number, 2, &fast_kernels);
    start();
    for (int i = 0; i < _i; i++)
        nap();
    evaluator_free(&evaluator);
    ck_assert_uint_eq(lane_in_flight(baseline) + lane_in_flight(candidate), 0);
}
END_TEST

/* Every request takes memory: at whichever the machine refuses, the run ends and nothing is left behind. */
START_TEST(memory_that_cannot_be_had_ends_the_run)
{
    static const uint64_t nths[] = {1, 2, 3, 10, 100, 260, 300};
    struct evaluator_end end;
    candidate = load(change_one_number, 2, &fast_kernels);
    terms.repetitions_max = 2;
    struct evaluation_plan *plan = plan_of();
    mem_fail_nth(nths[_i]);
    ck_assert_int_eq(evaluator_start(evaluator, &plan, candidate, baseline, &why), OK);
    wait_end(&end);
    bool has_struck = mem_failure_struck();
    mem_fail_nth(0);
    ck_assert(has_struck);
    ck_assert_int_eq(end.status, STATUS_NO_MEMORY);
    ck_assert_msg(strstr(end.why.text, "memory") != NULL, "%s", end.why.text);
    ck_assert_ptr_null(end.receipt);
    ck_assert_uint_eq(lane_in_flight(baseline) + lane_in_flight(candidate), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluator");
    TCase *tc = tcase_create("evaluator");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_good_candidate_passes);
    tcase_add_loop_test(tc, changed_weights_fail_quality, 0, (int)ARRAY_LEN(bad_weights));
    tcase_add_test(tc, a_slower_candidate_fails_the_slo);
    tcase_add_test(tc, cells_that_cannot_be_run_fail_alone);
    tcase_add_test(tc, a_run_that_is_cancelled_says_so);
    tcase_add_test(tc, progress_only_rises);
    tcase_add_loop_test(tc, a_lane_that_closes_ends_the_run, 0, 2);
    tcase_add_test(tc, warming_fills_the_candidates_own_namespace);
    tcase_add_test(tc, one_namespace_for_both_is_refused);
    tcase_add_test(tc, the_canary_finds_what_the_evaluation_found);
    tcase_add_test(tc, the_canary_rests_unless_it_is_hurried);
    tcase_add_loop_test(tc, an_evaluator_may_go_at_any_moment, 0, 4);
    tcase_add_loop_test(tc, memory_that_cannot_be_had_ends_the_run, 0, 7);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
