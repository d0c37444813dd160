/* release_rollout.c: what each decision of a rollout leaves in the registry beside its own row.
 *
 * HOW     The machine decides (rollout.h); its action names what goes with the row in the same change: a step writes
 *         weight and rollout into the route and raises the epoch, a promotion and a rollback begin their
 *         journals. A gate that fails is one transaction with the rollback's intent: there is no moment at which
 *         the gate has failed and nobody has decided.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_rollout.h"

#include "config/mem.h"
#include "sched/release/generation_id.h"
#include "sched/release/journal.h"
#include "sched/release/release.h"
#include "sched/release/release_evidence.h"

/* Commits if all went well, else aborts. */
static enum status settle(struct change **change, enum status s, struct why *ret_why)
{
    if (s == OK)
        return change_commit(change, ret_why);
    change_abort(change);
    return s;
}

/* ---- a step ---- */

static void put_control(struct change *change, const char *space, const char *baseline)
{
    struct record row;
    record_init(&row);
    record_set_text(&row, "generation", baseline);
    record_set_text(&row, "role", "control");
    record_set_text(&row, "state", "open");
    change_put(change, REGISTRY_NAMESPACES, space, &row);
    record_release(&row);
}

/* What the route has of a rollout from its first step on. */
static void take_route(struct change *change, const struct release_rollout *ro, int64_t epoch,
                       struct record *route)
{
    char hash[SHA256_HEX];
    generation_id_namespace(ro->baseline, epoch, "control", hash);
    put_control(change, hash, ro->baseline);
    record_set_text(route, "control_namespace", hash);
    record_set_text(route, "candidate", ro->candidate);
    record_set_number(route, "cap_bp", ro->plan.cap_bp);
    record_set_text(route, "rollout", ro->key);
    generation_id_namespace(ro->candidate, epoch, "salt", hash);
    record_set_text(route, "salt", hash);
}

static enum status put_step(struct registry *r, struct change *change,
                            const struct release_rollout *ro, bool is_first, struct why *ret_why)
{
    struct record route;
    TRY(release_route(r, &route, ret_why));
    const char *stable = record_text(&route, "stable");
    enum status s = OK;
    if (stable == NULL || strcmp(stable, ro->baseline) != 0)
        s = why_set(ret_why, STATUS_ILLEGAL_MOVE, "baseline",
                    "the baseline %.16s is not stable any more: abort this rollout and start "
                    "another",
                    ro->baseline);
    if (s == OK) {
        int64_t epoch = change_raise_epoch(change);
        if (is_first)
            take_route(change, ro, epoch, &route);
        record_set_number(&route, "weight_bp", rollout_weight_bp(&ro->now, &ro->plan));
        change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    }
    record_release(&route);
    if (s == OK && is_first)
        s = release_put_state(r, change, ro->candidate, GENERATION_CANARY, NULL, ret_why);
    return s;
}

/* ---- what goes with an action ---- */

static enum status put_effects(struct registry *r, struct change *change, bool has_served,
                               const struct release_rollout *ro,
                               const struct rollout_decision *decision, struct why *ret_why)
{
    char reason[ROLLOUT_NOTE_ROOM];
    switch (decision->action) {
    case ACTION_BEGIN_STEP:
        return put_step(r, change, ro, !has_served, ret_why);
    case ACTION_PROMOTE:
        return journal_put_promotion(r, change, ro, ret_why);
    case ACTION_ROLL_BACK:
        release_rollout_say(ro, decision, reason);
        return journal_put_rollback(r, change, ro, reason, ret_why);
    case ACTION_NONE:
    case ACTION_MOVE:
    case ACTION_CONTINUE: /* the route has stood still since */
    case ACTION_REJECT:
    case ACTION_COUNT:
        return OK;
    }
    return OK;
}

/* The word of the audit: "rollout.approve"; "rollback.intent" for what begins a rollback. */
static void what_of(const struct rollout_event *event, const struct rollout_decision *decision,
                    char ret_what[64])
{
    if (decision->action == ACTION_ROLL_BACK)
        snprintf(ret_what, 64, "rollback.intent");
    else
        snprintf(ret_what, 64, "rollout.%s", rollout_event_name(event->kind));
}

/* One decision as a change of its own. */
static enum status decide(struct registry *r, const struct change_terms *terms,
                          struct release_rollout *ro, const struct rollout_event *event,
                          const struct record *plan, struct rollout_decision *ret_decision,
                          struct why *ret_why)
{
    struct change *change;
    struct rollout next;
    char what[64], hash[SHA256_HEX];
    bool has_served = ro->now.has_served;
    TRY(rollout_apply(&ro->now, &ro->plan, event, &next, ret_decision, ret_why));
    if (ret_decision->action == ACTION_NONE)
        return OK;
    what_of(event, ret_decision, what);
    TRY(change_begin(r, terms, what, &change, ret_why));
    if (plan != NULL)
        change_receipt(change, plan, hash);
    enum status s = release_rollout_put(r, change, ro, event, terms->note, ret_decision, ret_why);
    if (s == OK)
        s = put_effects(r, change, has_served, ro, ret_decision, ret_why);
    return settle(&change, s, ret_why);
}

/* Nothing brings traffic to a candidate whose evaluation is not of what is loaded. */
static enum status check_evaluated(struct registry *r, const char *candidate, struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS, candidate, &row, ret_why));
    enum status s = release_evidence_current(r, &row, ret_why);
    record_release(&row);
    return s;
}

static bool is_trusting(enum rollout_event_kind kind)
{
    return kind == EVENT_APPROVE || kind == EVENT_RESUME || kind == EVENT_PROMOTE;
}

enum status release_rollout_apply(struct registry *registry, const struct change_terms *terms,
                                  const char *key, const struct rollout_event *event,
                                  struct rollout_decision *ret_decision, struct why *ret_why)
{
    struct release_rollout ro;
    TRY(change_check_epoch(registry, terms, ret_why));
    TRY(release_rollout_read(registry, key, &ro, ret_why));
    if (is_trusting(event->kind) && !rollout_is_over(ro.now.state))
        TRY(check_evaluated(registry, ro.candidate, ret_why));
    return decide(registry, terms, &ro, event, NULL, ret_decision, ret_why);
}

/* ---- start ---- */

static enum status check_start(struct registry *r, const char *candidate,
                               char ret_baseline[SHA256_HEX], struct why *ret_why)
{
    struct release_rollout active;
    struct record row = {0}, route = {0};
    enum status s = release_rollout_find_active(r, &active, ret_why);
    if (s == OK)
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "rollout", "rollout %s is under way",
                       active.key);
    if (s != STATUS_NOT_FOUND)
        return s;
    TRY(registry_get(r, REGISTRY_GENERATIONS, candidate, &row, ret_why));
    enum generation_state state = generation_state_find(record_text(&row, "state"));
    struct record named = record_child(&row, "receipts");
    bool is_ahead = state >= GENERATION_READY && state <= GENERATION_WARMED;
    s = is_ahead && record_has(&named, "evaluation") ? release_evidence_current(r, &row, ret_why)
                                                     : OK;
    record_release(&row);
    TRY(s);
    if (state != GENERATION_WARMED)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "candidate",
                       "generation %.16s is %s; a rollout needs one that is evaluated and warmed",
                       candidate,
                       state != GENERATION_STATE_COUNT ? generation_state_text(state) : "nothing");
    TRY(release_route(r, &route, ret_why));
    bool is_routed = record_has(&route, "candidate") || record_has(&route, "barred");
    record_copy_text(&route, "stable", ret_baseline, SHA256_HEX);
    record_release(&route);
    return is_routed ? why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "route",
                               "another transition is in progress")
                     : OK;
}

/* The plan as the receipt that it is kept as. */
static enum status print_plan(const struct rollout_plan *plan, struct record *ret_receipt,
                              char ret_hash[SHA256_HEX], struct why *ret_why)
{
    char *text;
    uint8_t hash[SHA256_BYTES];
    if (rollout_plan_write(plan, &text, hash) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "plan", "no memory for the plan");
    enum status s = record_read(text, strlen(text), ret_receipt, ret_why);
    sha256_hex(hash, ret_hash);
    mem_free(text);
    return s;
}

enum status release_rollout_start(struct registry *registry, const struct change_terms *terms,
                                  const char *candidate, const struct rollout_plan *plan,
                                  char ret_key[REGISTRY_KEY_ROOM],
                                  struct rollout_decision *ret_decision, struct why *ret_why)
{
    char last[REGISTRY_KEY_ROOM];
    struct record receipt;
    struct release_rollout ro = {
        .started_us = terms->at_us, .now = {.state = ROLLOUT_EVALUATED}, .plan = *plan};
    const struct rollout_event event = {.kind = EVENT_START,
                                        .now_ms = (uint64_t)(terms->at_us / 1000)};
    TRY(change_check_epoch(registry, terms, ret_why));
    TRY(check_start(registry, candidate, ro.baseline, ret_why));
    TRY(registry_last_key(registry, REGISTRY_ROLLOUTS, last, ret_why));
    registry_number_key((int64_t)strtoll(last, NULL, 10) + 1, ro.key);
    snprintf(ro.candidate, sizeof ro.candidate, "%s", candidate);
    TRY(print_plan(plan, &receipt, ro.plan_hash, ret_why));
    enum status s = decide(registry, terms, &ro, &event, &receipt, ret_decision, ret_why);
    record_release(&receipt);
    memcpy(ret_key, ro.key, REGISTRY_KEY_ROOM);
    return s;
}

/* ---- back ---- */

/* The rollout whose abort is the way back. */
static enum status find_way_back(struct registry *r, const struct change_terms *terms,
                                 struct release_rollout *ret_rollout, struct why *ret_why)
{
    struct record route;
    struct rollout_decision decision;
    struct rollout_event event = {.kind = EVENT_ABORT, .now_ms = (uint64_t)(terms->at_us / 1000)};
    char stable[SHA256_HEX];
    enum status s = release_rollout_find_active(r, ret_rollout, ret_why);
    if (s == OK && ret_rollout->now.has_served)
        return OK;
    if (s == OK) {
        struct change_terms own = *terms;
        own.answer_key = own.answer_payload = NULL; /* the answer is the rollback's */
        s = decide(r, &own, ret_rollout, &event, NULL, &decision, ret_why);
    }
    if (s != OK && s != STATUS_NOT_FOUND)
        return s;
    TRY(release_route(r, &route, ret_why));
    bool has_previous = record_has(&route, "previous");
    record_copy_text(&route, "stable", stable, sizeof stable);
    record_release(&route);
    s = has_previous ? release_rollout_find_promoted(r, stable, ret_rollout, ret_why)
                     : STATUS_NOT_FOUND;
    if (s == STATUS_NOT_FOUND)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "route",
                       "there is no previous generation to go back to: a promotion leaves one, until it is rolled back");
    return s;
}

enum status release_rollout_roll_back(struct registry *registry, const struct change_terms *terms,
                                      char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    struct release_rollout ro;
    struct rollout_decision decision;
    struct change_terms own = *terms;
    const struct rollout_event event = {.kind = EVENT_ABORT,
                                        .now_ms = (uint64_t)(terms->at_us / 1000)};
    TRY(change_check_epoch(registry, terms, ret_why));
    own.epoch_expected = EPOCH_ANY;
    TRY(find_way_back(registry, &own, &ro, ret_why));
    memcpy(ret_key, ro.key, REGISTRY_KEY_ROOM);
    return decide(registry, &own, &ro, &event, NULL, &decision, ret_why);
}
