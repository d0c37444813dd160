/* releases.c: opening, starting and ending the release side, and the ways between its threads.
 *
 * WHY     The registry waits for disks, the loader for gigabytes; the loop waits for neither.
 * HOW
 *      loop --releases_ask--> registry: known? allowed? --short calls: done--> answered --releases_turn--> loop
 *                                 '--what must load--> loader --asks the registry as it goes--> answered
 *
 *         The registry's thread publishes the projection; the loop chooses by the copy under the lock, and candidates are
 *         shut off by two words that are read without it.
 * ALWAYS  (1) Whoever was told of a change is routed by it: the projection is stored first. releases_project
 *             So are names and states, by which a request may pin a generation.  releases_describe_lanes
 * OWNS    Registry thread, loader, evaluator, driver, and every lane in the book.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include <stdarg.h>

#include "config/mem.h"
#include "sched/release/answer.h"
#include "sched/release/generation_content.h"

enum { QUEUE_MAX = RELEASES_CALLS_MAX + 8, EVENT_ROOM = 512 };
#define WAIT_NS 100000000u

int64_t releases_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void releases_say(const struct releases *r, bool is_bad, const char *what, const char *format, ...)
{
    char text[EVENT_ROOM];
    va_list args;
    if (r->host.on_event == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->host.on_event(r->host.user, is_bad, what, text);
}

/* ---- asking the registry and waiting ---- */

struct task {
    struct registry_job job; /* first */
    struct releases *releases;
    release_task_fn *run;
    void *user;
};

static enum job_turn run_task(struct registry *registry, struct registry_job *job)
{
    struct task *t = (struct task *)job;
    job->status = t->run(t->releases, registry, t->user, &job->why);
    return JOB_DONE;
}

void releases_do_job(struct releases *r, struct registry_job *job)
{
    struct registry_port *port = releases_is_rescue() ? r->rescue_port : r->loader_port;
    struct doorbell *bell = releases_is_rescue() ? &r->rescue_bell : &r->bell;
    enum status s = registry_port_submit(port, job);
    ASSERT(s == OK); /* one at a time, and room for more */
    while (registry_port_next(port) == NULL)
        doorbell_wait(bell, WAIT_NS);
    doorbell_ring(bell); /* what was rung for something else meanwhile is not lost */
}

enum status releases_do(struct releases *r, release_task_fn *task, void *user, struct why *ret_why)
{
    struct task t = {.job.run = run_task, .releases = r, .run = task, .user = user};
    releases_do_job(r, &t.job);
    if (t.job.status != OK && ret_why != NULL)
        *ret_why = t.job.why;
    return t.job.status;
}

/* ---- the projection ---- */

/* Registry thread, or whoever opens: the newest rows. */
static void releases_project(void *user, const struct projection *p)
{
    struct releases *r = user;
    atomic_store(&r->is_candidate_admitted, p->is_candidate_admitted);
    pthread_mutex_lock(&r->lock);
    bool was_writable = r->route.is_writable;
    r->route = *p;
    pthread_mutex_unlock(&r->lock);
    if (p->is_writable && !was_writable && atomic_load(&r->has_loader))
        releases_say(r, false, "registry", "the registry takes writes again");
    if (r->has_lanes && p->barred[0] != '\0')
        release_lanes_want_id(&r->lanes, p->barred, LANE_CLOSED);
    atomic_store(&r->is_held, false);
    if (atomic_load(&r->has_loader))
        releases_ring(r);
    if (r->host.on_wake != NULL)
        r->host.on_wake(r->host.user);
}

void releases_ring(struct releases *r)
{
    atomic_store(&r->is_due, true);
    doorbell_ring(&r->bell);
}

void releases_copy_route(struct releases *r, struct projection *ret_route)
{
    pthread_mutex_lock(&r->lock);
    *ret_route = r->route;
    pthread_mutex_unlock(&r->lock);
}

/* ---- opening ---- */

static void wake_loop(void *user)
{
    struct releases *r = user;
    if (r->host.on_wake != NULL)
        r->host.on_wake(r->host.user);
}

static void ring_loader(void *user)
{
    struct releases *r = user;
    doorbell_ring(&r->bell);
}

static void ring_rescue(void *user)
{
    struct releases *r = user;
    doorbell_ring(&r->rescue_bell);
}

static void on_evaluator(void *user)
{
    releases_ring(user);
}

static void lane_bar(void *user, const char *candidate, bool is_barred)
{
    struct releases *r = user;
    (void)candidate;
    atomic_store(&r->is_held, is_barred);
}

static bool on_tick(void *user, struct registry *registry)
{
    struct releases *r = user;
    struct why why = {0};
    bool has_changed = false;
    pthread_mutex_lock(&r->lock);
    bool is_rolled_out = r->route.rollout[0] != '\0';
    /* A promoted rollout is not the route's any more, and may yet be rolled back. */
    bool is_moved = r->route.barred[0] != '\0' || r->route.epoch != r->watched_epoch;
    r->watched_epoch = r->route.epoch;
    pthread_mutex_unlock(&r->lock);
    if (!atomic_load(&r->has_loader))
        return false;
    if (!is_rolled_out) {
        releases_watch(r, registry, is_moved);
        return false;
    }
    if (registry_fault(registry) != NULL) { /* no decision could be kept; its candidate has no traffic */
        releases_watch(r, registry, true);
        return false;
    }
    enum status s = rollout_driver_tick(r->driver, registry, releases_now_us(), &has_changed, &why);
    if (s != OK)
        releases_say(r, true, "rollout", "%s", why.text);
    releases_watch(r, registry, true);
    return true;
}

static void on_decision(void *user, const struct release_rollout *rollout,
                        const struct rollout_decision *decision)
{
    const struct releases *r = user;
    char text[ROLLOUT_NOTE_ROOM];
    release_rollout_say(rollout, decision, text);
    releases_say(r, decision->action == ACTION_ROLL_BACK, "rollout", "%s: %s, %s: %s", rollout->key,
                 rollout_action_name(decision->action), rollout_state_name(rollout->now.state),
                 text);
}

static enum status make_ways(struct releases *r, struct why *ret_why)
{
    const struct rollout_driver_options driver = {.lanes = releases_lane_evidence,
                                                  .bar = lane_bar,
                                                  .on_decision = on_decision,
                                                  .user = r};
    TRY(rollout_driver_new(&driver, &r->driver, ret_why));
    const struct registry_thread_options options = {
        .dir = r->dir[0] != '\0' ? r->dir : NULL,
        .effects = &r->effects,
        .on_rows = releases_describe_lanes,
        .on_projection = releases_project,
        .on_tick = on_tick,
        .tick_ms = ROLLOUT_TICK_MS,
        .user = r,
        .queue_max = QUEUE_MAX,
    };
    TRY(registry_thread_new(&options, RELEASES_RECOVERY_MS, &r->thread, ret_why));
    enum status s = registry_port_new(r->thread, wake_loop, r, &r->loop_port);
    if (s == OK)
        s = registry_port_new(r->thread, ring_loader, r, &r->loader_port);
    if (s == OK)
        s = registry_port_new(r->thread, ring_rescue, r, &r->rescue_port);
    if (s == OK)
        s = sha256_new(&r->sha);
    return s == OK ? OK : why_set(ret_why, s, "", "no memory for the release side");
}

/* What stable, or what stands in for it, is loaded from. */
static enum status find_stable(struct releases *r, struct registry *registry, void *user,
                               struct why *ret_why)
{
    struct record row;
    const struct projection *p = user;
    const char *id = p->stable;
    if (strcmp(p->barred, p->stable) == 0 && p->pinned[0] != '\0')
        id = p->pinned;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    enum status s = releases_find_file(r, record_text_or_empty(&row, "checkpoint"), r->stable_file, ret_why);
    record_release(&row);
    return s;
}

static enum status note_fault(struct releases *r, struct registry *registry, void *user,
                              struct why *ret_why)
{
    const char *fault = registry_fault(registry);
    (void)user, (void)ret_why;
    if (fault != NULL)
        why_set(&r->opening_fault, STATUS_READ_ONLY, "registry", "%s", fault);
    return OK;
}

/* first: of an empty registry; NULL: none. */
static enum status find_model(struct releases *r, const char *first, struct why *ret_why)
{
    struct projection p;
    releases_copy_route(r, &p);
    if (r->model[0] == '\0' && p.stable[0] == '\0' && first != NULL)
        snprintf(r->model, sizeof r->model, "%s", first);
    if (r->model[0] != '\0') {
        snprintf(r->stable_file, sizeof r->stable_file, "%s", r->model);
        return OK;
    }
    if (p.stable[0] == '\0')
        return why_set(ret_why, STATUS_BAD_OPTION, "model",
                       "the registry in %.200s is empty: name a model file the first time, as foldkv serve's argument or "
                       "by release.first_model", r->dir);
    return releases_do(r, find_stable, &p, ret_why);
}

static enum status make_locks(struct releases *r)
{
    if (doorbell_init(&r->bell) != OK)
        return STATUS_NO_MEMORY;
    r->has_bell = true;
    if (doorbell_init(&r->rescue_bell) != OK)
        return STATUS_NO_MEMORY;
    r->has_rescue_bell = true;
    if (pthread_mutex_init(&r->lock, NULL) != 0)
        return STATUS_NO_MEMORY;
    r->has_lock = true;
    TRY(release_lanes_init(&r->lanes));
    r->has_lanes = true;
    return OK;
}

enum status releases_open(const struct releases_options *options, struct releases **ret_releases,
                          struct why *ret_why)
{
    *ret_releases = NULL;
    struct releases *r = mem_zalloc(1, sizeof *r);
    if (r == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the release side");
    snprintf(r->dir, sizeof r->dir, "%s", options->state_dir != NULL ? options->state_dir : "");
    snprintf(r->model, sizeof r->model, "%s", options->model != NULL ? options->model : "");
    r->host = options->host;
    r->followed = NO_LANE;
    releases_effects_init(r);
    enum status s = make_locks(r);
    if (s != OK)
        why_set(ret_why, s, "", "no memory for the release side");
    if (s == OK)
        s = make_ways(r, ret_why);
    if (s == OK)
        s = releases_do(r, note_fault, NULL, ret_why);
    if (s == OK)
        s = find_model(r, options->first_model, ret_why);
    if (s != OK)
        releases_free(&r);
    *ret_releases = r;
    return s;
}

const char *releases_opening_fault(const struct releases *releases)
{
    return releases->opening_fault.text;
}

const char *releases_stable_file(const struct releases *releases)
{
    return releases->stable_file;
}

/* ---- starting ---- */

static enum status start_loader(struct releases *r, struct why *ret_why)
{
    const struct evaluator_options options = {
        .engine = r->terms.engine, .on_news = on_evaluator, .user = r};
    TRY(evaluator_new(&options, &r->evaluator, ret_why));
    if (pthread_create(&r->loader, NULL, releases_loader_run, r) != 0)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "the loader's thread cannot be started");
    atomic_store(&r->has_loader, true);
    return OK;
}

enum status releases_open_stable(struct releases *r, struct why *ret_why)
{
    r->terms.opened = NULL;
    gguf_free(&r->own_opened);
    TRY(gguf_open(r->stable_file, &r->own_opened, ret_why));
    r->terms.opened = r->own_opened;
    return OK;
}

/* Nobody asks again after a day. */
static enum status forget_answers(struct releases *r, struct registry *registry, void *user,
                                  struct why *ret_why)
{
    const int64_t day_us = 86400 * (int64_t)1000000;
    (void)r, (void)user;
    if (registry_fault(registry) != NULL)
        return OK; /* the next start does */
    return answer_forget(registry, releases_now_us() - day_us, ret_why);
}

/* After a promotion, say, a command line still names the former model. */
static void say_other_model(const struct releases *r, struct why *ret_why)
{
    const struct why found = *ret_why;
    if (strcmp(found.field, "checkpoint") == 0 || strcmp(found.field, "identity") == 0)
        why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "model",
                "model %.110s is not what release.state calls stable: %.120s; start without a model argument to serve "
                "what is stable, and publish this file to release it",
                r->model, found.text);
}

/* Stable's lane and those of the route; what candidates' tokenizers are held against. */
static enum status load_all(struct releases *r, struct why *ret_why)
{
    struct projection p;
    if (r->terms.opened == NULL)
        TRY(releases_open_stable(r, ret_why));
    releases_copy_route(r, &p);
    if (p.stable[0] == '\0')
        TRY(releases_found(r, ret_why));
    enum status s = releases_reconcile(r, true, ret_why);
    if (s == STATUS_RECEIPTS_DISAGREE && r->model[0] != '\0')
        say_other_model(r, ret_why);
    TRY(s);
    return generation_content_tokenizer(r->terms.opened, r->tokenizer);
}

enum status releases_start(struct releases *r, const struct releases_terms *terms,
                           struct why *ret_why)
{
    r->terms = *terms;
    if (terms->isa != NULL && terms->isa[0] != '\0')
        TRY(kernels_pick_named(terms->isa, &r->kernels, ret_why));
    else
        kernels_pick(isa_available(), &r->kernels);
    enum status s = load_all(r, ret_why);
    r->terms.opened = NULL;
    gguf_free(&r->own_opened);
    TRY(s);
    struct why unheard;
    if (releases_do(r, forget_answers, NULL, &unheard) != OK)
        releases_say(r, true, "registry", "%s", unheard.text);
    TRY(releases_watch_start(r, ret_why));
    return start_loader(r, ret_why);
}

void releases_lane_changed(void *user)
{
    struct releases *r = user;
    releases_ring(r);
    if (atomic_load(&r->has_loader))
        registry_thread_nudge(r->thread); /* an effect may have waited for it */
}

/* ---- ending ---- */

void releases_stop(struct releases *r)
{
    if (r == NULL)
        return;
    atomic_store(&r->is_stopping, true);
    releases_rescue_join(r);
    if (atomic_load(&r->has_loader)) {
        evaluator_cancel(r->evaluator);
        doorbell_ring(&r->bell);
        pthread_join(r->loader, NULL);
        atomic_store(&r->has_loader, false);
        releases_end_calls(r);
    }
    evaluator_free(&r->evaluator);
    r->followed = NO_LANE;
    if (r->has_lanes)
        release_lanes_clear(&r->lanes); /* a journal that goes on finds nothing to do in memory */
}

void releases_free(struct releases **releases)
{
    struct releases *r = *releases;
    if (r == NULL)
        return;
    releases_stop(r);
    registry_thread_free(&r->thread);
    rollout_driver_free(&r->driver);
    if (r->has_lanes)
        release_lanes_destroy(&r->lanes);
    for (struct release_path *p; (p = r->paths) != NULL;) {
        r->paths = p->next;
        mem_free(p);
    }
    mem_free(r->evaluation_text); /* of a run that the end has cut off */
    sha256_free(&r->sha);
    if (r->has_lock)
        pthread_mutex_destroy(&r->lock);
    if (r->has_bell)
        doorbell_release(&r->bell);
    if (r->has_rescue_bell)
        doorbell_release(&r->rescue_bell);
    mem_free(r);
    *releases = NULL;
}
