/* releases_route.c: where each request goes, and what is counted of it.
 *
 * HOW     Without a candidate that has weight nothing is hashed: stable it is. With one, the bucket says the arm; a request that
 *         an arm cannot take (no lane, outside the tested cells) is stable's then. While a rollback is open
 *         stable may be the barred one, and the pinned one stands in for it.
 * ALWAYS  (1) A candidate is chosen only while it is admitted and no rollback is decided.   arm_of
 *         (2) A choice holds its lane until releases_end.
 *         (3) What keeps a request from the canary keeps it from control: both are judged on one population.   take_judged
 *         (4) A generation that was evaluated serves inside its cells alone, whoever sends the request there.   take
 * THREAD  loop, but for releases_lane_evidence (registry)
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/lane_collector.h"

/* ---- choosing ---- */

static const char *serving_space(const struct projection *p)
{
    bool is_barred = p->barred[0] != '\0' && strcmp(p->barred, p->stable) == 0;
    return is_barred ? p->pinned_namespace : p->stable_namespace;
}

static bool is_candidate_open(const struct releases *r, const struct projection *p)
{
    return p->candidate[0] != '\0' && p->weight_bp > 0 && atomic_load(&r->is_candidate_admitted) &&
           !atomic_load(&r->is_held);
}

static enum arm arm_of(const struct releases *r, const struct projection *p,
                       const struct arm_session *session)
{
    if (!is_candidate_open(r, p))
        return ARM_STABLE;
    struct slice salt = {p->salt, strlen(p->salt)};
    return arm_of_bucket(arm_bucket(r->sha, salt, session), p->weight_bp, p->cap_bp);
}

static enum status take(struct releases *r, const struct release_wish *wish,
                        struct release_choice *ret, struct why *ret_why)
{
    uint32_t place;
    TRY(release_lanes_take(&r->lanes, wish, &place, ret_why));
    const struct release_lane *e = &r->lanes.places[place]; /* lane and id: settled while it is taken */
    ret->lane = e->lane;
    ret->slot = place;
    snprintf(ret->id, sizeof ret->id, "%.16s", e->id);
    return OK;
}

/* Canary and control take the same requests: what candidate and stable were both tested for, while both take any. */
static enum status take_judged(struct releases *r, const struct projection *p,
                               struct release_choice *choice)
{
    bool is_canary = choice->arm == ARM_CANARY;
    const struct release_wish wish = {
        .space = is_canary ? p->candidate_namespace : p->control_namespace,
        .peers = {serving_space(p), is_canary ? NULL : p->candidate_namespace},
        .cell = choice->cell};
    struct why unheard;
    return take(r, &wish, choice, &unheard);
}

static enum status take_stable(struct releases *r, const struct projection *p,
                               struct release_choice *choice, struct why *ret_why)
{
    const struct release_wish wish = {.space = serving_space(p), .cell = choice->cell};
    choice->arm = ARM_STABLE;
    enum status s = take(r, &wish, choice, ret_why);
    if (s == STATUS_NOT_FOUND)
        return why_set(ret_why, STATUS_UNAVAILABLE, "",
                       "no generation that may serve this request is in memory");
    return s;
}

static enum status take_named(struct releases *r, struct slice model,
                              struct release_choice *choice, struct why *ret_why)
{
    struct release_lane named;
    TRY(releases_find_pin(r, model, &named, ret_why));
    const struct release_wish wish = {.space = named.space, .cell = choice->cell};
    choice->is_pinned = true;
    enum status s = take(r, &wish, choice, ret_why);
    if (s == STATUS_NOT_FOUND) /* closed since */
        return why_set(ret_why, STATUS_LANE_CLOSED, "model",
                       "generation %.16s takes no requests any more", named.id);
    return s;
}

enum status releases_choose(struct releases *r, const struct arm_session *session,
                            struct slice model, struct evaluation_cell cell,
                            struct release_choice *ret_choice, struct why *ret_why)
{
    struct projection p;
    releases_copy_route(r, &p);
    cell.active_requests = r->terms.running_max;
    cell.query_length = cell.query_length > 0 ? cell.query_length : 1;
    *ret_choice = (struct release_choice){.epoch = p.epoch, .cell = cell};
    if (model.bytes != NULL)
        return take_named(r, model, ret_choice, ret_why);
    ret_choice->arm = arm_of(r, &p, session);
    if (ret_choice->arm != ARM_STABLE && take_judged(r, &p, ret_choice) == OK)
        return OK;
    return take_stable(r, &p, ret_choice, ret_why);
}

static void charge(struct releases *r, enum arm arm, bool is_error, uint64_t ttft_ns,
                   uint64_t tpot_ns)
{
    struct release_counts *counts = &r->arms[arm];
    const struct request_outcome outcome = {
        .arm = arm, .is_error = is_error, .ttft_ns = ttft_ns, .tpot_ns = tpot_ns};
    counts->n_requests++;
    counts->n_errors += is_error;
    if (ttft_ns > 0 && !is_error)
        latency_sketch_add(&counts->ttft, ttft_ns);
    if (tpot_ns > 0 && !is_error)
        latency_sketch_add(&counts->tpot, tpot_ns);
    rollout_driver_outcome(r->driver, &outcome);
}

bool releases_fall_back(struct releases *r, struct release_choice *choice, enum status status)
{
    struct projection p;
    struct release_choice next = {.cell = choice->cell};
    struct why unheard;
    bool is_route = status == STATUS_LANE_CLOSED || status == STATUS_FENCED;
    if (choice->is_pinned || (choice->arm == ARM_STABLE && !is_route))
        return false;
    releases_copy_route(r, &p);
    if (choice->arm == ARM_CANARY && (!is_route || is_candidate_open(r, &p)))
        charge(r, ARM_CANARY, true, 0, 0); /* unless it was told to take no more */
    next.epoch = p.epoch;
    struct lane *refused = choice->lane;
    if (take_stable(r, &p, &next, &unheard) != OK)
        return false;
    if (next.lane == refused) {
        release_lanes_give(&r->lanes, next.slot);
        return false;
    }
    release_lanes_give(&r->lanes, choice->slot);
    *choice = next;
    return true;
}

void releases_end(struct releases *r, const struct release_choice *choice, bool is_counted,
                  bool is_error, uint64_t ttft_own_ns, uint64_t tpot_own_ns)
{
    if (is_counted && !choice->is_pinned)
        charge(r, choice->arm, is_error, ttft_own_ns, tpot_own_ns);
    release_lanes_give(&r->lanes, choice->slot);
}

/* ---- figures ---- */

static void add_generation(const struct release_lane *e, const struct projection *p,
                           struct releases_figures *f)
{
    struct release_figures *g = &f->generations[f->n_generations++];
    struct engine_stats stats;
    memset(g, 0, sizeof *g);
    lane_stats_copy(e->lane, &stats);
    snprintf(g->id, sizeof g->id, "%s", e->id);
    snprintf(g->name, sizeof g->name, "%s", e->name);
    snprintf(g->state, sizeof g->state, "%s", e->state);
    g->is_loaded = lane_reached(e->lane) < LANE_FREED;
    g->is_control = e->is_control;
    g->arm = ARM_COUNT;
    if (strcmp(e->space, p->stable_namespace) == 0)
        g->arm = ARM_STABLE;
    else if (strcmp(e->space, p->candidate_namespace) == 0)
        g->arm = ARM_CANARY;
    else if (strcmp(e->space, p->control_namespace) == 0)
        g->arm = ARM_CONTROL;
    g->n_requests = stats.requests_finished + stats.requests_failed + stats.requests_aborted;
    g->n_errors = stats.requests_failed;
    g->weights_bytes = e->weights_bytes;
    g->cache_bytes = g->is_loaded ? e->cache_bytes : 0;
}

void releases_figures(const struct releases *releases, struct releases_figures *f)
{
    struct releases *r = (struct releases *)(uintptr_t)releases; /* its lock */
    struct release_lane e;
    pthread_mutex_lock(&r->lock);
    f->route = r->route;
    f->rollout = r->rollout_figures;
    f->is_frozen = r->is_frozen;
    pthread_mutex_unlock(&r->lock);
    f->is_blocked = f->rollout.is_there && f->rollout.now.state == ROLLOUT_BLOCKED;
    f->is_durable = r->dir[0] != '\0';
    f->is_writable = f->route.is_writable;
    f->n_generations = 0;
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++)
        if (release_lanes_hold(&r->lanes, i, &e)) {
            add_generation(&e, &f->route, f);
            release_lanes_give(&r->lanes, i);
        }
    for (int arm = 0; arm < ARM_COUNT; arm++) {
        f->arm_requests[arm] = r->arms[arm].n_requests;
        f->arm_errors[arm] = r->arms[arm].n_errors;
        f->arm_ttft[arm] = r->arms[arm].ttft;
        f->arm_tpot[arm] = r->arms[arm].tpot;
    }
}

/* The lane that is followed is kept until the next one is there. */
struct lane *releases_stable(struct releases *r)
{
    struct projection p;
    struct release_lane e;
    releases_copy_route(r, &p);
    if (!release_lanes_keep(&r->lanes, serving_space(&p), &e))
        return NULL;
    if (r->followed != NO_LANE)
        release_lanes_give(&r->lanes, r->followed);
    r->followed = e.place;
    return e.lane;
}

bool releases_is_serving(const struct releases *releases)
{
    struct releases *r = (struct releases *)(uintptr_t)releases; /* its lock */
    struct projection p;
    struct release_lane e;
    releases_copy_route(r, &p);
    return release_lanes_find(&r->lanes, serving_space(&p), &e) && e.is_open;
}

/* ---- for the driver ---- */

bool releases_lane_evidence(void *user, const struct release_rollout *rollout,
                            struct lane_evidence *ret_candidate,
                            struct lane_evidence *ret_baseline)
{
    struct releases *r = user;
    struct projection p;
    struct release_lane candidate, baseline;
    releases_copy_route(r, &p);
    if (!release_lanes_keep_id(&r->lanes, rollout->candidate, &candidate))
        return false;
    bool is_there = release_lanes_keep(&r->lanes, p.control_namespace, &baseline);
    if (is_there) {
        lane_collector_copy(lane_evidence_collector(candidate.lane), ret_candidate);
        lane_collector_copy(lane_evidence_collector(baseline.lane), ret_baseline);
        release_lanes_give(&r->lanes, baseline.place);
    }
    release_lanes_give(&r->lanes, candidate.place);
    return is_there;
}
