/* evaluator.c: the thread, its one job at a time, and what others may know of it.
 *
 * HOW     A job is put down under the lock and the thread rung; it runs with plain calls that wait at the
 *         doorbell, and every wait is a turn of the canary's. What others read is copied under the lock.
 * ALWAYS  (1) A run that was taken ends exactly once, and is collected exactly once.  evaluator_take_end
 *         (2) The lanes of a run have none of its requests once it ended.
 * THREAD  fields under "shared" are guarded by lock; the rest is the evaluator's thread's.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluator.h"

#include <pthread.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "sched/evaluate/quality_canary.h"

#define IDLE_NS 50000000u

enum job { JOB_NONE, JOB_ASKED, JOB_RUNS, JOB_ENDED };

struct evaluator {
    struct evaluator_options options;
    pthread_t thread;
    bool has_thread, has_lock;
    atomic_bool is_stopping, is_cancelled;
    struct flights *flights;

    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum job job;
    bool is_warming;
    struct evaluation_plan *plan;
    struct lane *lanes[SIDE_COUNT];
    struct evaluator_progress progress;
    struct evaluator_end end;
    struct quality_canary canary; /* begun and ended by others, else the thread's */
    struct evaluator_quality quality;

    struct evaluation_run run; /* of the job that runs */
};

static void lock(struct evaluator *e)
{
    ASSERT(pthread_mutex_lock(&e->lock) == 0);
}

static void unlock(struct evaluator *e)
{
    ASSERT(pthread_mutex_unlock(&e->lock) == 0);
}

/* ---- the thread ---- */

static void on_progress(void *user, const struct evaluator_progress *progress)
{
    struct evaluator *e = user;
    lock(e);
    e->progress = *progress;
    unlock(e);
}

static void take_turn(void *user)
{
    struct evaluator *e = user;
    lock(e);
    bool was_there = e->canary.plan != NULL;
    bool has_result = quality_canary_turn(&e->canary, e->flights, clock_now_ns());
    if (has_result) {
        e->quality.n_runs++;
        e->quality.n_slices = e->canary.plan->n_slices;
        memcpy(e->quality.slices, e->canary.slices, sizeof e->quality.slices);
    }
    if (was_there && e->canary.plan == NULL)
        pthread_cond_broadcast(&e->changed);
    unlock(e);
    if (has_result)
        e->options.on_news(e->options.user);
}

static void evaluate(struct evaluator *e, struct evaluator_end *end)
{
    struct evaluation_run *run = &e->run;
    end->status = evaluation_run(run, &end->why);
    if (end->status != OK)
        return;
    end->passes = evaluation_result_passes(&run->result, &run->plan->thresholds);
    end->cells = run->result.cells;
    end->status = evaluation_receipt_write(&run->result, &run->plan->thresholds, &end->receipt,
                                           end->receipt_hash);
    if (end->status != OK)
        (void)why_set(&end->why, end->status, "", "no memory for the evaluation's receipt");
}

static void run_job(struct evaluator *e, struct evaluation_plan *plan)
{
    struct evaluator_end end = {.is_warming = e->is_warming};
    memset(&e->run, 0, sizeof e->run);
    e->run.plan = plan;
    memcpy(e->run.lanes, e->lanes, sizeof e->run.lanes);
    e->run.flights = e->flights;
    e->run.is_cancelled = &e->is_cancelled;
    e->run.on_turn = take_turn;
    e->run.on_progress = on_progress;
    e->run.user = e;
    if (end.is_warming)
        end.status = warming_run(&e->run, &end.receipt, end.receipt_hash, &end.passes, &end.why);
    else
        evaluate(e, &end);
    evaluation_plan_free(&plan);
    lock(e);
    e->progress = e->run.progress;
    e->progress.stage = EVALUATOR_ENDED;
    e->end = end;
    e->job = JOB_ENDED;
    unlock(e);
    e->options.on_news(e->options.user);
}

/* The plan of a job that was asked for; NULL if there is none. */
static struct evaluation_plan *take_job(struct evaluator *e)
{
    lock(e);
    struct evaluation_plan *plan = NULL;
    if (e->job == JOB_ASKED) {
        e->job = JOB_RUNS;
        plan = e->plan;
        e->plan = NULL;
    }
    unlock(e);
    return plan;
}

/* Not before the canary's request is back: the port goes next. */
static void leave(struct evaluator *e)
{
    lock(e);
    quality_canary_end(&e->canary);
    unlock(e);
    do {
        take_turn(e);
        if (flights_count(e->flights) > 0)
            flights_wait(e->flights, IDLE_NS);
    } while (flights_count(e->flights) > 0 || e->canary.plan != NULL);
}

static void *evaluator_loop(void *arg)
{
    struct evaluator *e = arg;
    (void)pthread_setname_np(pthread_self(), "evaluator");
    while (!atomic_load(&e->is_stopping)) {
        struct evaluation_plan *plan = take_job(e);
        if (plan != NULL)
            run_job(e, plan);
        take_turn(e);
        flights_wait(e->flights, IDLE_NS);
    }
    leave(e);
    return NULL;
}

/* ---- life ---- */

enum status evaluator_new(const struct evaluator_options *options, struct evaluator **ret_evaluator,
                          struct why *ret_why)
{
    *ret_evaluator = NULL;
    struct evaluator *e = mem_zalloc(1, sizeof *e);
    if (e == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluator");
    e->options = *options;
    e->has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
    if (!e->has_lock || pthread_cond_init(&e->changed, NULL) != 0) {
        if (e->has_lock)
            pthread_mutex_destroy(&e->lock);
        mem_free(e);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluator's lock");
    }
    enum status s = flights_new(options->engine, &e->flights, ret_why);
    if (s == OK && pthread_create(&e->thread, NULL, evaluator_loop, e) != 0)
        s = why_set(ret_why, STATUS_UNAVAILABLE, "", "the evaluator's thread could not be made");
    e->has_thread = s == OK;
    if (s != OK)
        evaluator_free(&e);
    *ret_evaluator = e;
    return s;
}

void evaluator_free(struct evaluator **evaluator)
{
    struct evaluator *e = *evaluator;
    if (e == NULL)
        return;
    atomic_store(&e->is_cancelled, true);
    atomic_store(&e->is_stopping, true);
    if (e->has_thread) {
        flights_ring(e->flights);
        pthread_join(e->thread, NULL);
    }
    flights_free(&e->flights);
    evaluation_plan_free(&e->plan);
    mem_free(e->end.receipt);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    mem_free(e);
    *evaluator = NULL;
}

/* ---- what others ask ---- */

static enum status ask(struct evaluator *e, struct evaluation_plan **plan, bool is_warming,
                       struct lane *candidate, struct lane *baseline, struct why *ret_why)
{
    lock(e);
    bool is_free = e->job == JOB_NONE;
    if (is_free) {
        e->job = JOB_ASKED;
        e->is_warming = is_warming;
        e->plan = *plan;
        *plan = NULL;
        e->lanes[SIDE_CANDIDATE] = candidate;
        e->lanes[SIDE_BASELINE] = baseline;
        e->progress = (struct evaluator_progress){.stage = is_warming ? EVALUATOR_WARMING
                                                                      : EVALUATOR_QUALITY};
        atomic_store(&e->is_cancelled, atomic_load(&e->is_stopping));
    }
    unlock(e);
    if (!is_free)
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "",
                       "an evaluation is under way: one runs at a time");
    flights_ring(e->flights);
    return OK;
}

enum status evaluator_start(struct evaluator *evaluator, struct evaluation_plan **plan,
                            struct lane *candidate, struct lane *baseline, struct why *ret_why)
{
    return ask(evaluator, plan, false, candidate, baseline, ret_why);
}

enum status evaluator_warm(struct evaluator *evaluator, struct evaluation_plan **plan,
                           struct lane *candidate, struct lane *baseline, struct why *ret_why)
{
    return ask(evaluator, plan, true, candidate, baseline, ret_why);
}

void evaluator_cancel(struct evaluator *evaluator)
{
    atomic_store(&evaluator->is_cancelled, true);
    flights_ring(evaluator->flights);
}

void evaluator_progress(struct evaluator *evaluator, struct evaluator_progress *ret_progress)
{
    lock(evaluator);
    *ret_progress = evaluator->progress;
    unlock(evaluator);
}

bool evaluator_take_end(struct evaluator *evaluator, struct evaluator_end *ret_end)
{
    lock(evaluator);
    bool has_ended = evaluator->job == JOB_ENDED;
    if (has_ended) {
        *ret_end = evaluator->end;
        evaluator->end = (struct evaluator_end){0};
        evaluator->job = JOB_NONE;
        evaluator->progress.stage = EVALUATOR_IDLE;
    }
    unlock(evaluator);
    return has_ended;
}

enum status evaluator_canary_start(struct evaluator *evaluator, struct evaluation_plan **plan,
                                   const struct evaluator_canary *canary, struct why *ret_why)
{
    lock(evaluator);
    enum status s =
        evaluator->canary.plan != NULL
            ? why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "", "a quality canary runs already")
            : quality_canary_begin(&evaluator->canary, plan, canary, ret_why);
    if (s == OK)
        evaluator->quality = (struct evaluator_quality){0};
    unlock(evaluator);
    flights_ring(evaluator->flights);
    return s;
}

void evaluator_canary_hurry(struct evaluator *evaluator)
{
    lock(evaluator);
    quality_canary_hurry(&evaluator->canary);
    unlock(evaluator);
    flights_ring(evaluator->flights);
}

void evaluator_canary_stop(struct evaluator *evaluator)
{
    lock(evaluator);
    quality_canary_end(&evaluator->canary);
    flights_ring(evaluator->flights);
    while (evaluator->canary.plan != NULL)
        ASSERT(pthread_cond_wait(&evaluator->changed, &evaluator->lock) == 0);
    unlock(evaluator);
}

bool evaluator_quality(struct evaluator *evaluator, struct evaluator_quality *ret_quality)
{
    lock(evaluator);
    *ret_quality = evaluator->quality;
    unlock(evaluator);
    return ret_quality->n_runs > 0;
}
