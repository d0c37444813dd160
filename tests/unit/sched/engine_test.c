/* engine_test.c: the engine's thread: hand-over, queues, limits, drain, with a small model. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine.h"

#include <check.h>
#include <pthread.h>

#include "config/mem.h"
#include "sched/doorbell.h"
#include "tests/support/engine_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

#define WAIT_NS 10000000000u

static char *bytes;
static struct gguf *gguf;

static void load(void)
{
    struct small_model model = small_model_default();
    struct why why = {0};
    size_t len;
    bytes = small_model_bytes(&model, &len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
}

static void unload(void)
{
    gguf_free(&gguf);
    mem_free(bytes);
}

static void ring(void *user)
{
    doorbell_ring(user);
}

static struct engine *start(struct doorbell *bell, uint32_t queue_max, uint64_t cache_bytes)
{
    struct engine_options o = rig_options();
    struct engine *engine;
    struct why why = {0};
    ck_assert_int_eq(doorbell_init(bell), OK);
    o.queue_max = queue_max;
    o.running_max = 2;
    o.cache_bytes = cache_bytes;
    o.on_wake = ring;
    o.user = bell;
    ck_assert_msg(engine_new(gguf, &o, &engine, &why) == OK, "%s", why.text);
    return engine;
}

static struct request *make(uint32_t n_ids, uint32_t max_tokens)
{
    struct request_params params = {.ids = mem_zalloc(n_ids, sizeof *params.ids),
                                    .n_ids = n_ids,
                                    .max_tokens = max_tokens,
                                    .sampling = {.top_p = 1.0f},
                                    .logprobs = -1};
    for (uint32_t i = 0; i < n_ids; i++)
        params.ids[i] = i % 200;
    struct request *request;
    ck_assert_int_eq(request_new(&params, NULL, &request), OK);
    return request;
}

/* Collects until n requests are done; returns the tokens that came. */
static uint32_t collect(struct engine *engine, struct doorbell *bell, uint32_t n)
{
    uint32_t tokens = 0;
    while (n > 0) {
        doorbell_wait(bell, WAIT_NS);
        for (struct request *r; (r = engine_next_ready(engine)) != NULL;) {
            struct token_output output;
            while (request_next(r, &output))
                tokens++;
            if (request_is_done(r)) {
                request_free(&r);
                n--;
            }
        }
    }
    return tokens;
}

START_TEST(requests_come_back_done)
{
    struct doorbell bell;
    struct engine *engine = start(&bell, 64, 0);
    for (int i = 0; i < 20; i++) {
        struct request *request = make(10 + (uint32_t)i, 7);
        ck_assert_int_eq(engine_submit(engine, &request, NULL), OK);
        ck_assert_ptr_null(request);
    }
    ck_assert_uint_eq(collect(engine, &bell, 20), 140);
    ck_assert_uint_eq(engine_active(engine), 0);
    struct engine_stats stats;
    engine_stats_copy(engine, &stats);
    ck_assert_uint_eq(stats.requests_finished, 20);
    engine_free(&engine);
    doorbell_release(&bell);
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct doorbell bell;
    struct engine *engine = start(&bell, 4, 0);
    uint32_t accepted = 0;
    enum status status = OK;
    while (status == OK) {
        struct request *request = make(200, 700);
        status = engine_submit(engine, &request, NULL);
        accepted += status == OK;
        request_free(&request);
    }
    ck_assert_int_eq(status, STATUS_QUEUE_FULL);
    ck_assert_uint_ge(accepted, 6); /* two run, four wait; more if some were done in between */
    collect(engine, &bell, accepted);
    engine_free(&engine);
    doorbell_release(&bell);
}
END_TEST

START_TEST(what_cannot_fit_is_refused_with_both_numbers)
{
    struct doorbell bell;
    struct engine *engine = start(&bell, 4, 1 << 17);
    struct why why = {0};
    uint32_t context = engine_context(engine);
    struct request *request = make(context, 1);
    ck_assert_int_eq(engine_submit(engine, &request, &why), STATUS_CONTEXT_LENGTH);
    ck_assert_ptr_nonnull(strstr(why.text, "1024"));
    request_free(&request);
    uint32_t pool = (uint32_t)engine_pool_tokens(engine);
    ck_assert_uint_lt(pool, context);
    request = make(10, pool);
    ck_assert_int_eq(engine_submit(engine, &request, &why), STATUS_CACHE_TOO_SMALL);
    request_free(&request);
    request = make(10, pool - 10);
    ck_assert_int_eq(engine_submit(engine, &request, &why), OK);
    ck_assert_uint_eq(collect(engine, &bell, 1), pool - 10);
    engine_free(&engine);
    doorbell_release(&bell);
}
END_TEST

START_TEST(cancel_and_stop_end_a_running_request)
{
    struct doorbell bell;
    struct engine *engine = start(&bell, 4, 0);
    for (int is_stop = 0; is_stop < 2; is_stop++) {
        struct request *request = make(10, 900), *keep = request;
        ck_assert_int_eq(engine_submit(engine, &request, NULL), OK);
        engine_cancel(engine, keep, is_stop == 1);
        for (bool done = false; !done;) {
            doorbell_wait(&bell, WAIT_NS);
            while ((request = engine_next_ready(engine)) != NULL)
                done = request_is_done(request);
        }
        ck_assert_int_eq(request_finish_reason(keep), is_stop ? FINISH_STOP : FINISH_CANCELLED);
        request_free(&keep);
    }
    engine_free(&engine);
    doorbell_release(&bell);
}
END_TEST

START_TEST(a_draining_engine_takes_nothing_more)
{
    struct doorbell bell;
    struct engine *engine = start(&bell, 4, 0);
    struct request *first = make(10, 20), *second = make(10, 20);
    ck_assert_int_eq(engine_submit(engine, &first, NULL), OK);
    engine_drain(engine);
    ck_assert_int_eq(engine_submit(engine, &second, NULL), STATUS_DRAINING);
    request_free(&second);
    ck_assert_uint_eq(collect(engine, &bell, 1), 20);
    engine_free(&engine);
    doorbell_release(&bell);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tc = tcase_create("engine");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, requests_come_back_done);
    tcase_add_test(tc, a_full_queue_refuses);
    tcase_add_test(tc, what_cannot_fit_is_refused_with_both_numbers);
    tcase_add_test(tc, cancel_and_stop_end_a_running_request);
    tcase_add_test(tc, a_draining_engine_takes_nothing_more);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
