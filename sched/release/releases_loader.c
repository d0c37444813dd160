/* releases_loader.c: the loader's thread: which generations are in memory follows the route and the rows.
 *
 * WHY     Loading takes as long as a disk does and must stall neither a stream, nor the registry, nor the loop.
 * HOW     Whenever it is rung it takes calls that load something, looks at the newest route, loads what is lacking and
 *         lets go of what nothing needs: first closed, then, when its last request has ended, freed. The previous
 *         generation keeps its weights, not its pool; after a restart it is loaded for that.
 * ALWAYS  (1) A lane goes only when no choice of the loop is out on it.            release_lanes_pop
 * THREAD  loader; releases_reconcile also whoever starts, before the loader is there
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/engine.h"

#define IDLE_NS 1000000000u
#define WAITING_NS 20000000u

/* ---- what the route needs ---- */

static bool is_open(struct releases *r, const char *space)
{
    struct release_lane entry;
    return release_lanes_find(&r->lanes, space, &entry) && entry.is_open;
}

/* A load that failed is not tried again until the route changes or a person asks for it. */
static bool has_failed(struct releases *r, const char *space)
{
    return strcmp(r->failed_space, space) == 0;
}

static void note_failure(struct releases *r, const char *id, const char *space,
                         const struct why *why)
{
    releases_say(r, true, "loader", "generation %.16s cannot be loaded: %s", id, why->text);
    snprintf(r->failed_space, sizeof r->failed_space, "%s", space);
    pthread_mutex_lock(&r->lock);
    snprintf(r->failed_pin, sizeof r->failed_pin, "%s", id);
    r->failed_pin_why = *why;
    pthread_mutex_unlock(&r->lock);
    registry_thread_nudge(r->thread);
}

static enum status need(struct releases *r, const char *id, const char *space, const char *file,
                        struct why *ret_why)
{
    const struct change_terms terms = {
        .who = "foldkv", .at_us = releases_now_us(), .epoch_expected = EPOCH_ANY};
    if (id[0] == '\0' || is_open(r, space) || has_failed(r, space))
        return OK;
    enum status s = releases_bring_up(r, &terms, id, file, ret_why);
    if (s != OK)
        note_failure(r, id, space, ret_why);
    return s;
}

struct ending {
    const struct change_terms *terms;
    const char *rollout;
};

static enum status end_rollout(struct releases *r, struct registry *registry, void *user,
                               struct why *ret_why)
{
    const struct ending *e = user;
    return rollout_driver_command(r->driver, registry, e->terms, e->rollout, EVENT_ABORT, ret_why);
}

/* Nothing can be judged without the control arm: a rollout that cannot have it ends, and says why. */
static void need_control(struct releases *r, const struct projection *p)
{
    struct why why = {0}, said;
    if (p->control_namespace[0] == '\0' || is_open(r, p->control_namespace) ||
        has_failed(r, p->control_namespace) ||
        releases_load_beside(r, p->candidate, p->stable, p->control_namespace, &why) == OK)
        return;
    char note[ROLLOUT_NOTE_ROOM];
    snprintf(note, sizeof note, "the control arm cannot be loaded: %.*s", ROLLOUT_NOTE_ROOM - 64,
             why.text);
    releases_say(r, true, "rollout", "%s", note);
    snprintf(r->failed_space, sizeof r->failed_space, "%s", p->control_namespace);
    const struct change_terms terms = {.who = "foldkv",
                                       .at_us = releases_now_us(),
                                       .epoch_expected = EPOCH_ANY,
                                       .note = note};
    struct ending ending = {&terms, p->rollout};
    if (releases_do(r, end_rollout, &ending, &said) != OK)
        releases_say(r, true, "rollout", "it is not ended: %s", said.text);
}

static enum status load_needed(struct releases *r, const struct projection *p, bool is_start,
                               struct why *ret_why)
{
    bool is_barred = p->barred[0] != '\0' && strcmp(p->barred, p->stable) == 0;
    const char *serving = is_barred ? p->pinned : p->stable;
    const char *space = is_barred ? p->pinned_namespace : p->stable_namespace;
    enum status s = need(r, serving, space, is_start ? r->stable_file : NULL, ret_why);
    if (s != OK && is_start)
        return s;
    struct why why = {0};
    (void)need(r, p->pinned, p->pinned_namespace, NULL, &why); /* each failure was told */
    if (!p->is_writable || strcmp(p->candidate, p->barred) == 0)
        return OK; /* nobody is admitted to it */
    (void)need(r, p->candidate, p->candidate_namespace, NULL, &why);
    need_control(r, p);
    return OK;
}

/* ---- what nothing needs ---- */

struct views {
    uint32_t n;
    struct release_view at[RELEASES_VIEWS_MAX];
};

static enum status see_view(void *user, const char *key, const struct record *body,
                            struct why *ret_why)
{
    struct views *views = user;
    enum generation_state state = generation_state_find(record_text(body, "state"));
    (void)ret_why;
    if (state <= GENERATION_CANARY && views->n < RELEASES_VIEWS_MAX)
        releases_read_view(key, body, &views->at[views->n++]);
    return OK;
}

static enum status find_views(struct releases *r, struct registry *registry, void *user,
                              struct why *ret_why)
{
    (void)r;
    return registry_each(registry, REGISTRY_GENERATIONS, see_view, user, ret_why);
}

static bool is_needed(struct releases *r, const struct projection *p,
                      const struct views *views, const struct release_lane *e)
{
    const char *const spaces[] = {p->stable_namespace, p->candidate_namespace, p->pinned_namespace,
                                  p->control_namespace, r->evaluation_space};
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        if (strcmp(spaces[i], e->space) == 0)
            return true;
    pthread_mutex_lock(&r->lock);
    bool is_rescued = strcmp(r->rescued, e->id) == 0;
    pthread_mutex_unlock(&r->lock);
    if (is_rescued || strcmp(r->evaluated, e->id) == 0 || strcmp(r->canary, e->id) == 0)
        return true; /* the evaluator has it on loan */
    for (uint32_t i = 0; i < views->n; i++)
        if (!e->is_control && strcmp(views->at[i].space, e->space) == 0)
            return true;
    return false;
}

static void let_go(struct releases *r, const struct projection *p, const struct views *views)
{
    struct release_lane e;
    r->is_waiting = false;
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        if (!release_lanes_at(&r->lanes, i, &e))
            continue;
        if (!e.is_leaving && !is_needed(r, p, views, &e)) {
            bool is_kept = !e.is_control && strcmp(e.id, p->previous) == 0;
            lane_want(e.lane, LANE_CLOSED);
            if (!is_kept)
                release_lanes_leave(&r->lanes, i);
            if (lane_in_flight(e.lane) == 0)
                lane_want(e.lane, LANE_FREED); /* of the previous one the weights stay */
        } else if (e.is_leaving && lane_in_flight(e.lane) == 0) {
            lane_want(e.lane, LANE_FREED);
        }
        struct lane *lane = release_lanes_pop(&r->lanes, i);
        if (lane != NULL)
            engine_remove(r->terms.engine, &lane);
        else
            r->is_waiting |= lane_wanted(e.lane) != LANE_OPEN &&
                             (e.is_leaving || lane_wanted(e.lane) != LANE_FREED);
    }
}

static bool is_load_asked(struct releases *r)
{
    pthread_mutex_lock(&r->lock);
    bool is_asked = r->is_load_asked;
    r->is_load_asked = false;
    pthread_mutex_unlock(&r->lock);
    return is_asked;
}

enum status releases_reconcile(struct releases *r, bool is_start, struct why *ret_why)
{
    struct projection p;
    releases_copy_route(r, &p);
    if (is_load_asked(r) || p.epoch != r->reconciled_epoch)
        r->failed_space[0] = '\0';
    r->reconciled_epoch = p.epoch;
    TRY(load_needed(r, &p, is_start, ret_why));
    struct views *views = mem_zalloc(1, sizeof *views);
    if (views == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to look at the generations");
    enum status s = releases_do(r, find_views, views, ret_why);
    if (s == OK && !is_start) {
        releases_copy_route(r, &p);
        releases_quota_lift(r, &p);
        let_go(r, &p, views);
    }
    mem_free(views);
    return s;
}

/* ---- the thread ---- */

/* Its pool goes at the next look at the route; a rollback needs no file then. */
static void bring_back_previous(struct releases *r)
{
    struct projection p;
    struct release_view v;
    struct why why = {0};
    releases_copy_route(r, &p);
    if (p.previous[0] == '\0' || p.barred[0] != '\0' || atomic_load(&r->is_stopping))
        return; /* in a rollback the pinned one is needed anyway */
    if (releases_view(r, p.previous, &v, &why) == OK)
        (void)need(r, v.id, v.space, NULL, &why); /* a failure was told */
}

/* What was loaded before the daemon ended is loaded again, without hurry: candidates, and the weights of the previous one. */
static void load_again(struct releases *r)
{
    struct why why = {0};
    struct views *views = mem_zalloc(1, sizeof *views);
    if (views == NULL || releases_do(r, find_views, views, &why) != OK) {
        mem_free(views);
        return;
    }
    for (uint32_t i = 0; i < views->n && !atomic_load(&r->is_stopping); i++) {
        const struct release_view *v = &views->at[i];
        if (v->state < GENERATION_CANARY)
            (void)need(r, v->id, v->space, NULL, &why); /* each failure was told */
    }
    mem_free(views);
    bring_back_previous(r);
}

static void bring_back(struct releases *r)
{
    struct projection p;
    releases_copy_route(r, &p);
    if (atomic_load(&r->is_brought_back) || !p.is_writable)
        return; /* what is loaded for judging waits for a registry that can keep the judgement */
    atomic_store(&r->is_due, true); /* a rollout that was brought back wants its canary */
    if (r->dir[0] != '\0')
        load_again(r);
    atomic_store(&r->is_brought_back, true);
}

static struct release_work *next_asked(struct releases *r)
{
    pthread_mutex_lock(&r->lock);
    struct release_work *work = r->asked;
    if (work != NULL)
        r->asked = work->next;
    pthread_mutex_unlock(&r->lock);
    return work;
}

static void carry_out(struct releases *r, struct release_work *work)
{
    struct admin_call *call = work->call;
    ASSERT(call->op == ADMIN_GENERATION_PUBLISH || call->op == ADMIN_GENERATION_EVALUATE);
    if (call->op == ADMIN_GENERATION_PUBLISH)
        releases_publish(r, work);
    else
        releases_evaluate(r, work);
    if (call->status == OK && call->text == NULL)
        call->text = mem_dup("{\"dry_run\":true}", strlen("{\"dry_run\":true}"));
    releases_answer(r, work);
}

void *releases_loader_run(void *releases)
{
    struct releases *r = releases;
    struct why why = {0};
    (void)pthread_setname_np(pthread_self(), "loader");
    atomic_store(&r->has_loader, true);
    while (!atomic_load(&r->is_stopping)) {
        bring_back(r);
        bool is_due = atomic_exchange(&r->is_due, false) || r->is_waiting;
        for (struct release_work *work; (work = next_asked(r)) != NULL;)
            carry_out(r, work);
        if (is_due)
            releases_evaluate_turn(r);
        if (is_due && releases_reconcile(r, false, &why) != OK)
            releases_say(r, true, "loader", "%s", why.text);
        doorbell_wait(&r->bell, r->is_waiting ? WAITING_NS : IDLE_NS);
    }
    return NULL;
}
