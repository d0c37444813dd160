/* releases_calls_rollout.c: the calls about rollouts, and the rollback; on the registry's thread.
 *
 * HOW     A command is an event for the rollout's driver. What needs a pool that was given back goes to the rescue first and
 *         comes again when it is loaded.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"

enum { REASON_ROOM = 160 };

static enum status read_reason(const struct admin_call *call, const char **ret_reason,
                               struct why *ret_why)
{
    const char *reason = record_text(&call->body, "reason");
    *ret_reason = reason != NULL ? reason : "asked for";
    if (record_has(&call->body, "reason") && reason == NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "reason", "reason: a text is right");
    if (reason != NULL && strlen(reason) >= REASON_ROOM)
        return why_set(ret_why, STATUS_BAD_REQUEST, "reason", "reason: at most %d bytes are right",
                       REASON_ROOM - 1);
    return OK;
}

static enum status rollout_key(struct registry *registry, const struct admin_call *call,
                               char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    struct release_rollout *rollout;
    if (strcmp(call->subject, "active") != 0) {
        snprintf(ret_key, REGISTRY_KEY_ROOM, "%.*s", REGISTRY_KEY_ROOM - 1, call->subject);
        return OK;
    }
    if ((rollout = mem_alloc(sizeof *rollout)) == NULL)
        return STATUS_NO_MEMORY;
    enum status s = release_rollout_find_active(registry, rollout, ret_why);
    if (s == OK)
        snprintf(ret_key, REGISTRY_KEY_ROOM, "%s", rollout->key);
    mem_free(rollout);
    return s;
}

static enum status tell_rollout(struct releases *r, struct registry *registry,
                                struct admin_call *call, const char *key)
{
    return rollout_driver_status(r->driver, registry, key, &call->text, &call->why);
}

static enum status read_plan(const struct admin_call *call, struct rollout_plan *ret_plan,
                             struct why *ret_why)
{
    struct record plan = record_child(&call->body, "plan");
    if (plan.json == NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "plan", "plan: an object with steps is right");
    char *text = record_print(&plan);
    if (text == NULL)
        return STATUS_NO_MEMORY;
    enum status s =
        rollout_plan_parse((struct slice){text, strlen(text)}, ret_plan, ret_why);
    mem_free(text);
    return s;
}

/* A rollout without a loaded candidate would judge nothing. */
static enum status check_loaded(struct releases *r, const char *id, enum generation_state state,
                                struct why *ret_why)
{
    struct release_lane entry;
    if (release_lanes_keep_id(&r->lanes, id, &entry)) {
        enum status s = entry.is_open ? releases_quota_check(r, &entry, ret_why) : OK;
        release_lanes_give(&r->lanes, entry.place);
        if (entry.is_open)
            return s;
    }
    if (state < GENERATION_CANARY && !atomic_load(&r->is_brought_back))
        return why_set(ret_why, STATUS_UNAVAILABLE, "candidate",
                       "generation %.16s is loaded again after the start: ask again", id);
    return why_set(ret_why, STATUS_ILLEGAL_MOVE, "candidate",
                   "generation %.16s is not loaded: publish it again", id);
}

static enum status start_rollout(struct releases *r, struct registry *registry,
                                 struct release_work *work, struct rollout_plan *plan)
{
    static const char *const known[] = {"candidate", "plan"};
    struct admin_call *call = work->call;
    struct why *why = &call->why;
    char id[SHA256_HEX], key[REGISTRY_KEY_ROOM];
    struct record row;
    TRY(releases_check_known(call, known, ARRAY_LEN(known), why));
    const char *candidate = record_text(&call->body, "candidate");
    if (candidate == NULL)
        return why_set(why, STATUS_BAD_REQUEST, "candidate",
                       "candidate: the id or name of a generation is right");
    TRY(read_plan(call, plan, why));
    TRY(releases_find_generation(registry, candidate, id, &row, why));
    enum generation_state state = generation_state_find(record_text(&row, "state"));
    record_release(&row);
    TRY(check_loaded(r, id, state, why));
    TRY(rollout_driver_start(r->driver, registry, &work->terms, id, plan, key, why));
    call->result = ADMIN_RESULT_CREATED;
    return call->is_dry_run ? OK : tell_rollout(r, registry, call, key);
}

static enum status start(struct releases *r, struct registry *registry, struct release_work *work)
{
    struct rollout_plan *plan = mem_zalloc(1, sizeof *plan);
    if (plan == NULL)
        return STATUS_NO_MEMORY;
    enum status s = start_rollout(r, registry, work, plan);
    mem_free(plan);
    return s;
}

static enum status command(struct releases *r, struct registry *registry,
                           struct release_work *work, enum rollout_event_kind kind)
{
    static const char *const known[] = {"reason"};
    struct admin_call *call = work->call;
    char key[REGISTRY_KEY_ROOM];
    const char *reason;
    TRY(releases_check_known(call, known, ARRAY_LEN(known), &call->why));
    TRY(read_reason(call, &reason, &call->why));
    TRY(rollout_key(registry, call, key, &call->why));
    TRY(rollout_driver_command(r->driver, registry, &work->terms, key, kind, &call->why));
    return call->is_dry_run ? OK : tell_rollout(r, registry, call, key);
}

/* Nothing but the previous generation can be rolled back to, and its pool was given back. */
static bool is_previous_away(struct releases *r)
{
    struct projection p;
    struct release_lane entry;
    releases_copy_route(r, &p);
    if (p.previous[0] == '\0' || p.candidate[0] != '\0' || p.barred[0] != '\0')
        return false;
    return !release_lanes_find_id(&r->lanes, p.previous, &entry) || !entry.is_open;
}

/* A person asks: what could not be loaded is tried again. */
static void ask_for_load(struct releases *r)
{
    pthread_mutex_lock(&r->lock);
    r->failed_pin[0] = '\0';
    r->is_load_asked = true;
    pthread_mutex_unlock(&r->lock);
}

static enum status roll_back(struct releases *r, struct registry *registry,
                             struct release_work *work)
{
    static const char *const known[] = {"to", "reason"};
    struct admin_call *call = work->call;
    char key[REGISTRY_KEY_ROOM];
    const char *reason, *to = record_text(&call->body, "to");
    TRY(releases_check_known(call, known, ARRAY_LEN(known), &call->why));
    TRY(read_reason(call, &reason, &call->why));
    if (to == NULL || strcmp(to, "previous") != 0)
        return why_set(&call->why, STATUS_BAD_REQUEST, "to", "to: \"previous\" is right");
    if (!call->is_dry_run)
        ask_for_load(r);
    if (!work->is_prepared && !call->is_dry_run && is_previous_away(r)) {
        work->needs_loader = true;
        return OK;
    }
    TRY(rollout_driver_roll_back(r->driver, registry, &work->terms, key, &call->why));
    return call->is_dry_run ? OK : tell_rollout(r, registry, call, key);
}

enum status releases_call_rollout(struct releases *r, struct registry *registry,
                                  struct release_work *work)
{
    struct admin_call *call = work->call;
    char key[REGISTRY_KEY_ROOM];
    switch ((int)call->op) {
    case ADMIN_ROLLOUT_START:
        return start(r, registry, work);
    case ADMIN_ROLLOUT_LIST:
        return releases_json_rollouts(registry, &call->text, &call->why);
    case ADMIN_ROLLOUT_READ:
        TRY(rollout_key(registry, call, key, &call->why));
        return tell_rollout(r, registry, call, key);
    case ADMIN_ROLLOUT_APPROVE:
        return command(r, registry, work, EVENT_APPROVE);
    case ADMIN_ROLLOUT_PAUSE:
        return command(r, registry, work, EVENT_PAUSE);
    case ADMIN_ROLLOUT_RESUME:
        return command(r, registry, work, EVENT_RESUME);
    case ADMIN_ROLLOUT_PROMOTE:
        return command(r, registry, work, EVENT_PROMOTE);
    case ADMIN_ROLLOUT_ABORT:
        return command(r, registry, work, EVENT_ABORT);
    default:
        ASSERT(call->op == ADMIN_ROLLBACK);
        return roll_back(r, registry, work);
    }
}
