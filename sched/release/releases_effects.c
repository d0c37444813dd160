/* releases_effects.c: what the steps of a rollback and a promotion do to lanes.
 *
 * WHY     The journal decides the order; here each step is made true in memory, as often as it is asked for.
 * HOW     An effect only wants things of lanes and looks whether they have come about; PENDING brings it back. Before the
 *         lanes are loaded (recovery) there is nothing in flight and nothing to fence, and the steps are done at once:
 *         what is loaded afterwards is what the rows say by then.
 * ALWAYS  (1) A candidate is closed before its rollback's second step.              releases_project
 *         (2) Nothing is in flight in a namespace that the journal calls fenced.       fence
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "sched/release/object_store.h"

static enum effect_outcome fail(struct why *ret_why, const char *field, const char *text)
{
    why_set(ret_why, STATUS_ROLLBACK_BLOCKED, field, "%s", text);
    return EFFECT_FAILED;
}

/* The lane of a generation is there, is open, and computes what the row says. */
static bool is_serving(struct releases *r, const char *id)
{
    struct release_lane entry;
    return release_lanes_find_id(&r->lanes, id, &entry) && entry.is_open;
}

static bool has_pin_failed(struct releases *r, const char *id, struct why *ret_why)
{
    pthread_mutex_lock(&r->lock);
    bool has = strcmp(r->failed_pin, id) == 0;
    if (has)
        *ret_why = r->failed_pin_why;
    pthread_mutex_unlock(&r->lock);
    return has;
}

/* Rollback: what serves instead is loaded; after a promotion its pool is made again by the loader. */
static enum effect_outcome pin_previous(void *user, const struct journal_case *c, int64_t at_us,
                                        struct record *evidence, struct why *ret_why)
{
    struct releases *r = user;
    (void)at_us;
    record_set_text(evidence, "pinned", c->pinned);
    if (!r->has_loader)
        return EFFECT_DONE; /* recovery: it is loaded next, or the daemon does not start */
    if (is_serving(r, c->pinned))
        return EFFECT_DONE;
    if (has_pin_failed(r, c->pinned, ret_why))
        return EFFECT_FAILED;
    releases_ring(r);
    return EFFECT_PENDING;
}

static enum effect_outcome pin_candidate(void *user, const struct journal_case *c, int64_t at_us,
                                         struct record *evidence, struct why *ret_why)
{
    struct releases *r = user;
    (void)at_us;
    record_set_text(evidence, "pinned", c->candidate);
    if (!r->has_loader || is_serving(r, c->candidate))
        return EFFECT_DONE;
    return fail(ret_why, "candidate", "the candidate is not loaded");
}

/* Closes both namespaces and waits for what runs in them, for a time; then ends it. */
static enum effect_outcome drain_spaces(struct releases *r, const char *first, const char *second,
                                        int64_t since_us, int64_t at_us, struct record *evidence)
{
    release_lanes_want(&r->lanes, first, LANE_CLOSED);
    release_lanes_want(&r->lanes, second, LANE_CLOSED);
    uint32_t n = release_lanes_in_flight(&r->lanes, first) + release_lanes_in_flight(&r->lanes, second);
    bool is_late = at_us - since_us > RELEASES_DRAIN_US || at_us < since_us;
    if (n > 0 && !is_late)
        return EFFECT_PENDING;
    release_lanes_want(&r->lanes, first, LANE_ABORTING);
    release_lanes_want(&r->lanes, second, LANE_ABORTING);
    record_set_flag(evidence, "ended_by_force", is_late && n > 0);
    bool is_over = release_lanes_has_reached(&r->lanes, first, LANE_ABORTING) &&
                   release_lanes_has_reached(&r->lanes, second, LANE_ABORTING);
    return is_over ? EFFECT_DONE : EFFECT_PENDING;
}

static enum effect_outcome fence_spaces(struct releases *r, const char *first, const char *second,
                                        struct record *evidence)
{
    release_lanes_want(&r->lanes, first, LANE_FENCED);
    release_lanes_want(&r->lanes, second, LANE_FENCED);
    if (!release_lanes_has_reached(&r->lanes, first, LANE_FENCED) ||
        !release_lanes_has_reached(&r->lanes, second, LANE_FENCED))
        return EFFECT_PENDING;
    record_set_number(evidence, "in_flight",
                      release_lanes_in_flight(&r->lanes, first) +
                          release_lanes_in_flight(&r->lanes, second));
    return EFFECT_DONE;
}

static enum effect_outcome drain(void *user, const struct journal_case *c, int64_t at_us,
                                 struct record *evidence, struct why *ret_why)
{
    (void)ret_why;
    return drain_spaces(user, c->candidate_namespace, c->control_namespace, c->started_us, at_us,
                        evidence);
}

static enum effect_outcome fence(void *user, const struct journal_case *c, int64_t at_us,
                                 struct record *evidence, struct why *ret_why)
{
    (void)at_us, (void)ret_why;
    return fence_spaces(user, c->candidate_namespace, c->control_namespace, evidence);
}

/* Promotion: the generation before the previous one, and control. */
static enum effect_outcome fence_older(void *user, const struct journal_case *c, int64_t at_us,
                                       struct record *evidence, struct why *ret_why)
{
    (void)ret_why;
    enum effect_outcome outcome = drain_spaces(user, c->older_namespace, c->control_namespace,
                                               c->started_us, at_us, evidence);
    if (outcome != EFFECT_DONE)
        return outcome;
    return fence_spaces(user, c->older_namespace, c->control_namespace, evidence);
}

/* The rest is the loader's: lanes that nothing needs go. */
static enum effect_outcome tidy(void *user, const struct journal_case *c, int64_t at_us,
                                struct record *evidence, struct why *ret_why)
{
    struct releases *r = user;
    (void)c, (void)at_us, (void)evidence, (void)ret_why;
    if (r->has_loader)
        releases_ring(r);
    return EFFECT_DONE;
}

void releases_effects_init(struct releases *r)
{
    r->effects = (struct journal_effects){
        .user = r,
        .apply = {[STEP_PIN_PREVIOUS_ACTIVE_RELEASE] = pin_previous,
                  [STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS] = drain,
                  [STEP_FENCE_CANDIDATE_CACHE_NAMESPACE] = fence,
                  [STEP_ROLLBACK_COMPLETE] = tidy,
                  [STEP_PIN_CANDIDATE_RELEASE] = pin_candidate,
                  [STEP_FENCE_OLDER_CACHE_NAMESPACES] = fence_older,
                  [STEP_PROMOTION_COMPLETE] = tidy},
    };
}
