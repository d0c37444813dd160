/* registry_thread_test.c: jobs of two threads, a journal carried out between them, a projection that is published before
 * the asker hears, and recovery at start. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

static char dir[TEMP_PATH_ROOM];
static struct why why;
static struct world world;
static struct journal_effects effects;
static atomic_int n_projections, weight;
static atomic_int drain_pending; /* the effect of draining waits until the test says so */

static void on_projection(void *user, const struct projection *projection)
{
    (void)user;
    atomic_store(&weight, (int)projection->weight_bp);
    atomic_fetch_add(&n_projections, 1);
}

static enum effect_outcome drain(void *user, const struct journal_case *c, int64_t at_us,
                                 struct record *evidence, struct why *ret_why)
{
    (void)user, (void)c, (void)at_us, (void)evidence, (void)ret_why;
    return atomic_load(&drain_pending) ? EFFECT_PENDING : EFFECT_DONE;
}

static struct registry_thread *start(void)
{
    struct registry_thread *thread = NULL;
    effects = (struct journal_effects){.user = &world,
                                       .apply = {[STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS] = drain}};
    const struct registry_thread_options options = {
        .dir = dir, .effects = &effects, .on_projection = on_projection, .queue_max = 8};
    enum status s = registry_thread_new(&options, 200, &thread, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    return thread;
}

static void begin(void)
{
    temp_dir_make(dir);
}

static void end(void)
{
    temp_dir_remove(dir);
}

static enum job_turn run_call(struct registry *registry, struct registry_job *job)
{
    enum status (*call)(struct registry *, struct why *) = job->user;
    job->status = call(registry, &job->why);
    return JOB_DONE;
}

/* Asks and waits, as a test may. */
static enum status ask(struct registry_port *port,
                       enum status (*call)(struct registry *, struct why *))
{
    struct registry_job job = {.run = run_call, .user = call};
    ck_assert_int_eq(registry_port_submit(port, &job), OK);
    struct registry_job *done;
    while ((done = registry_port_next(port)) == NULL)
        sched_yield();
    ck_assert_ptr_eq(done, &job);
    return job.status;
}

static char second[SHA256_HEX], rollout[REGISTRY_KEY_ROOM];

static enum status publish(struct registry *registry, struct why *ret_why)
{
    char first[SHA256_HEX];
    TRY(rig_found(registry, "first", first, ret_why));
    return rig_publish(registry, "second", NULL, NULL, second, ret_why);
}

static enum status roll_out(struct registry *registry, struct why *ret_why)
{
    return rig_start(registry, second, true, rollout, ret_why);
}

static enum status roll_back(struct registry *registry, struct why *ret_why)
{
    return rig_roll_back(registry, "by hand", ret_why);
}

static enum status is_rolled_back(struct registry *registry, struct why *ret_why)
{
    struct release_rollout read;
    TRY(release_rollout_read(registry, rollout, &read, ret_why));
    return read.now.state == ROLLOUT_ROLLED_BACK ? OK : STATUS_UNAVAILABLE;
}

START_TEST(a_rollback_waits_for_its_effects_and_not_for_jobs)
{
    struct registry_thread *thread = start();
    struct registry_port *port;
    ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &port), OK);
    ck_assert_int_eq(ask(port, publish), OK);
    ck_assert_int_eq(ask(port, roll_out), OK);
    ck_assert_int_eq(atomic_load(&weight), 100); /* seen when the answer is */
    atomic_store(&drain_pending, 1);
    ck_assert_int_eq(ask(port, roll_back), OK);
    for (int i = 0; i < 20; i++) /* other work goes on */
        ck_assert_int_eq(ask(port, is_rolled_back), STATUS_UNAVAILABLE);
    atomic_store(&drain_pending, 0);
    registry_thread_nudge(thread);
    while (ask(port, is_rolled_back) != OK)
        sched_yield();
    ck_assert_int_eq(atomic_load(&weight), 0);
    ck_assert(registry_thread_is_writable(thread));
    registry_thread_free(&thread);
}
END_TEST

START_TEST(an_open_journal_is_carried_out_before_the_start_is_over)
{
    struct registry_thread *thread = start();
    struct registry_port *port;
    ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &port), OK);
    ck_assert_int_eq(ask(port, publish), OK);
    ck_assert_int_eq(ask(port, roll_out), OK);
    atomic_store(&drain_pending, 1);
    ck_assert_int_eq(ask(port, roll_back), OK);
    registry_thread_free(&thread); /* in the midst of it */
    atomic_store(&drain_pending, 0);
    struct registry *registry;
    thread = start();
    registry_thread_free(&thread);
    ck_assert_int_eq(registry_open(dir, &registry, &why), OK);
    ck_assert_int_eq(is_rolled_back(registry, &why), OK);
    registry_close(&registry);
}
END_TEST

/* A job that takes many turns. */
struct long_job {
    struct registry_job job;
    int turns;
};

static enum job_turn run_long(struct registry *registry, struct registry_job *job)
{
    struct long_job *l = (struct long_job *)job;
    (void)registry;
    job->status = OK;
    return --l->turns > 0 ? JOB_AGAIN : JOB_DONE;
}

static enum status quick(struct registry *registry, struct why *ret_why)
{
    int64_t epoch;
    return registry_epoch(registry, &epoch, ret_why);
}

START_TEST(a_long_job_leaves_room_for_short_ones)
{
    struct registry_thread *thread = start();
    struct registry_port *slow, *fast;
    struct long_job job = {.job = {.run = run_long}, .turns = 5000};
    ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &slow), OK);
    ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &fast), OK);
    ck_assert_int_eq(registry_port_submit(slow, &job.job), OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ask(fast, quick), OK);
    ck_assert_ptr_null(registry_port_next(slow));
    registry_thread_free(&thread);
}
END_TEST

START_TEST(a_full_port_says_so)
{
    struct registry_thread *thread = start();
    struct registry_port *port;
    struct long_job jobs[9];
    ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &port), OK);
    for (int i = 0; i < 9; i++) {
        jobs[i] = (struct long_job){.job = {.run = run_long}, .turns = 1};
        ck_assert_int_eq(registry_port_submit(port, &jobs[i].job), i < 8 ? OK : STATUS_QUEUE_FULL);
    }
    for (int i = 0; i < 8; i++) {
        struct registry_job *done;
        while ((done = registry_port_next(port)) == NULL)
            sched_yield();
        ck_assert_ptr_eq(done, &jobs[i].job);
    }
    registry_thread_free(&thread);
}
END_TEST

static void *ask_often(void *user)
{
    for (int i = 0; i < 50; i++)
        if (ask(user, quick) != OK)
            return user;
    return NULL;
}

START_TEST(two_threads_ask)
{
    struct registry_thread *thread = start();
    struct registry_port *ports[2];
    pthread_t askers[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(registry_port_new(thread, NULL, NULL, &ports[i]), OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&askers[i], NULL, ask_often, ports[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(askers[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    registry_thread_free(&thread);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_thread");
    TCase *tcase = tcase_create("registry_thread");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_rollback_waits_for_its_effects_and_not_for_jobs);
    tcase_add_test(tcase, an_open_journal_is_carried_out_before_the_start_is_over);
    tcase_add_test(tcase, a_long_job_leaves_room_for_short_ones);
    tcase_add_test(tcase, a_full_port_says_so);
    tcase_add_test(tcase, two_threads_ask);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
