/* engine_test.c: the engine's thread over one lane: hand-over, queues, limits, drain, with a small
 * model. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine.h"

#include <check.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/request_priv.h"
#include "tests/support/lane_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

static char *bytes;
static struct gguf *gguf;

static void load(void)
{
    struct small_model model = small_model_default();
    gguf = small_model_open(&model, &bytes);
}

static void unload(void)
{
    gguf_free(&gguf);
    mem_free(bytes);
}

static struct lane *start(struct lane_rig *rig, uint32_t queue_max, uint64_t cache_bytes)
{
    struct engine_options o = lane_rig_options();
    struct lane_terms terms = lane_rig_terms();
    o.queue_max = queue_max;
    o.running_max = 2;
    terms.cache_bytes = cache_bytes;
    lane_rig_init(rig, &o);
    return lane_rig_add(rig, gguf, &terms);
}

START_TEST(requests_come_back_done)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 64, 0);
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(i, 10 + i, 7, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, 20), 140);
    ck_assert_uint_eq(engine_active(rig.engine), 0);
    struct engine_stats stats;
    engine_stats_copy(rig.engine, &stats);
    ck_assert_uint_eq(stats.requests_finished, 20);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 4, 0);
    uint32_t accepted = 0;
    enum status status;
    while ((status = lane_rig_submit(&rig, lane, lane_rig_request(0, 200, 700, NULL))) == OK)
        accepted++;
    ck_assert_int_eq(status, STATUS_QUEUE_FULL);
    ck_assert_uint_ge(accepted, 6); /* two run, four wait; more if some were done in between */
    lane_rig_collect(&rig, accepted);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(what_cannot_fit_is_refused_with_both_numbers)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 4, 1 << 17);
    struct why why = {0};
    uint32_t context = lane_context(lane);
    struct request *request = lane_rig_request(0, context, 1, NULL);
    ck_assert_int_eq(engine_submit(rig.port, lane, &request, &why), STATUS_CONTEXT_LENGTH);
    ck_assert_ptr_nonnull(strstr(why.text, "1024"));
    request_free(&request);
    uint32_t pool = (uint32_t)lane_pool_tokens(lane);
    ck_assert_uint_lt(pool, context);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, pool, NULL)),
                     STATUS_CACHE_TOO_SMALL);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, pool - 10, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, 1), pool - 10);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(cancel_and_stop_end_a_running_request)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 4, 0);
    for (int is_stop = 0; is_stop < 2; is_stop++) {
        struct lane_rig_answer answer = {0};
        struct request *request = lane_rig_request(0, 10, 900, &answer);
        struct request *keep = request;
        ck_assert_int_eq(engine_submit(rig.port, lane, &request, NULL), OK);
        engine_cancel(rig.port, keep, is_stop == 1);
        lane_rig_collect(&rig, 1);
        ck_assert_int_eq(answer.reason, is_stop ? FINISH_STOP : FINISH_CANCELLED);
    }
    lane_rig_release(&rig);
}
END_TEST

START_TEST(a_draining_engine_takes_nothing_more)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 4, 0);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, 20, NULL)), OK);
    engine_drain(rig.engine);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(0, 10, 20, NULL)),
                     STATUS_DRAINING);
    ck_assert_uint_eq(lane_rig_collect(&rig, 1), 20);
    lane_rig_release(&rig);
}
END_TEST

START_TEST(the_end_cancels_what_runs)
{
    struct lane_rig rig;
    struct lane *lane = start(&rig, 4, 0);
    struct request *request = lane_rig_request(0, 10, 900, NULL), *keep = request;
    ck_assert_int_eq(engine_submit(rig.port, lane, &request, NULL), OK);
    lane_rig_release(&rig);
    keep->is_done = true; /* as its port would have seen it; the port is gone */
    request_free(&keep);
}
END_TEST

START_TEST(ports_are_few_and_may_be_given_back)
{
    struct lane_rig rig, more[ENGINE_PORTS_MAX - 1];
    struct lane *lane = start(&rig, 4, 0);
    struct engine_port *port;
    struct why why = {0};
    for (int i = 0; i < ENGINE_PORTS_MAX - 1; i++)
        lane_rig_init_port(&more[i], rig.engine);
    ck_assert_int_eq(engine_port_new(rig.engine, NULL, NULL, &port, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(why.text, "4 ports"));
    for (int i = 0; i < ENGINE_PORTS_MAX - 1; i++) {
        ck_assert_int_eq(lane_rig_submit(&more[i], lane, lane_rig_request(0, 10, 5, NULL)), OK);
        ck_assert_uint_eq(lane_rig_collect(&more[i], 1), 5);
        lane_rig_release(&more[i]);
    }
    lane_rig_init_port(&more[0], rig.engine);
    lane_rig_release(&more[0]);
    lane_rig_release(&rig);
}
END_TEST

/* With a worker on every processor the engine waits for those it has woken, but not for ever. */
START_TEST(a_port_that_does_not_collect_holds_up_nobody)
{
    struct lane_rig rig, idle;
    struct engine_options o = lane_rig_options();
    struct lane_terms terms = lane_rig_terms();
    o.n_threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) + (uint32_t)_i;
    lane_rig_init(&rig, &o);
    lane_rig_init_port(&idle, rig.engine);
    struct lane *lane = lane_rig_add(&rig, gguf, &terms);
    ck_assert_int_eq(lane_rig_submit(&idle, lane, lane_rig_request(0, 10, 30, NULL)), OK);
    ck_assert_int_eq(lane_rig_submit(&rig, lane, lane_rig_request(1, 200, 40, NULL)), OK);
    ck_assert_uint_eq(lane_rig_collect(&rig, 1), 40);
    ck_assert_uint_eq(lane_rig_collect(&idle, 1), 30);
    lane_rig_release(&idle);
    lane_rig_release(&rig);
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
    tcase_add_test(tc, the_end_cancels_what_runs);
    tcase_add_test(tc, ports_are_few_and_may_be_given_back);
    tcase_add_loop_test(tc, a_port_that_does_not_collect_holds_up_nobody, 0, 2);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
