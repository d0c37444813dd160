/* release_rollout.c: start, steps, pause and the ways out.
 *
 * HOW     The route's row is what the router follows; a step writes weight and rollout into it and raises the
 *         epoch. A judgement that fails is one transaction with the rollback's intent: there is no moment
 *         at which the gate has failed and nobody has decided.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release_rollout.h"

#include "sched/generation_id.h"
#include "sched/journal.h"
#include "sched/release.h"
#include "sched/release_plan.h"

/* The search for the rollout that is not over. */
struct search {
    char key[REGISTRY_KEY_ROOM];
};

static enum status see(void *user, const char *key, const struct record *body, struct why *ret_why)
{
    struct search *search = user;
    enum release_rollout_state state = release_rollout_state_find(record_text(body, "state"));
    (void)ret_why;
    if (state != RELEASE_ROLLOUT_STATE_COUNT && !release_rollout_is_over(state))
        snprintf(search->key, sizeof search->key, "%s", key);
    return OK;
}

enum status release_rollout_find_active(struct registry *registry,
                                        char ret_rollout[REGISTRY_KEY_ROOM], struct record *ret_row,
                                        struct why *ret_why)
{
    struct search search = {.key = ""};
    *ret_row = (struct record){0};
    TRY(registry_each(registry, REGISTRY_ROLLOUTS, see, &search, ret_why));
    memcpy(ret_rollout, search.key, REGISTRY_KEY_ROOM);
    if (search.key[0] == '\0')
        return why_set(ret_why, STATUS_NOT_FOUND, "rollout", "there is no rollout under way");
    return registry_get(registry, REGISTRY_ROLLOUTS, search.key, ret_row, ret_why);
}

static enum release_rollout_state state_of(const struct record *row)
{
    return release_rollout_state_find(record_text(row, "state"));
}

static int64_t step_of(const struct record *row)
{
    int64_t step = 0;
    (void)record_number(row, "step", &step);
    return step;
}

/* Writes the row with this state and reason. */
static void put_state(struct change *change, const char *key, struct record *row,
                      enum release_rollout_state state, const char *reason)
{
    record_set_text(row, "state", release_rollout_state_text(state));
    record_set_text(row, "reason", reason);
    change_put(change, REGISTRY_ROLLOUTS, key, row);
    change_subject(change, key);
}

/* Commits if all went well, else aborts. */
static enum status settle(struct change **change, enum status s, struct why *ret_why)
{
    if (s == OK)
        return change_commit(change, ret_why);
    change_abort(change);
    return s;
}

/* ---- steps ---- */

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

static enum status put_route(struct registry *r, struct change *change, const char *key,
                             const struct record *row, int64_t weight_bp, bool is_first,
                             struct why *ret_why)
{
    char space[SHA256_HEX];
    struct record route;
    const char *candidate = record_text(row, "candidate"), *baseline = record_text(row, "baseline");
    TRY(release_route(r, &route, ret_why));
    int64_t epoch = change_raise_epoch(change);
    if (is_first) {
        generation_id_namespace(baseline, epoch, "control", space);
        put_control(change, space, baseline);
        record_set_text(&route, "control_namespace", space);
        record_set_text(&route, "candidate", candidate);
        record_set_text(&route, "rollout", key);
        generation_id_namespace(candidate, epoch, "salt", space);
        record_set_text(&route, "salt", space);
    }
    record_set_number(&route, "weight_bp", weight_bp);
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    record_release(&route);
    return OK;
}

static enum status enter_step(struct registry *r, struct change *change, const char *key,
                              struct record *row, const struct record *plan, int64_t step,
                              struct why *ret_why)
{
    if (step == 1)
        TRY(release_put_state(r, change, record_text(row, "candidate"), GENERATION_CANARY, NULL,
                              ret_why));
    TRY(put_route(r, change, key, row, release_plan_step(plan, (int)step).weight_bp, step == 1,
                  ret_why));
    record_set_number(row, "step", step);
    put_state(change, key, row, RELEASE_ROLLOUT_STEP, NULL);
    return OK;
}

static enum status begin_promotion(struct registry *r, struct change *change, const char *key,
                                   struct record *row, struct why *ret_why)
{
    put_state(change, key, row, RELEASE_ROLLOUT_PROMOTING, NULL);
    return journal_put_promotion(r, change, key, row, ret_why);
}

/* ---- start ---- */

static enum status check_start(struct registry *r, const char *candidate,
                               char ret_baseline[SHA256_HEX], struct why *ret_why)
{
    char active[REGISTRY_KEY_ROOM];
    struct record row = {0}, route = {0};
    enum status s = release_rollout_find_active(r, active, &row, NULL);
    record_release(&row);
    if (s == OK)
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "rollout", "rollout %s is under way", active);
    if (s != STATUS_NOT_FOUND)
        return why_set(ret_why, s, "rollout", "the rollouts cannot be read");
    TRY(registry_get(r, REGISTRY_GENERATIONS, candidate, &row, ret_why));
    enum generation_state state = generation_state_find(record_text(&row, "state"));
    record_release(&row);
    if (state != GENERATION_WARMED)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "candidate",
                       "generation %.16s is %s; a rollout needs one that is evaluated and warmed",
                       candidate,
                       state != GENERATION_STATE_COUNT ? generation_state_text(state) : "nothing");
    TRY(release_route(r, &route, ret_why));
    const char *stable = record_text(&route, "stable");
    bool is_routed = record_has(&route, "candidate") || record_has(&route, "barred");
    snprintf(ret_baseline, SHA256_HEX, "%s", stable != NULL ? stable : "");
    record_release(&route);
    return is_routed
               ? why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "route", "another transition is in progress")
               : OK;
}

static enum status next_key(struct registry *r, char ret_key[REGISTRY_KEY_ROOM],
                            struct why *ret_why)
{
    char last[REGISTRY_KEY_ROOM];
    TRY(registry_last_key(r, REGISTRY_ROLLOUTS, last, ret_why));
    registry_number_key((int64_t)strtoll(last, NULL, 10) + 1, ret_key);
    return OK;
}

enum status release_rollout_start(struct registry *registry, const struct change_terms *terms,
                                  const char *candidate, const struct record *plan,
                                  char ret_rollout[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    char baseline[SHA256_HEX], hash[SHA256_HEX];
    struct change *change;
    struct change_terms next = *terms;
    struct record row;
    next.epoch_expected = EPOCH_ANY; /* the second change follows from the first */
    TRY(release_plan_check(plan, ret_why));
    TRY(check_start(registry, candidate, baseline, ret_why));
    TRY(next_key(registry, ret_rollout, ret_why));
    TRY(change_begin(registry, terms, "rollout.start", &change, ret_why));
    change_receipt(change, plan, hash);
    record_init(&row);
    record_set_text(&row, "baseline", baseline);
    record_set_text(&row, "candidate", candidate);
    record_set_flag(&row, "is_auto", record_flag(plan, "auto_approve"));
    record_set_text(&row, "plan", hash);
    record_set_text(&row, "resume_state", NULL);
    record_set_number(&row, "started_us", terms->at_us);
    record_set_number(&row, "step", 0);
    put_state(change, ret_rollout, &row, RELEASE_ROLLOUT_AWAITING_APPROVAL, NULL);
    record_release(&row);
    TRY(change_commit(&change, ret_why));
    return record_flag(plan, "auto_approve")
               ? release_rollout_approve(registry, &next, ret_rollout, ret_why)
               : OK;
}

/* ---- decisions ---- */

/* The row, its plan, and a change begun. */
struct decision {
    struct registry *registry;
    const char *key;
    struct record row, plan;
    struct change *change;
};

static enum status decide(struct registry *r, const struct change_terms *terms, const char *rollout,
                          const char *what, struct decision *ret_d, struct why *ret_why)
{
    *ret_d = (struct decision){.registry = r, .key = rollout};
    TRY(registry_get(r, REGISTRY_ROLLOUTS, rollout, &ret_d->row, ret_why));
    const char *plan = record_text(&ret_d->row, "plan");
    enum status s =
        registry_get(r, REGISTRY_RECEIPTS, plan != NULL ? plan : "", &ret_d->plan, ret_why);
    if (s == OK)
        s = change_begin(r, terms, what, &ret_d->change, ret_why);
    if (s != OK) {
        record_release(&ret_d->row);
        record_release(&ret_d->plan);
    }
    return s;
}

static enum status decided(struct decision *d, enum status s, struct why *ret_why)
{
    s = settle(&d->change, s, ret_why);
    record_release(&d->row);
    record_release(&d->plan);
    return s;
}

static enum status wrong_state(const struct decision *d, const char *needed, struct why *ret_why)
{
    const char *state = record_text(&d->row, "state");
    return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                   "rollout %s is %s; this needs one that is %s", d->key,
                   state != NULL ? state : "nothing", needed);
}

enum status release_rollout_approve(struct registry *registry, const struct change_terms *terms,
                                    const char *rollout, struct why *ret_why)
{
    struct decision d;
    TRY(decide(registry, terms, rollout, "rollout.approve", &d, ret_why));
    enum status s;
    if (state_of(&d.row) != RELEASE_ROLLOUT_AWAITING_APPROVAL)
        s = wrong_state(&d, "awaiting approval", ret_why);
    else if (step_of(&d.row) == 0)
        s = enter_step(registry, d.change, rollout, &d.row, &d.plan, 1, ret_why);
    else
        s = begin_promotion(registry, d.change, rollout, &d.row, ret_why);
    return decided(&d, s, ret_why);
}

static enum status after_pass(struct decision *d, const char *hash, struct why *ret_why)
{
    int64_t step = step_of(&d->row);
    record_add_text(&d->row, "judgements", hash);
    if (step < release_plan_count(&d->plan))
        return enter_step(d->registry, d->change, d->key, &d->row, &d->plan, step + 1, ret_why);
    if (record_flag(&d->row, "is_auto"))
        return begin_promotion(d->registry, d->change, d->key, &d->row, ret_why);
    put_state(d->change, d->key, &d->row, RELEASE_ROLLOUT_AWAITING_APPROVAL, NULL);
    return OK;
}

/* The name of the first gate with this verdict. */
static const char *first_gate(const struct record *judgement, const char *verdict)
{
    for (size_t i = 0; i < record_list_count(judgement, "gates"); i++) {
        struct record gate = record_item(judgement, "gates", i);
        const char *said = record_text(&gate, "verdict");
        if (said != NULL && strcmp(said, verdict) == 0)
            return record_text(&gate, "name");
    }
    return "unknown";
}

static enum status judge(struct decision *d, const struct record *judgement, enum judgement verdict,
                         struct why *ret_why)
{
    char hash[SHA256_HEX], reason[160];
    change_receipt(d->change, judgement, hash);
    snprintf(reason, sizeof reason, "gate %.100s: %s",
             first_gate(judgement, judgement_text(verdict)), judgement_text(verdict));
    if (verdict == JUDGEMENT_PASS)
        return after_pass(d, hash, ret_why);
    if (verdict == JUDGEMENT_FAIL)
        return journal_put_rollback(d->registry, d->change, reason, hash, ret_why);
    record_set_text(&d->row, "resume_state", record_text(&d->row, "state"));
    put_state(d->change, d->key, &d->row, RELEASE_ROLLOUT_PAUSED, reason);
    return OK;
}

enum status release_rollout_judge(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const struct record *judgement,
                                  enum judgement *ret_verdict, struct why *ret_why)
{
    static const char *const whats[] = {"rollout.pass", "rollout.pause", "rollback.intent"};
    struct decision d;
    int64_t step = 0;
    TRY(judgement_of(judgement, ret_verdict, ret_why));
    TRY(decide(registry, terms, rollout, whats[*ret_verdict], &d, ret_why));
    const char *of = record_text(judgement, "rollout");
    enum status s = OK;
    if (state_of(&d.row) != RELEASE_ROLLOUT_STEP)
        s = wrong_state(&d, "at a step", ret_why);
    else if (of == NULL || strcmp(of, rollout) != 0 || !record_number(judgement, "step", &step) ||
             step != step_of(&d.row))
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "judgement",
                    "the judgement is of another step");
    if (s == OK)
        s = judge(&d, judgement, *ret_verdict, ret_why);
    return decided(&d, s, ret_why);
}

enum status release_rollout_pause(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const char *reason, struct why *ret_why)
{
    struct decision d;
    TRY(decide(registry, terms, rollout, "rollout.pause", &d, ret_why));
    enum release_rollout_state state = state_of(&d.row);
    enum status s = OK;
    if (state != RELEASE_ROLLOUT_STEP &&
        !(state == RELEASE_ROLLOUT_AWAITING_APPROVAL && step_of(&d.row) > 0))
        s = wrong_state(&d, "at a step", ret_why);
    record_set_text(&d.row, "resume_state", record_text(&d.row, "state"));
    if (s == OK)
        put_state(d.change, rollout, &d.row, RELEASE_ROLLOUT_PAUSED, reason);
    return decided(&d, s, ret_why);
}

enum status release_rollout_resume(struct registry *registry, const struct change_terms *terms,
                                   const char *rollout, struct why *ret_why)
{
    struct decision d;
    TRY(decide(registry, terms, rollout, "rollout.resume", &d, ret_why));
    enum release_rollout_state back =
        release_rollout_state_find(record_text(&d.row, "resume_state"));
    enum status s = OK;
    if (state_of(&d.row) != RELEASE_ROLLOUT_PAUSED || back == RELEASE_ROLLOUT_STATE_COUNT)
        s = wrong_state(&d, "paused", ret_why);
    record_set_text(&d.row, "resume_state", NULL);
    if (s == OK)
        put_state(d.change, rollout, &d.row, back, NULL);
    return decided(&d, s, ret_why);
}

enum status release_rollout_abort(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const char *reason, struct why *ret_why)
{
    struct record row;
    struct decision d;
    TRY(registry_get(registry, REGISTRY_ROLLOUTS, rollout, &row, ret_why));
    bool is_early = state_of(&row) == RELEASE_ROLLOUT_AWAITING_APPROVAL && step_of(&row) == 0;
    record_release(&row);
    TRY(decide(registry, terms, rollout, is_early ? "rollout.abort" : "rollback.intent", &d,
               ret_why));
    enum status s = OK;
    if (release_rollout_is_over(state_of(&d.row)))
        s = wrong_state(&d, "under way", ret_why);
    else if (is_early)
        put_state(d.change, rollout, &d.row, RELEASE_ROLLOUT_ABORTED, reason);
    else
        s = journal_put_rollback(registry, d.change, reason, NULL, ret_why);
    return decided(&d, s, ret_why);
}
