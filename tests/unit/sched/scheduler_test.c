/* scheduler_test.c: admission, preemption, ends and errors on a small model, step by step. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <check.h>

#include "config/mem.h"
#include "sched/request_priv.h"
#include "tests/support/engine_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { STEPS_MAX = 10000, IDS = 700 };

static char *bytes;
static struct gguf *gguf;
static uint32_t ids[IDS];

static void load(void)
{
    struct small_model model = small_model_default();
    model.has_output = true; /* so that one poisoned embedding is one token's trouble */
    gguf = small_model_open(&model, &bytes);
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = (i * 37 + 11) % model.vocab;
}

static void unload(void)
{
    gguf_free(&gguf);
    mem_free(bytes);
}

static struct rig_spec greedy(uint32_t n_ids, uint32_t max_tokens)
{
    return (struct rig_spec){.ids = ids,
                             .n_ids = n_ids,
                             .max_tokens = max_tokens,
                             .sampling = {.top_p = 1.0f},
                             .logprobs = -1};
}

static struct engine_stats stats_of(struct rig *rig)
{
    struct engine_stats stats;
    scheduler_stats(rig_parts(rig)->scheduler, &stats);
    return stats;
}

/* What the ledger expects, what scales and rounding add, and what was mapped agree: in each group
 * and in sum. */
static void check_books(const struct engine_stats *stats)
{
    uint64_t resident = 0, blocks = 0;
    ck_assert_uint_gt(stats->n_groups, 0);
    for (size_t i = 0; i < stats->n_groups; i++) {
        const struct group_stats *g = &stats->groups[i];
        ck_assert_uint_eq(g->kv_resident_bytes,
                          g->kv_expected_bytes + g->kv_scale_bytes + g->kv_rounding_bytes);
        ck_assert_uint_eq(g->blocks, g->blocks_free + g->blocks_used + g->blocks_cached);
        ck_assert_uint_eq(g->kv_pinned_bytes, g->blocks_used * g->block_bytes);
        resident += g->kv_resident_bytes;
        blocks += g->blocks;
    }
    ck_assert_uint_eq(stats->blocks, blocks);
    ck_assert_uint_eq(stats->kv_resident_bytes, resident);
    ck_assert_uint_eq(stats->kv_resident_bytes, stats->kv_expected_bytes + stats->kv_scale_bytes +
                                                    stats->kv_rounding_bytes);
}

START_TEST(a_request_ends_by_its_length)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got = {0};
    struct rig_spec spec = greedy(20, 5);
    rig_submit(rig, &spec, &got);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(got.reason, FINISH_LENGTH);
    ck_assert_uint_eq(got.n_outputs, 5);
    struct engine_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.generated_tokens, 5);
    ck_assert_uint_eq(stats.prefill_tokens, 20);
    ck_assert_uint_eq(stats.requests_finished, 1);
    ck_assert_uint_eq(stats.blocks_used, 0);
    check_books(&stats);
    rig_outcome_release(&got);
    rig_free(&rig);
}
END_TEST

START_TEST(a_stop_token_ends_and_is_not_an_output)
{
    struct rig_options o = rig_options();
    struct rig_spec spec = greedy(20, 8);
    struct rig_outcome free_run = {0}, stopped = {0}, ignoring = {0};
    struct rig *rig = rig_new(gguf, &o);
    rig_submit(rig, &spec, &free_run);
    rig_run(rig, STEPS_MAX);
    rig_free(&rig);
    uint32_t stop = free_run.outputs[3].id, first = 0;
    while (free_run.outputs[first].id != stop)
        first++;
    o.stop_ids = &stop;
    o.n_stop_ids = 1;
    rig = rig_new(gguf, &o);
    rig_submit(rig, &spec, &stopped);
    rig_submit(rig, &spec, &ignoring)->ignore_eos = true;
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(stopped.reason, FINISH_STOP);
    ck_assert_uint_eq(stopped.n_outputs, first);
    rig_outcome_check_equal(&free_run, &ignoring, "ignore_eos");
    rig_outcome_release(&free_run);
    rig_outcome_release(&stopped);
    rig_outcome_release(&ignoring);
    rig_free(&rig);
}
END_TEST

START_TEST(scoring_alone_gives_every_prompt_token)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got = {0};
    struct rig_spec spec = greedy(300, 0);
    spec.logprobs = 2;
    spec.prompt_logprobs = true;
    rig_submit(rig, &spec, &got);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(got.reason, FINISH_LENGTH);
    ck_assert_uint_eq(got.n_outputs, 300);
    ck_assert(!got.outputs[0].has_logprob);
    for (uint32_t i = 1; i < 300; i++) {
        ck_assert_uint_eq(got.outputs[i].id, ids[i]);
        ck_assert(got.outputs[i].has_logprob && got.outputs[i].logprob <= 0.0f);
        ck_assert_uint_eq(got.outputs[i].n_top, 2);
    }
    rig_outcome_release(&got);
    rig_free(&rig);
}
END_TEST

START_TEST(an_answer_ends_where_the_context_does)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got = {0};
    uint32_t context = rig_parts(rig)->context_max;
    uint32_t *many = mem_zalloc(context, sizeof *many);
    struct rig_spec spec = greedy(context - 3, 10);
    spec.ids = many;
    rig_submit(rig, &spec, &got);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(got.reason, FINISH_LENGTH);
    ck_assert_uint_eq(got.n_outputs, 3);
    mem_free(many);
    rig_outcome_release(&got);
    rig_free(&rig);
}
END_TEST

/* Two requests whose answers need more pages than there are: the younger one gives way and both end
 * as they should. */
START_TEST(the_oldest_keeps_its_pages)
{
    struct rig_options o = rig_options();
    struct rig_spec spec = greedy(200, 150);
    struct rig_outcome alone = {0}, got[2] = {{0}, {0}};
    struct rig *rig = rig_new(gguf, &o);
    rig_submit(rig, &spec, &alone);
    rig_run(rig, STEPS_MAX);
    struct cache_books books = cache_books(rig_parts(rig)->cache);
    uint64_t block_bytes = books.expected_bytes / cache_blocks_total(rig_parts(rig)->cache, 0);
    rig_free(&rig);
    o.cache_bytes = 8 * block_bytes;
    rig = rig_new(gguf, &o);
    uint32_t other[200];
    for (uint32_t i = 0; i < 200; i++)
        other[i] = ids[199 - i];
    struct rig_spec second = spec;
    second.ids = other;
    rig_submit(rig, &spec, &got[0]);
    rig_submit(rig, &second, &got[1]);
    while (!got[0].is_done && !got[1].is_done)
        rig_step(rig, 1000000);
    ck_assert(got[0].is_done);
    rig_run(rig, STEPS_MAX);
    ck_assert_uint_gt(stats_of(rig).preemptions, 0);
    ck_assert_uint_gt(stats_of(rig).recomputed_tokens + stats_of(rig).prefix_hit_tokens, 0);
    ck_assert_uint_eq(got[1].n_outputs, 150);
    rig_outcome_check_equal(&alone, &got[0], "under pressure");
    for (int i = 0; i < 2; i++)
        rig_outcome_release(&got[i]);
    rig_outcome_release(&alone);
    rig_free(&rig);
}
END_TEST

START_TEST(a_cancelled_request_gives_its_pages_back_within_a_step)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got = {0}, other = {0};
    struct rig_spec spec = greedy(100, 100), small = greedy(10, 50);
    struct request *request = rig_submit(rig, &spec, &got);
    rig_submit(rig, &small, &other);
    for (int i = 0; i < 10; i++)
        rig_step(rig, 1000000);
    ck_assert(!got.is_done);
    request_ask(request, REQUEST_CANCEL);
    rig_step(rig, 1000000);
    ck_assert(got.is_done);
    ck_assert_int_eq(got.reason, FINISH_CANCELLED);
    rig_run(rig, STEPS_MAX);
    ck_assert_uint_eq(other.n_outputs, 50);
    ck_assert_uint_eq(stats_of(rig).blocks_used, 0);
    ck_assert_uint_eq(stats_of(rig).requests_aborted, 1);
    rig_outcome_release(&got);
    rig_outcome_release(&other);
    rig_free(&rig);
}
END_TEST

/* Token 5's embedding is made NaN: who reads it fails, who shares the batch with it gets what it
 * gets alone. */
START_TEST(a_nan_ends_its_request_alone)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    uint32_t poisoned[3] = {7, 5, 9}, clean[30];
    for (uint32_t i = 0; i < 30; i++)
        clean[i] = 100 + i;
    struct rig_spec healthy = greedy(30, 10), sick = greedy(3, 10);
    healthy.ids = clean;
    healthy.logprobs = 1;
    sick.ids = poisoned;
    struct rig_outcome alone = {0}, beside = {0}, failed = {0};
    rig_submit(rig, &healthy, &alone);
    rig_run(rig, STEPS_MAX);
    cache_purge(rig_parts(rig)->cache);
    struct weights *weights = rig_parts(rig)->model->weights;
    const uint16_t nan_half = 0x7e00; /* the scale of row 5 in the first block of its panel */
    char *panels = weights->mapping + (weights->embedding.panels - weights->mapping);
    memcpy(panels + 5 * sizeof nan_half, &nan_half, sizeof nan_half);
    rig_submit(rig, &healthy, &beside);
    rig_submit(rig, &sick, &failed);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(failed.reason, FINISH_ERROR);
    ck_assert_int_eq(failed.error, STATUS_NUMERIC);
    ck_assert_uint_eq(failed.n_outputs, 0);
    ck_assert_uint_eq(stats_of(rig).numeric_errors, 1);
    ck_assert_uint_eq(stats_of(rig).requests_failed, 1);
    rig_outcome_check_equal(&alone, &beside, "beside a NaN");
    ck_assert_uint_eq(stats_of(rig).blocks_cached,
                      1); /* the healthy one's; nothing of the sick one */
    rig_outcome_release(&alone);
    rig_outcome_release(&beside);
    rig_outcome_release(&failed);
    rig_free(&rig);
}
END_TEST

START_TEST(a_steady_step_allocates_nothing)
{
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got[3] = {{0}, {0}, {0}};
    struct rig_spec spec = greedy(100, 200);
    struct pass *pass = rig_parts(rig)->pass;
    for (int i = 0; i < 3; i++)
        rig_submit(rig, &spec, &got[i]);
    for (int i = 0; i < 20; i++)
        rig_step(rig, 1000000);
    uint64_t before = mem_calls();
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(pass_step(pass, i));
        pass_deliver(pass, i);
    }
    ck_assert_uint_eq(mem_calls(), before);
    rig_run(rig, STEPS_MAX);
    for (int i = 0; i < 3; i++)
        rig_outcome_release(&got[i]);
    rig_free(&rig);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    struct rig_options o = rig_options();
    o.cache_bytes = 1 << 20;
    uint64_t n = 1;
    for (;; n++) {
        struct rig_parts parts = {0};
        struct why why = {0};
        mem_fail_nth(n);
        enum status s = rig_parts_init(&parts, gguf, &o, NULL, NULL, &why);
        bool struck = mem_failure_struck();
        mem_fail_nth(0);
        rig_parts_release(&parts);
        if (!struck) {
            ck_assert_int_eq(s, OK);
            break;
        }
        ck_assert_msg(s == STATUS_NO_MEMORY, "call %llu: %s", (unsigned long long)n,
                      status_code(s));
    }
    ck_assert_uint_gt(n, 30);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scheduler");
    TCase *tc = tcase_create("scheduler");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, a_request_ends_by_its_length);
    tcase_add_test(tc, a_stop_token_ends_and_is_not_an_output);
    tcase_add_test(tc, scoring_alone_gives_every_prompt_token);
    tcase_add_test(tc, an_answer_ends_where_the_context_does);
    tcase_add_test(tc, the_oldest_keeps_its_pages);
    tcase_add_test(tc, a_cancelled_request_gives_its_pages_back_within_a_step);
    tcase_add_test(tc, a_nan_ends_its_request_alone);
    tcase_add_test(tc, a_steady_step_allocates_nothing);
    tcase_add_test(tc, every_allocation_may_fail);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
