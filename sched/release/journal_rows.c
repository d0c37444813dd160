/* journal_rows.c: what each step leaves in the registry.
 *
 * HOW     Two lists: rows that must be durable before the step's effect (a fence, a switched route), and rows that
 *         go with its receipt. Both are written so that doing it again changes nothing.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/journal_priv.h"

#include "sched/release/release.h"

/* ---- before the effect ---- */

static enum status needs_fence(struct registry *r, const char *key, bool *ret_is_needed,
                               struct why *ret_why)
{
    struct record row;
    if (key[0] == '\0')
        return OK;
    TRY(registry_get(r, REGISTRY_NAMESPACES, key, &row, ret_why));
    const char *state = record_text(&row, "state");
    *ret_is_needed |= state == NULL || namespace_may_move(state, "fenced");
    record_release(&row);
    return OK;
}

static enum status put_fences(struct registry *r, struct change *change, const char *first,
                              const char *second, bool *ret_is_needed, struct why *ret_why)
{
    TRY(needs_fence(r, first, ret_is_needed, ret_why));
    TRY(needs_fence(r, second, ret_is_needed, ret_why));
    if (change == NULL || !*ret_is_needed)
        return OK;
    TRY(release_put_namespace(r, change, first[0] != '\0' ? first : NULL, "fenced", ret_why));
    return release_put_namespace(r, change, second[0] != '\0' ? second : NULL, "fenced", ret_why);
}

/* The candidate becomes stable and the stable one previous. */
static enum status put_switch(struct registry *r, struct change *change,
                              const struct journal_case *c, bool *ret_is_needed,
                              struct why *ret_why)
{
    struct record route;
    TRY(release_route(r, &route, ret_why));
    const char *stable = record_text(&route, "stable");
    *ret_is_needed = stable == NULL || strcmp(stable, c->candidate) != 0;
    enum status s = OK;
    if (change != NULL && *ret_is_needed) {
        (void)change_raise_epoch(change);
        record_set_text(&route, "stable", c->candidate);
        record_set_text(&route, "previous", c->pinned);
        record_set_text(&route, "candidate", NULL);
        record_set_text(&route, "control_namespace", NULL);
        record_set_number(&route, "cap_bp", 0);
        record_set_number(&route, "weight_bp", 0);
        change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
        s = release_put_state(r, change, c->candidate, GENERATION_STABLE, NULL, ret_why);
        if (s == OK)
            s = release_put_state(r, change, c->pinned, GENERATION_PREVIOUS, NULL, ret_why);
    }
    record_release(&route);
    return s;
}

enum status journal_put_before(struct registry *registry, struct change *change,
                               const struct journal_case *c, enum journal_step step,
                               bool *ret_is_needed, struct why *ret_why)
{
    *ret_is_needed = false;
    if (step == STEP_FENCE_CANDIDATE_CACHE_NAMESPACE)
        return put_fences(registry, change, c->candidate_namespace, c->control_namespace,
                          ret_is_needed, ret_why);
    if (step == STEP_FENCE_OLDER_CACHE_NAMESPACES)
        return put_fences(registry, change, c->older_namespace, c->control_namespace, ret_is_needed,
                          ret_why);
    if (step == STEP_SWITCH_ROUTE)
        return put_switch(registry, change, c, ret_is_needed, ret_why);
    return OK;
}

/* ---- with the receipt ---- */

static enum status put_restored(struct registry *r, struct change *change,
                                const struct journal_case *c, struct why *ret_why)
{
    struct record route;
    TRY(release_route(r, &route, ret_why));
    const char *stable = record_text(&route, "stable");
    (void)change_raise_epoch(change);
    if (stable != NULL && strcmp(stable, c->candidate) == 0)
        record_set_text(&route, "previous", NULL); /* it is the one that is rolled back to */
    record_set_text(&route, "stable", c->pinned);
    record_set_text(&route, "candidate", NULL);
    record_set_text(&route, "control_namespace", NULL);
    record_set_text(&route, "rollout", NULL);
    record_set_text(&route, "salt", NULL);
    record_set_number(&route, "cap_bp", 0);
    record_set_number(&route, "weight_bp", 0);
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    record_release(&route);
    return OK;
}

static enum status state_of(struct registry *r, const char *id, enum generation_state *ret_state,
                            struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS, id, &row, ret_why));
    *ret_state = generation_state_find(record_text(&row, "state"));
    record_release(&row);
    return OK;
}

enum status journal_put_event(struct registry *registry, struct change *change,
                              const struct journal_case *c, enum rollout_event_kind kind,
                              const char *note, struct why *ret_why)
{
    struct release_rollout rollout;
    struct rollout_decision decision;
    const struct rollout_event event = {.kind = kind,
                                        .now_ms = (uint64_t)(change_at_us(change) / 1000)};
    TRY(release_rollout_read(registry, c->rollout, &rollout, ret_why));
    return release_rollout_put(registry, change, &rollout, &event, note, &decision, ret_why);
}

/* The generation before the previous one has no way back to it: its weights and pages go. */
static enum status put_retired(struct registry *r, struct change *change,
                               const struct journal_case *c, struct why *ret_why)
{
    enum generation_state state;
    if (c->older[0] == '\0')
        return OK;
    TRY(state_of(r, c->older, &state, ret_why));
    if (state != GENERATION_PREVIOUS)
        return OK;
    TRY(release_put_namespace(r, change, c->older_namespace, "fenced", ret_why));
    return release_put_state(r, change, c->older, GENERATION_RETIRED, NULL, ret_why);
}

static enum status put_rolled_back(struct registry *r, struct change *change,
                                   const struct journal_case *c, struct why *ret_why)
{
    struct record route;
    enum generation_state pinned;
    TRY(release_route(r, &route, ret_why));
    record_set_text(&route, "barred", NULL);
    record_set_text(&route, "pinned", NULL);
    const char *previous = record_text(&route, "previous");
    bool is_older_kept = previous != NULL && strcmp(previous, c->older) == 0;
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    record_release(&route);
    TRY(state_of(r, c->pinned, &pinned, ret_why));
    TRY(release_put_state(r, change, c->candidate, GENERATION_ROLLED_BACK, c->reason, ret_why));
    if (pinned != GENERATION_STABLE)
        TRY(release_put_state(r, change, c->pinned, GENERATION_STABLE, NULL, ret_why));
    if (!is_older_kept)
        TRY(put_retired(r, change, c, ret_why));
    return journal_put_event(r, change, c, EVENT_ROLLBACK_DONE, c->reason, ret_why);
}

static enum status put_promoted(struct registry *r, struct change *change,
                                const struct journal_case *c, struct why *ret_why)
{
    struct record route;
    TRY(release_route(r, &route, ret_why));
    record_set_text(&route, "rollout", NULL);
    record_set_text(&route, "salt", NULL);
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    record_release(&route);
    return journal_put_event(r, change, c, EVENT_PROMOTION_DONE, NULL, ret_why);
}

enum status journal_put_rows(struct registry *registry, struct change *change,
                             const struct journal_case *c, enum journal_step step,
                             struct why *ret_why)
{
    switch (step) {
    case STEP_RESTORE_PREVIOUS_ROUTE:
        return put_restored(registry, change, c, ret_why);
    case STEP_ROLLBACK_COMPLETE:
        return put_rolled_back(registry, change, c, ret_why);
    case STEP_FENCE_OLDER_CACHE_NAMESPACES:
        return put_retired(registry, change, c, ret_why);
    case STEP_PROMOTION_COMPLETE:
        return put_promoted(registry, change, c, ret_why);
    case STEP_STOP_NEW_CANDIDATE_ADMISSION:
    case STEP_PIN_PREVIOUS_ACTIVE_RELEASE:
    case STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS:
    case STEP_FENCE_CANDIDATE_CACHE_NAMESPACE:
    case STEP_RETAIN_FAILED_RECEIPTS_FOR_AUDIT:
    case STEP_PIN_CANDIDATE_RELEASE:
    case STEP_SWITCH_ROUTE:
    case JOURNAL_STEP_COUNT:
        return OK;
    }
    return OK;
}
