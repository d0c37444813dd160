/* lane_crowd_test.c: lanes come, close, abort and go from one thread while two others submit and cancel
 * through ports of their own. Made for the thread and address sanitizers.
 *
 * Whoever submits holds the shelf's read lock, so that a lane is taken off the shelf before it is
 * removed, but it may close at any moment. Every answer must be what its generation says alone, or a
 * beginning of it with an end that the lane's life allows. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "config/mem.h"
#include "tests/support/lane_rig.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { MODELS = 2, PROMPTS = 16, PROMPT = 20, ANSWER = 24, SHELF = 3, FLIGHT = 16, ROUNDS = 12, WHOLE_LEAST = 32 };

static char *bytes[MODELS];
static struct gguf *gguf[MODELS];
static struct lane_rig_answer alone[MODELS][PROMPTS];

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

struct shelf {
    pthread_rwlock_t lock;
    struct lane *lanes[SHELF]; /* 0 stays; NULL: none there now */
    int models[SHELF];
    struct lane_rig *rig;
    atomic_bool is_over;
};

static struct lane *add(struct shelf *shelf, int model, uint8_t name)
{
    struct lane_terms terms = lane_rig_terms();
    terms.namespace_id[0] = name;
    return lane_rig_add(shelf->rig, gguf[model], &terms);
}

static void answer_alone(struct shelf *shelf)
{
    for (int m = 0; m < MODELS; m++) {
        struct lane *lane = add(shelf, m, (uint8_t)(100 + m));
        for (uint32_t i = 0; i < PROMPTS; i++)
            ck_assert_int_eq(lane_rig_submit(shelf->rig, lane,
                                             lane_rig_request(i, PROMPT + i, ANSWER, &alone[m][i])),
                             OK);
        lane_rig_collect(shelf->rig, PROMPTS);
        engine_remove(shelf->rig->engine, &lane);
    }
}

/* ---- who submits ---- */

struct actor {
    struct shelf *shelf;
    struct lane_rig rig;
    uint64_t random;
    struct flight {
        struct lane_rig_answer answer;
        int model;
        uint32_t prompt;
        bool is_cancelled;
    } flights[FLIGHT];
    uint32_t n_whole, n_closed, n_aborted, n_refused;
};

static bool submit(struct actor *a, struct flight *f)
{
    struct shelf *shelf = a->shelf;
    *f = (struct flight){.prompt = noise_below(&a->random, PROMPTS)};
    uint32_t at = noise_below(&a->random, SHELF);
    pthread_rwlock_rdlock(&shelf->lock);
    struct lane *lane = shelf->lanes[at];
    f->model = shelf->models[at];
    struct request *request = NULL, *keep = NULL;
    enum status s = STATUS_LANE_CLOSED;
    if (lane != NULL) {
        request = keep = lane_rig_request(f->prompt, PROMPT + f->prompt, ANSWER, &f->answer);
        s = engine_submit(a->rig.port, lane, &request, NULL);
    }
    pthread_rwlock_unlock(&shelf->lock);
    request_free(&request);
    if (s != OK) {
        ck_assert_msg(s == STATUS_LANE_CLOSED || s == STATUS_FENCED, "%s", status_code(s));
        a->n_refused++;
        return false;
    }
    f->is_cancelled = noise_below(&a->random, 16) == 0;
    if (f->is_cancelled)
        engine_cancel(a->rig.port, keep, false);
    return true;
}

static void check(struct actor *a, const struct flight *f)
{
    const struct lane_rig_answer *got = &f->answer, *whole = &alone[f->model][f->prompt];
    ck_assert(got->is_done && got->n_ids <= whole->n_ids);
    ck_assert_mem_eq(got->ids, whole->ids, got->n_ids * sizeof *got->ids);
    if (got->reason == FINISH_LENGTH) {
        ck_assert_uint_eq(got->n_ids, ANSWER);
        a->n_whole++;
    } else if (got->reason == FINISH_ERROR) {
        ck_assert_int_eq(got->error, got->n_ids > 0 ? STATUS_UNAVAILABLE : STATUS_LANE_CLOSED);
        a->n_aborted += got->n_ids > 0;
        a->n_closed += got->n_ids == 0;
    } else {
        ck_assert(f->is_cancelled && got->reason == FINISH_CANCELLED);
    }
}

static void *act(void *arg)
{
    struct actor *a = arg;
    while (!atomic_load(&a->shelf->is_over) || a->n_whole < WHOLE_LEAST) {
        uint32_t n = 0;
        bool is_there[FLIGHT];
        for (int i = 0; i < FLIGHT; i++)
            n += is_there[i] = submit(a, &a->flights[i]);
        lane_rig_collect(&a->rig, n);
        for (int i = 0; i < FLIGHT; i++)
            if (is_there[i])
                check(a, &a->flights[i]);
    }
    return NULL;
}

/* ---- who brings and takes ---- */

static void take(struct shelf *shelf, uint32_t at, uint64_t *random)
{
    struct lane *lane = shelf->lanes[at];
    lane_want(lane, noise_below(random, 2) ? LANE_CLOSED : LANE_ABORTING); /* it is on the shelf */
    if (noise_below(random, 2))
        lane_rig_await(lane, LANE_CLOSED);
    if (noise_below(random, 2))
        lane_want(lane, LANE_FENCED);
    pthread_rwlock_wrlock(&shelf->lock);
    shelf->lanes[at] = NULL;
    pthread_rwlock_unlock(&shelf->lock);
    engine_remove(shelf->rig->engine, &lane);
}

static void bring(struct shelf *shelf, uint32_t at, uint64_t *random)
{
    static uint8_t name = 1;
    int model = (int)noise_below(random, MODELS);
    struct lane *lane = add(shelf, model, ++name);
    pthread_rwlock_wrlock(&shelf->lock);
    shelf->lanes[at] = lane;
    shelf->models[at] = model;
    pthread_rwlock_unlock(&shelf->lock);
}

static void check_sum(struct engine *engine)
{
    struct engine_stats s;
    engine_stats_copy(engine, &s);
    ck_assert_uint_eq(s.requests_admitted, s.requests_finished + s.requests_aborted +
                                               s.requests_failed + s.requests_running +
                                               s.requests_waiting);
}

START_TEST(lanes_come_and_go_while_others_submit)
{
    struct engine_options o = lane_rig_options();
    struct lane_rig rig;
    lane_rig_init(&rig, &o);
    struct shelf shelf = {.rig = &rig};
    uint64_t random = test_seed();
    answer_alone(&shelf);
    pthread_rwlock_init(&shelf.lock, NULL);
    for (uint32_t i = 0; i < SHELF; i++)
        bring(&shelf, i, &random);
    static struct actor actors[2];
    pthread_t threads[2];
    for (uint64_t i = 0; i < 2; i++) {
        actors[i] = (struct actor){.shelf = &shelf, .random = noise_next(&random)};
        lane_rig_init_port(&actors[i].rig, rig.engine);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t at = 1 + round % (SHELF - 1);
        take(&shelf, at, &random);
        check_sum(rig.engine);
        bring(&shelf, at, &random);
    }
    atomic_store(&shelf.is_over, true);
    uint32_t ended = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ended += actors[i].n_closed + actors[i].n_aborted + actors[i].n_refused;
        printf("port %d: %u whole, %u aborted, %u closed, %u refused\n", i + 1, actors[i].n_whole,
               actors[i].n_aborted, actors[i].n_closed, actors[i].n_refused);
        lane_rig_release(&actors[i].rig);
    }
    ck_assert_uint_gt(ended, 0);
    check_sum(rig.engine);
    lane_rig_release(&rig);
    pthread_rwlock_destroy(&shelf.lock);
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    Suite *suite = suite_create("lane_crowd");
    TCase *tc = tcase_create("lane_crowd");
    tcase_set_timeout(tc, 240);
    tcase_add_unchecked_fixture(tc, load, unload);
    tcase_add_test(tc, lanes_come_and_go_while_others_submit);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
