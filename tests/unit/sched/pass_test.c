/* pass_test.c: lanes that share a step, step by step: who may join, how prompts share the room, what
 * one lane's trouble does to the others. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pass.h"

#include <check.h>

#include "config/mem.h"
#include "sched/decoder_priv.h"
#include "sched/pass_priv.h"
#include "tests/support/engine_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { STEPS_MAX = 10000, IDS = 900, STEP_NS = 1000000 };

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

static struct rig_spec greedy(uint32_t first, uint32_t n_ids, uint32_t max_tokens)
{
    return (struct rig_spec){.ids = ids + first,
                             .n_ids = n_ids,
                             .max_tokens = max_tokens,
                             .sampling = {.top_p = 1.0f},
                             .logprobs = 1};
}

static struct rig *lanes_new(uint32_t n)
{
    struct rig_options o = rig_options();
    o.n_lanes = n;
    o.cache_bytes = 1 << 20;
    o.lane_bytes = 1 << 18;
    return rig_new(gguf, &o);
}

static struct engine_stats stats_of(struct rig *rig, uint32_t lane)
{
    struct engine_stats stats;
    scheduler_stats(rig_lane(rig, lane)->scheduler, &stats);
    return stats;
}

/* What a request gives by itself. */
static struct rig_outcome alone(const struct rig_spec *spec)
{
    struct rig_outcome got = {0};
    struct rig *rig = lanes_new(1);
    rig_submit(rig, spec, &got);
    rig_run(rig, STEPS_MAX);
    rig_free(&rig);
    return got;
}

static void release(struct rig_outcome *outcomes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rig_outcome_release(&outcomes[i]);
}

START_TEST(lanes_share_their_steps)
{
    enum { N = PASS_SCHEDULERS_MAX };
    struct rig_spec specs[N];
    struct rig_outcome expected[N], got[N] = {0};
    struct rig *rig = lanes_new(N);
    for (uint32_t i = 0; i < N; i++) {
        specs[i] = greedy(i * 50, 40, 30);
        expected[i] = alone(&specs[i]);
        rig_submit_to(rig, i, &specs[i], &got[i]);
    }
    rig_run(rig, STEPS_MAX);
    for (uint32_t i = 0; i < N; i++) {
        rig_outcome_check_equal(&expected[i], &got[i], "in company");
        struct engine_stats stats = stats_of(rig, i);
        ck_assert_uint_eq(stats.requests_finished, 1);
        ck_assert_uint_eq(stats.prefill_tokens, 40);
        ck_assert_uint_eq(stats.prefix_hit_tokens, 0);
        ck_assert_uint_eq(stats.blocks_used, 0);
        ck_assert_ptr_eq(rig_lane(rig, i)->model->weights, rig_parts(rig)->model->weights);
    }
    release(expected, N);
    release(got, N);
    rig_free(&rig);
}
END_TEST

/* The same prompt in two lanes is computed in both: no lane sees another's pages. */
START_TEST(no_lane_hits_the_pages_of_another)
{
    struct rig_spec spec = greedy(0, 300, 4);
    struct rig_outcome got[3] = {0};
    struct rig *rig = lanes_new(2);
    rig_submit_to(rig, 0, &spec, &got[0]);
    rig_run(rig, STEPS_MAX);
    rig_submit_to(rig, 1, &spec, &got[1]);
    rig_run(rig, STEPS_MAX);
    rig_submit_to(rig, 0, &spec, &got[2]);
    rig_run(rig, STEPS_MAX);
    ck_assert_uint_eq(got[1].cached_tokens, 0);
    ck_assert_uint_gt(got[2].cached_tokens, 0);
    ck_assert_uint_eq(stats_of(rig, 1).prefix_hit_tokens, 0);
    rig_outcome_check_equal(&got[0], &got[2], "after a hit");
    got[1].cached_tokens = got[0].cached_tokens;
    rig_outcome_check_equal(&got[0], &got[1], "in the other lane");
    release(got, 3);
    rig_free(&rig);
}
END_TEST

/* A lane in f16 and one in int8 walk together, and each gets its own answer. */
START_TEST(lanes_of_two_kv_types_share_their_steps)
{
    static const char *const types[] = {"f16", "int8", "f32"};
    struct rig_spec specs[2] = {greedy(0, 300, 40), greedy(200, 300, 40)};
    for (uint32_t t = 0; t < 9; t++) {
        struct rig_outcome expected[2] = {0}, got[2] = {0};
        struct rig_options o = rig_options();
        for (uint32_t i = 0; i < 2; i++) {
            o.cache_type = types[i == 0 ? t / 3 : t % 3];
            struct rig *rig = rig_new(gguf, &o);
            rig_submit(rig, &specs[i], &expected[i]);
            rig_run(rig, STEPS_MAX);
            rig_free(&rig);
        }
        o.n_lanes = 2;
        o.n_threads = 1 + t % 3;
        o.cache_type = types[t / 3];
        o.other_type = types[t % 3];
        struct rig *rig = rig_new(gguf, &o);
        for (uint32_t i = 0; i < 2; i++)
            rig_submit_to(rig, i, &specs[i], &got[i]);
        rig_run(rig, STEPS_MAX);
        for (uint32_t i = 0; i < 2; i++)
            rig_outcome_check_equal(&expected[i], &got[i], types[i == 0 ? t / 3 : t % 3]);
        rig_free(&rig);
        release(expected, 2);
        release(got, 2);
    }
}
END_TEST

START_TEST(all_prompts_share_one_room)
{
    enum { LANES = 3, CHUNK = 64 };
    struct rig_outcome got[LANES] = {0};
    struct rig *rig = lanes_new(LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        struct rig_spec spec = greedy(i * 100, 500, 2);
        rig_submit_to(rig, i, &spec, &got[i]);
    }
    uint64_t before = 0, most = 0;
    while (rig_step(rig, STEP_NS)) {
        uint64_t rows = 0;
        for (uint32_t i = 0; i < LANES; i++)
            rows += stats_of(rig, i).step_rows;
        most = rows - before > most ? rows - before : most;
        before = rows;
    }
    ck_assert_uint_ge(most, CHUNK);
    ck_assert_uint_le(most, CHUNK + LANES);
    for (uint32_t i = 0; i < LANES; i++)
        ck_assert_int_eq(got[i].reason, FINISH_LENGTH);
    release(got, LANES);
    rig_free(&rig);
}
END_TEST

/* Whichever lane they are in. */
START_TEST(prompts_go_by_age)
{
    struct rig_spec spec = greedy(0, 400, 1);
    struct rig_outcome got[4] = {0};
    static const uint32_t lanes[] = {1, 0, 2, 1};
    struct rig *rig = lanes_new(3);
    struct rig_spec busy = greedy(700, 5, 200);
    struct rig_outcome stream = {0};
    rig_submit_to(rig, 0, &busy, &stream);
    rig_step(rig, STEP_NS);
    for (uint32_t i = 0; i < 4; i++) {
        spec.ids = ids + i * 11;
        rig_submit_to(rig, lanes[i], &spec, &got[i]);
        rig_step(rig, STEP_NS);
    }
    for (uint32_t next = 0; next < 4;) {
        ck_assert(rig_step(rig, STEP_NS));
        for (uint32_t i = next + 1; i < 4; i++)
            ck_assert_msg(!got[i].is_done || got[next].is_done, "%u overtook %u", i, next);
        while (next < 4 && got[next].is_done)
            next++;
    }
    release(got, 4);
    rig_outcome_release(&stream);
    rig_free(&rig);
}
END_TEST

/* A prompt by itself takes whole chunks; while another pass decodes, it takes what that allows. */
START_TEST(a_prompt_heeds_other_passes)
{
    struct rig_spec spec = greedy(0, 600, 1);
    struct rig_outcome got[2] = {0};
    struct pace_company company = {0};
    uint64_t n_steps[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = lanes_new(1);
        company.decode_ns = i == 0 ? 0.0 : STEP_NS / 4.0;
        pass_set_company(rig_parts(rig)->pass, &company);
        rig_submit(rig, &spec, &got[i]);
        rig_run(rig, STEPS_MAX);
        n_steps[i] = stats_of(rig, 0).steps;
        rig_free(&rig);
    }
    ck_assert_uint_le(n_steps[0], 11);
    ck_assert_uint_gt(n_steps[1], 30);
    rig_outcome_check_equal(&got[0], &got[1], "in smaller steps");
    release(got, 2);
}
END_TEST

START_TEST(a_pass_tells_others_what_it_is)
{
    struct rig_outcome got[2] = {0};
    struct rig_spec stream = greedy(0, 5, 40), prompt = greedy(100, 500, 1);
    struct rig *rig = lanes_new(2);
    struct pace_company company = {0};
    pass_add_company(rig_parts(rig)->pass, &company);
    ck_assert(!company.is_unknown && company.n_prompting == 0);
    rig_submit_to(rig, 0, &stream, &got[0]);
    rig_step(rig, STEP_NS);
    pass_add_company(rig_parts(rig)->pass, &company);
    ck_assert(company.is_unknown);
    rig_submit_to(rig, 1, &prompt, &got[1]);
    rig_step(rig, STEP_NS);
    company = (struct pace_company){.decode_ns = 5.0};
    pass_add_company(rig_parts(rig)->pass, &company);
    ck_assert(!company.is_unknown);
    ck_assert_double_eq_tol(company.decode_ns, 5.0 + STEP_NS, 0.5);
    ck_assert_uint_eq(company.n_prompting, 1);
    rig_run(rig, STEPS_MAX);
    release(got, 2);
    rig_free(&rig);
}
END_TEST

START_TEST(a_lane_leaves_and_comes_back)
{
    struct rig_spec specs[2] = {greedy(0, 200, 60), greedy(300, 200, 60)};
    struct rig_outcome expected[2] = {alone(&specs[0]), alone(&specs[1])}, got[2] = {0};
    struct why why = {0};
    struct rig *rig = lanes_new(2);
    for (uint32_t i = 0; i < 2; i++)
        rig_submit_to(rig, i, &specs[i], &got[i]);
    for (uint32_t i = 0; i < 12; i++)
        rig_step(rig, STEP_NS);
    ck_assert(!got[0].is_done && !got[1].is_done);
    rig_leave(rig, 0);
    ck_assert_uint_eq(pass_schedulers(rig_parts(rig)->pass), 1);
    uint32_t n_before = got[0].n_outputs;
    rig_run(rig, STEPS_MAX);
    ck_assert(got[1].is_done && !got[0].is_done);
    ck_assert_uint_eq(got[0].n_outputs, n_before);
    ck_assert_msg(rig_join(rig, 0, &why) == OK, "%s", why.text);
    rig_run(rig, STEPS_MAX);
    for (uint32_t i = 0; i < 2; i++)
        rig_outcome_check_equal(&expected[i], &got[i], "with a pause");
    release(expected, 2);
    release(got, 2);
    rig_free(&rig);
}
END_TEST

/* The second lane's memory is said to be of another generation, in the midst of its requests. */
START_TEST(a_stale_pool_fails_alone)
{
    struct rig_spec specs[2] = {greedy(0, 100, 60), greedy(300, 100, 60)};
    struct rig_outcome expected = alone(&specs[0]), got[3] = {0};
    struct rig *rig = lanes_new(2);
    struct pass *pass = rig_parts(rig)->pass;
    for (uint32_t i = 0; i < 2; i++)
        rig_submit_to(rig, i, &specs[i], &got[i]);
    for (uint32_t i = 0; i < 12; i++)
        rig_step(rig, STEP_NS);
    uint32_t pool = pass_pool(pass, rig_lane(rig, 1)->scheduler);
    pass_decoder(pass)->pools[pool].generation[31] ^= 1;
    rig_step(rig, STEP_NS);
    ck_assert(got[1].is_done);
    ck_assert_int_eq(got[1].error, STATUS_STALE_PLAN);
    ck_assert(!got[0].is_done);
    rig_run(rig, STEPS_MAX);
    rig_outcome_check_equal(&expected, &got[0], "beside a stale pool");
    rig_submit_to(rig, 1, &specs[1], &got[2]);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(got[2].error, STATUS_STALE_PLAN);
    ck_assert_uint_eq(got[2].n_outputs, 0);
    ck_assert_uint_eq(stats_of(rig, 1).blocks_used, 0);
    release(got, 3);
    rig_outcome_release(&expected);
    rig_free(&rig);
}
END_TEST

/* Token 5's embedding is made NaN; who reads it is in another lane. */
START_TEST(a_nan_stays_in_its_lane)
{
    uint32_t poisoned[3] = {7, 5, 9}, clean[30];
    for (uint32_t i = 0; i < 30; i++)
        clean[i] = 100 + i;
    struct rig_spec healthy = greedy(0, 30, 10), sick = greedy(0, 3, 10);
    healthy.ids = clean;
    sick.ids = poisoned;
    struct rig_outcome expected = alone(&healthy), got[2] = {0};
    struct rig *rig = lanes_new(2);
    struct weights *weights = rig_parts(rig)->model->weights;
    const uint16_t nan_half = 0x7e00; /* the scale of row 5 in the first block of its panel */
    char *panels = weights->mapping + (weights->embedding.panels - weights->mapping);
    memcpy(panels + 5 * sizeof nan_half, &nan_half, sizeof nan_half);
    rig_submit_to(rig, 0, &healthy, &got[0]);
    rig_submit_to(rig, 1, &sick, &got[1]);
    rig_run(rig, STEPS_MAX);
    ck_assert_int_eq(got[1].error, STATUS_NUMERIC);
    ck_assert_uint_eq(stats_of(rig, 0).numeric_errors, 0);
    ck_assert_uint_eq(stats_of(rig, 1).numeric_errors, 1);
    rig_outcome_check_equal(&expected, &got[0], "beside a NaN");
    release(got, 2);
    rig_outcome_release(&expected);
    rig_free(&rig);
}
END_TEST

START_TEST(more_than_there_is_room_for_are_refused)
{
    struct why why = {0};
    struct rig *rig = lanes_new(PASS_SCHEDULERS_MAX);
    struct rig_options o = rig_options();
    rig_leave(rig, 3);
    ck_assert_int_eq(rig_join(rig, 3, &why), OK);
    rig_free(&rig);
    o.n_lanes = 2;
    rig = rig_new(gguf, &o);
    rig_leave(rig, 1);
    struct pass *pass = rig_parts(rig)->pass;
    pass->limits.running_max--;
    ck_assert_int_eq(rig_join(rig, 1, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(why.text, "room for 15"));
    ck_assert_uint_eq(pass_schedulers(pass), 1);
    pass->limits.running_max++;
    ck_assert_int_eq(rig_join(rig, 1, &why), OK);
    rig_free(&rig);
}
END_TEST

START_TEST(another_model_is_refused)
{
    struct small_model model = small_model_default();
    model.seed = 12345;
    struct why why = {0};
    size_t len;
    char *other_bytes = small_model_bytes(&model, &len);
    struct gguf *other_gguf;
    ck_assert_int_eq(gguf_parse(other_bytes, len, &other_gguf, &why), OK);
    struct rig_options o = rig_options();
    struct rig *rig = lanes_new(1), *other = rig_new(other_gguf, &o);
    rig_leave(rig, 0);
    struct decoder_memory memory = lane_parts_memory(rig_lane(rig, 0));
    ck_assert_int_eq(pass_join(rig_parts(other)->pass, rig_lane(rig, 0)->scheduler, &memory, &why),
                     STATUS_STALE_PLAN);
    ck_assert_uint_eq(pass_schedulers(rig_parts(other)->pass), 1);
    rig_free(&other);
    rig_free(&rig);
    gguf_free(&other_gguf);
    mem_free(other_bytes);
}
END_TEST

START_TEST(a_steady_step_allocates_nothing)
{
    struct rig_spec spec = greedy(0, 100, 200);
    struct rig_outcome got[6] = {0};
    struct rig *rig = lanes_new(3);
    struct pass *pass = rig_parts(rig)->pass;
    for (uint32_t i = 0; i < 6; i++)
        rig_submit_to(rig, i % 3, &spec, &got[i]);
    for (int i = 0; i < 20; i++)
        rig_step(rig, STEP_NS);
    uint64_t before = mem_calls();
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(pass_step(pass, i));
        pass_deliver(pass, i);
    }
    ck_assert_uint_eq(mem_calls(), before);
    rig_run(rig, STEPS_MAX);
    release(got, 6);
    rig_free(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pass");
    TCase *tc = tcase_create("pass");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, lanes_share_their_steps);
    tcase_add_test(tc, no_lane_hits_the_pages_of_another);
    tcase_add_test(tc, lanes_of_two_kv_types_share_their_steps);
    tcase_add_test(tc, all_prompts_share_one_room);
    tcase_add_test(tc, prompts_go_by_age);
    tcase_add_test(tc, a_prompt_heeds_other_passes);
    tcase_add_test(tc, a_pass_tells_others_what_it_is);
    tcase_add_test(tc, a_lane_leaves_and_comes_back);
    tcase_add_test(tc, a_stale_pool_fails_alone);
    tcase_add_test(tc, a_nan_stays_in_its_lane);
    tcase_add_test(tc, more_than_there_is_room_for_are_refused);
    tcase_add_test(tc, another_model_is_refused);
    tcase_add_test(tc, a_steady_step_allocates_nothing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
