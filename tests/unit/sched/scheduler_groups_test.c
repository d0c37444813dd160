/* Scheduler groups test: a model of two cache groups, one with a window, step by step: what requests
 * pin, preemption where one group is short, and answers that stay the same. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <check.h>

#include "config/ledger.h"
#include "config/mem.h"
#include "tests/support/engine_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { STEPS_MAX = 10000, IDS = 900, WINDOW = 100, CHUNK = 96 };

static char *bytes;
static struct gguf *gguf;
static uint32_t ids[IDS];

static void load(void)
{
    struct small_model model = small_model_default();
    model.architecture = "gemma3";
    model.layers = 7;
    model.window = WINDOW;
    gguf = small_model_open(&model, &bytes);
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = (i * 37 + 11) % model.vocab;
}

static void unload(void)
{
    gguf_free(&gguf);
    mem_free(bytes);
}

static struct rig_spec greedy(const uint32_t *prompt, uint32_t n_ids, uint32_t max_tokens)
{
    return (struct rig_spec){.ids = prompt,
                             .n_ids = n_ids,
                             .max_tokens = max_tokens,
                             .sampling = {.top_p = 1.0f},
                             .logprobs = -1};
}

static struct rig_options options(void)
{
    struct rig_options o = rig_options();
    o.prefill_chunk = CHUNK;
    return o;
}

static struct engine_stats stats_of(struct rig *rig)
{
    struct engine_stats stats;
    scheduler_stats(rig_parts(rig)->scheduler, &stats);
    return stats;
}

/* What the ledger says one request pins whose last row is at position n - 1. */
static uint64_t pinned_bytes(const struct graph_group *g, uint64_t n)
{
    struct ledger_shape layer = {.k_heads = g->n_heads,
                                 .v_heads = g->n_heads,
                                 .d_qk = g->d_qk,
                                 .d_v = g->d_v,
                                 .kv_bytes = 2,
                                 .window = g->window};
    return g->n_layers * ledger_pinned_bytes(&layer, n, CACHE_PAGE_TOKENS);
}

START_TEST(a_request_pins_what_the_ledger_says)
{
    struct rig_options o = options();
    struct rig *rig = rig_new(gguf, &o);
    const struct graph *graph = rig_parts(rig)->model->graph;
    ck_assert_uint_eq(graph->n_groups, 2);
    struct rig_outcome got = {0};
    struct rig_spec spec = greedy(ids, 500, 300);
    rig_submit(rig, &spec, &got);
    uint32_t n_steps = 0;
    for (; rig_step(rig, 1000000) && !got.is_done; n_steps++) {
        struct engine_stats stats = stats_of(rig);
        uint64_t n = cache_books(rig_parts(rig)->cache).committed_tokens;
        for (uint32_t g = 0; g < 2; g++) {
            ck_assert_uint_eq(stats.groups[g].window, graph->groups[g].window);
            ck_assert_uint_eq(stats.groups[g].kv_pinned_bytes, pinned_bytes(&graph->groups[g], n));
        }
    }
    ck_assert_uint_gt(n_steps, 300);
    ck_assert_uint_eq(stats_of(rig).blocks_used, 0);
    rig_outcome_release(&got);
    rig_free(&rig);
}
END_TEST

/* The least pool for the longest request: others give way, whichever group is short, and all
 * answers are those of a request alone. */
START_TEST(the_least_pool_serves_all_in_turn)
{
    enum { N = 5 };
    struct rig_options o = options();
    struct rig_outcome alone[N] = {0}, got[N] = {0};
    struct rig_spec specs[N];
    for (uint32_t i = 0; i < N; i++)
        specs[i] = greedy(ids + i * 20, 150 + 100 * i, 60 + 20 * i);
    struct rig *rig = rig_new(gguf, &o);
    uint64_t block_bytes = 0;
    for (uint32_t g = 0; g < 2; g++)
        block_bytes += cache_group_books(rig_parts(rig)->cache, g).block_bytes;
    for (uint32_t i = 0; i < N; i++) {
        rig_submit(rig, &specs[i], &alone[i]);
        rig_run(rig, STEPS_MAX);
        cache_purge(rig_parts(rig)->cache);
    }
    rig_free(&rig);
    o.cache_bytes = 9 * block_bytes;
    rig = rig_new(gguf, &o);
    ck_assert_uint_ge(cache_tokens_max(rig_parts(rig)->cache), 550 + 140);
    ck_assert_uint_lt(cache_blocks_total(rig_parts(rig)->cache, 0),
                      cache_blocks_total(rig_parts(rig)->cache, 1));
    for (uint32_t i = 0; i < N; i++)
        rig_submit(rig, &specs[i], &got[i]);
    rig_run(rig, STEPS_MAX);
    ck_assert_uint_gt(stats_of(rig).preemptions, 0);
    ck_assert_uint_eq(stats_of(rig).blocks_used, 0);
    for (uint32_t i = 0; i < N; i++) {
        rig_outcome_check_equal(&alone[i], &got[i], "under pressure");
        rig_outcome_release(&alone[i]);
        rig_outcome_release(&got[i]);
    }
    rig_free(&rig);
}
END_TEST

/* A prefix whose reader has moved far on is found again, and gives the same answer. */
START_TEST(a_hit_behind_a_window_changes_nothing)
{
    struct rig_options o = options();
    struct rig_outcome first = {0}, alone = {0}, got = {0};
    uint32_t other[400];
    memcpy(other, ids, sizeof other);
    other[350] ^= 1;
    struct rig_spec whole = greedy(ids, 880, 4), branch = greedy(other, 400, 30);
    struct rig *rig = rig_new(gguf, &o);
    rig_submit(rig, &branch, &alone);
    rig_run(rig, STEPS_MAX);
    cache_purge(rig_parts(rig)->cache);
    rig_submit(rig, &whole, &first);
    rig_run(rig, STEPS_MAX);
    rig_submit(rig, &branch, &got);
    rig_run(rig, STEPS_MAX);
    ck_assert_uint_eq(got.cached_tokens, 350);
    rig_outcome_check_equal(&alone, &got, "after a hit behind a window");
    rig_outcome_release(&first);
    rig_outcome_release(&alone);
    rig_outcome_release(&got);
    rig_free(&rig);
}
END_TEST

START_TEST(a_steady_step_allocates_nothing)
{
    struct rig_options o = options();
    struct rig_outcome got[2] = {0};
    struct rig_spec specs[] = {greedy(ids, 200, 200), greedy(ids + 50, 300, 200)};
    struct rig *rig = rig_new(gguf, &o);
    for (uint32_t i = 0; i < 2; i++)
        rig_submit(rig, &specs[i], &got[i]);
    for (uint32_t i = 0; i < 20; i++)
        rig_step(rig, 1000000);
    uint64_t calls = mem_calls();
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert(pass_step(rig_parts(rig)->pass, 1));
        pass_deliver(rig_parts(rig)->pass, 2);
    }
    ck_assert_uint_eq(mem_calls(), calls);
    rig_run(rig, STEPS_MAX);
    for (uint32_t i = 0; i < 2; i++)
        rig_outcome_release(&got[i]);
    rig_free(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scheduler_groups");
    TCase *tc = tcase_create("scheduler_groups");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, a_request_pins_what_the_ledger_says);
    tcase_add_test(tc, the_least_pool_serves_all_in_turn);
    tcase_add_test(tc, a_hit_behind_a_window_changes_nothing);
    tcase_add_test(tc, a_steady_step_allocates_nothing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
