/* engine.c: the engine's threads.
 *
 * WHY     Steps take milliseconds; no other thread may ever wait for one, and a step hardly for
 *         another thread.
 * HOW     A cycle: take what ports have submitted, bring closing lanes forward, one step of each pass,
 *         counters, wake-ups; with nothing to do it sleeps at a doorbell. Each lane has a clock of its
 *         own, which stands still during steps of passes that it is not in. The clock is read here
 *         and handed down. With a worker on every processor, whoever sends the tokens is interrupted by
 *         those who receive them and then finds no processor until the scheduler looks around,
 *         milliseconds later: there a step's tokens are let out before the next one begins.
 *         A second thread, the reclaimer, gives the pools of lanes back that the first has let go.
 * ALWAYS  (1) A request accepted is handed back exactly once as done.          engine_next_ready
 *         (2) No more requests of a port are alive than its ready queue has room for, so it never
 *         fills.                                                               engine_submit
 *         (3) Nobody is woken before the counters that his news belong to are published.   run_pass
 * OWNS    The workers; lanes and ports from when they are added; requests between engine_submit and
 *         their end.
 * THREAD  engine_loop is the engine thread, reclaim_loop the reclaimer.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine.h"

#include "config/mem.h"
#include "sched/clock.h"
#include "sched/engine_priv.h"
#include "sched/request_priv.h"

/* How long an idle engine sleeps at most: what /livez reads as progress. */
#define IDLE_NS 500000000u

/* How long a step's tokens may take to get out before the next step begins. */
#define COLLECT_NS 1000000u

/* ---- engine thread ---- */

static void take_submitted(struct engine *e, uint64_t now)
{
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++) {
        if (e->now.ports[i] == NULL)
            continue;
        for (struct request *r; (r = request_queue_pop(e->now.ports[i]->submitted)) != NULL;)
            lane_take(r->lane, r, now);
    }
}

static void wake_ports(struct engine *e)
{
    bool is_awaited = workers_take_all(e->workers);
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++) {
        struct engine_port *port = e->now.ports[i];
        if (port == NULL || !port->has_news)
            continue;
        port->has_news = false;
        atomic_store(&port->is_awaited, is_awaited);
        port->on_wake(port->user);
    }
}

/* Until those just woken have collected. The bell's other rings are looked at before the engine sleeps
 * in any case. */
static void await_ports(struct engine *e)
{
    uint64_t now = clock_now_ns(), end = now + COLLECT_NS;
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++) {
        struct engine_port *port = e->now.ports[i];
        for (; port != NULL && atomic_load(&port->is_awaited) && now < end; now = clock_now_ns())
            doorbell_wait(&e->bell, end - now);
        if (port != NULL)
            atomic_store(&port->is_awaited, false); /* once: who is slow is not waited for again */
    }
}

/* A lane that takes part in this cycle's steps, or NULL. */
static struct lane *lane_at(const struct engine *e, uint32_t i)
{
    struct lane *lane = e->now.lanes[i];
    return lane != NULL && lane->has_joined ? lane : NULL;
}

static void advance_lanes(struct engine *e)
{
    bool any = false;
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        if (lane_at(e, i) != NULL)
            any |= lane_advance(lane_at(e, i));
    wake_ports(e);
    if (any)
        engine_tell_change(e);
}

/* The clocks of those who were not in it stood still. */
static void charge_others(struct engine *e, const struct shared_pass *shared, uint64_t elapsed_ns)
{
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = lane_at(e, i);
        if (lane == NULL || lane->pass == shared)
            continue;
        lane->others_ns += elapsed_ns;
        scheduler_set_lag(lane->parts.scheduler, lane->others_ns);
    }
}

static bool is_first_of_its_pass(const struct engine *e, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (lane_at(e, k) != NULL && lane_at(e, k)->pass == lane_at(e, i)->pass)
            return false;
    return true;
}

/* Tells a pass whose streams its prompts would hold up. */
static void settle_company(const struct engine *e, struct shared_pass *shared)
{
    struct pace_company company = {0};
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        const struct lane *lane = lane_at(e, i);
        if (lane != NULL && lane->pass != shared && is_first_of_its_pass(e, i))
            pass_add_company(lane->pass->pass, &company);
    }
    pass_set_company(shared->pass, &company);
}

static bool run_pass(struct engine *e, struct shared_pass *shared)
{
    uint64_t start = clock_now_ns();
    shared->cycle = e->cycle;
    settle_company(e, shared);
    if (!pass_step(shared->pass, start))
        return false;
    pass_deliver(shared->pass, clock_now_ns());
    uint64_t step_ns = clock_now_ns() - start;
    pass_observe(shared->pass, step_ns);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = lane_at(e, i);
        if (lane == NULL || lane->pass != shared)
            continue;
        lane->cycle_noted = e->cycle;
        lane_note_step(lane, step_ns);
    }
    wake_ports(e);
    await_ports(e);
    charge_others(e, shared, clock_now_ns() - start);
    return true;
}

static bool run_passes(struct engine *e)
{
    bool worked = false;
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = lane_at(e, i);
        if (lane == NULL || lane->pass->cycle == e->cycle)
            continue;
        worked |= run_pass(e, lane->pass);
        atomic_store(&e->progress_ns, clock_now_ns());
    }
    return worked;
}

/* Those that no step has told of. is_busy: others had one. */
static void publish_lanes(struct engine *e, bool is_busy)
{
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = lane_at(e, i);
        if (lane == NULL || lane->cycle_noted == e->cycle)
            continue;
        lane_publish(lane, is_busy);
        lane_collector_idle(lane->collector);
    }
    wake_ports(e);
    atomic_store(&e->progress_ns, clock_now_ns());
}

static void end_all(struct engine *e)
{
    e->cycle++;
    take_submitted(e, clock_now_ns());
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        if (lane_at(e, i) != NULL)
            scheduler_cancel_all(lane_at(e, i)->parts.scheduler);
    publish_lanes(e, false);
}

static void *engine_loop(void *arg)
{
    struct engine *e = arg;
    (void)pthread_setname_np(pthread_self(), "engine");
    while (!atomic_load(&e->is_stopping)) {
        e->cycle++;
        engine_renew_roster(e);
        take_submitted(e, clock_now_ns());
        advance_lanes(e);
        bool worked = run_passes(e);
        publish_lanes(e, worked);
        if (!worked)
            doorbell_wait(&e->bell, IDLE_NS);
    }
    end_all(e);
    return NULL;
}

/* ---- reclaimer ---- */

static struct lane *find_let_go(struct engine *e)
{
    struct lane *found = NULL;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = e->roster.lanes[i];
        if (lane != NULL && atomic_load(&lane->is_let_go) && lane_reached(lane) != LANE_FREED)
            found = lane;
    }
    pthread_mutex_unlock(&e->lock);
    return found;
}

static void *reclaim_loop(void *arg)
{
    struct engine *e = arg;
    (void)pthread_setname_np(pthread_self(), "reclaimer");
    while (!atomic_load(&e->is_reclaimer_stopping)) {
        struct lane *lane = find_let_go(e);
        if (lane == NULL) {
            doorbell_wait(&e->reclaim_bell, IDLE_NS);
            continue;
        }
        lane_reclaim(lane);
        atomic_store(&lane->reached, LANE_FREED);
        engine_tell_change(e);
    }
    return NULL;
}

/* ---- life ---- */

static enum status start(struct engine *e, struct why *ret_why)
{
    TRY(workers_new(e->options.n_threads, &e->workers, ret_why));
    e->has_bell = doorbell_init(&e->bell) == OK;
    e->has_reclaim_bell = doorbell_init(&e->reclaim_bell) == OK;
    if (!e->has_bell || !e->has_reclaim_bell)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the engine's bells");
    atomic_store(&e->progress_ns, clock_now_ns());
    e->has_thread = pthread_create(&e->thread, NULL, engine_loop, e) == 0;
    e->has_reclaimer = e->has_thread && pthread_create(&e->reclaimer, NULL, reclaim_loop, e) == 0;
    if (!e->has_reclaimer)
        return why_set(ret_why, STATUS_UNAVAILABLE, "", "the engine's threads could not be made");
    return OK;
}

enum status engine_new(const struct engine_options *options, struct engine **ret_engine,
                       struct why *ret_why)
{
    *ret_engine = NULL;
    struct engine *e = mem_zalloc(1, sizeof *e);
    if (e == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the engine");
    e->options = *options;
    atomic_init(&e->queue_max, options->queue_max);
    atomic_init(&e->queue_tokens_max, options->queue_tokens_max);
    e->limits = (struct lane_limits){.running_max = options->running_max,
                                     .prefill_chunk = options->prefill_chunk};
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    enum status s = start(e, ret_why);
    if (s != OK)
        engine_free(&e);
    *ret_engine = e;
    return s;
}

static void stop_threads(struct engine *e)
{
    atomic_store(&e->is_stopping, true);
    if (e->has_thread) {
        doorbell_ring(&e->bell);
        pthread_join(e->thread, NULL);
    }
    atomic_store(&e->is_reclaimer_stopping, true);
    if (e->has_reclaimer) {
        doorbell_ring(&e->reclaim_bell);
        pthread_join(e->reclaimer, NULL);
    }
    e->has_thread = false; /* nobody is waited for any more */
}

void engine_free(struct engine **engine)
{
    struct engine *e = *engine;
    *engine = NULL;
    if (e == NULL)
        return;
    stop_threads(e);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        lane_free(&e->roster.lanes[i]);
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++)
        engine_port_release(&e->roster.ports[i]);
    if (e->has_bell)
        doorbell_release(&e->bell);
    if (e->has_reclaim_bell)
        doorbell_release(&e->reclaim_bell);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    workers_free(&e->workers);
    mem_free(e);
}

void engine_drain(struct engine *e)
{
    atomic_store(&e->is_draining, true);
}

uint64_t engine_progress_ns(const struct engine *e)
{
    return atomic_load(&e->progress_ns);
}
