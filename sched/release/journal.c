/* journal.c: how a journal begins, and finding the one that is open.
 *
 * WHY     The decision to roll back must be durable as one thing: a crash leaves either no trace of it or all of
 *         it, so that what follows is only carrying out.
 * HOW     TX-1 writes the journal's row with the first step's receipt, bars the candidate in the route, pins the
 *         previous release and raises the epoch.
 * THREAD  registry
 * NOT     Making the steps: journal_step.c; what rows each leaves: journal_rows.c.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/journal.h"

#include <inttypes.h>

#include "sched/release/journal_priv.h"
#include "sched/release/release.h"

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* ---- finding ---- */

static void read_case(const char *key, const struct record *body, struct journal_case *c)
{
    int64_t step = 0;
    *c = (struct journal_case){0};
    snprintf(c->journal, sizeof c->journal, "%s", key);
    record_copy_text(body, "rollout", c->rollout, sizeof c->rollout);
    record_copy_text(body, "candidate", c->candidate, sizeof c->candidate);
    record_copy_text(body, "pinned", c->pinned, sizeof c->pinned);
    record_copy_text(body, "older", c->older, sizeof c->older);
    record_copy_text(body, "candidate_namespace", c->candidate_namespace, SHA256_HEX);
    record_copy_text(body, "control_namespace", c->control_namespace, SHA256_HEX);
    record_copy_text(body, "older_namespace", c->older_namespace, SHA256_HEX);
    record_copy_text(body, "reason", c->reason, sizeof c->reason);
    (void)journal_kind_find(record_text(body, "kind"), &c->kind);
    (void)record_number(body, "step", &step);
    (void)record_number(body, "started_us", &c->started_us);
    c->step = (int)step;
    c->is_blocked = strcmp(record_text_or_empty(body, "state"), "blocked") == 0;
}

static enum status see(void *user, const char *key, const struct record *body, struct why *ret_why)
{
    const char *state = record_text_or_empty(body, "state");
    (void)ret_why;
    if (strcmp(state, "open") == 0 || strcmp(state, "blocked") == 0)
        read_case(key, body, user);
    return OK;
}

enum status journal_find_open(struct registry *registry, struct journal_case *ret_case,
                              struct why *ret_why)
{
    *ret_case = (struct journal_case){0};
    TRY(registry_each(registry, REGISTRY_JOURNALS, see, ret_case, ret_why));
    if (ret_case->journal[0] != '\0')
        return OK;
    return why_set(ret_why, STATUS_NOT_FOUND, "journal", "no journal is open");
}

/* ---- beginning ---- */

void journal_put_step(struct change *change, const char *journal, enum journal_step step,
                      int number, const char *candidate, int64_t at_us,
                      const struct record *evidence)
{
    char key[REGISTRY_KEY_ROOM], hash[SHA256_HEX];
    struct record receipt, row;
    record_init(&receipt);
    record_set_number(&receipt, "at_us", at_us);
    record_set_text(&receipt, "candidate", candidate);
    record_set_record(&receipt, "evidence", evidence);
    record_set_text(&receipt, "journal", journal);
    record_set_text(&receipt, "kind", "journal_step");
    record_set_text(&receipt, "step", journal_step_text(step));
    change_receipt(change, &receipt, hash);
    record_init(&row);
    record_set_text(&row, "receipt", hash);
    record_set_text(&row, "step", journal_step_text(step));
    snprintf(key, sizeof key, "%.80s.%02d", journal, number);
    change_put(change, REGISTRY_JOURNAL_STEPS, key, &row);
    record_release(&receipt);
    record_release(&row);
}

void journal_put_state(struct change *change, const char *journal, struct record *row,
                       const char *state, int step)
{
    record_set_text(row, "state", state);
    record_set_number(row, "step", step);
    change_put(change, REGISTRY_JOURNALS, journal, row);
    change_subject(change, journal);
}

static enum status put_journal(struct registry *r, struct change *change, struct journal_case *c,
                               const char *evidence, struct why *ret_why)
{
    char last[REGISTRY_KEY_ROOM];
    struct record row;
    TRY(registry_last_key(r, REGISTRY_JOURNALS, last, ret_why));
    registry_number_key((int64_t)strtoll(last, NULL, 10) + 1, c->journal);
    TRY(release_namespace_of(r, c->candidate, c->candidate_namespace, ret_why));
    TRY(release_namespace_of(r, c->older, c->older_namespace, ret_why));
    if (c->kind == JOURNAL_ROLLBACK) /* its receipt first: the row is judged as it is written */
        journal_put_step(change, c->journal, STEP_STOP_NEW_CANDIDATE_ADMISSION, 1, c->candidate,
                         c->started_us, &(struct record){0});
    record_init(&row);
    record_set_text(&row, "candidate", c->candidate);
    record_set_text(&row, "candidate_namespace", or_null(c->candidate_namespace));
    record_set_text(&row, "control_namespace", or_null(c->control_namespace));
    record_set_text(&row, "evidence", evidence);
    record_set_text(&row, "kind", journal_kind_text(c->kind));
    record_set_text(&row, "older", or_null(c->older));
    record_set_text(&row, "older_namespace", or_null(c->older_namespace));
    record_set_text(&row, "pinned", c->pinned);
    record_set_text(&row, "reason", or_null(c->reason));
    record_set_text(&row, "rollout", or_null(c->rollout));
    record_set_number(&row, "started_us", c->started_us);
    journal_put_state(change, c->journal, &row, "open", c->kind == JOURNAL_ROLLBACK ? 1 : 0);
    record_release(&row);
    return OK;
}

static void take_rollout(const struct release_rollout *rollout, struct journal_case *c)
{
    snprintf(c->rollout, sizeof c->rollout, "%s", rollout->key);
    snprintf(c->candidate, sizeof c->candidate, "%s", rollout->candidate);
    snprintf(c->pinned, sizeof c->pinned, "%s", rollout->baseline);
}

enum status journal_put_promotion(struct registry *registry, struct change *change,
                                  const struct release_rollout *rollout, struct why *ret_why)
{
    struct record route;
    struct journal_case c = {.kind = JOURNAL_PROMOTION, .started_us = change_at_us(change)};
    TRY(release_route(registry, &route, ret_why));
    take_rollout(rollout, &c);
    record_copy_text(&route, "previous", c.older, sizeof c.older);
    record_copy_text(&route, "control_namespace", c.control_namespace, SHA256_HEX);
    record_release(&route);
    return put_journal(registry, change, &c, rollout->decision, ret_why);
}

/* A candidate under way goes back to its baseline; one that was promoted only while that is the previous one. */
static enum status check_way(const struct record *route, const struct journal_case *c,
                             struct why *ret_why)
{
    if (strcmp(record_text_or_empty(route, "rollout"), c->rollout) == 0 ||
        (strcmp(record_text_or_empty(route, "stable"), c->candidate) == 0 &&
         strcmp(record_text_or_empty(route, "previous"), c->pinned) == 0))
        return OK;
    return why_set(ret_why, STATUS_ILLEGAL_MOVE, "route",
                   "there is no previous generation to go back to: a promotion leaves one, until it is rolled back");
}

/* A promotion that is open ends here; what it has done the rollback undoes. */
static enum status preempt(struct registry *r, struct change *change,
                           const struct journal_case *open, struct journal_case *c,
                           struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_JOURNALS, open->journal, &row, ret_why));
    journal_put_state(change, open->journal, &row, "preempted", open->step);
    record_release(&row);
    snprintf(c->older, sizeof c->older, "%s", open->older);
    snprintf(c->control_namespace, SHA256_HEX, "%s", open->control_namespace);
    return OK;
}

static enum status bar(struct registry *r, struct change *change, const struct journal_case *c,
                       struct record *route, struct why *ret_why)
{
    (void)change_raise_epoch(change);
    record_set_text(route, "barred", c->candidate);
    record_set_text(route, "pinned", c->pinned);
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, route);
    return release_put_namespace(r, change, c->candidate_namespace, "draining", ret_why);
}

/* A blocked rollback goes on where it stopped. */
static enum status retry(struct registry *r, struct change *change, const struct journal_case *open,
                         struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_JOURNALS, open->journal, &row, ret_why));
    journal_put_state(change, open->journal, &row, "open", open->step);
    record_release(&row);
    return OK;
}

static enum status put_intent(struct registry *r, struct change *change,
                              const struct release_rollout *rollout, const char *reason,
                              const struct journal_case *open, struct why *ret_why)
{
    struct record route;
    struct journal_case c = {.kind = JOURNAL_ROLLBACK, .started_us = change_at_us(change)};
    snprintf(c.reason, sizeof c.reason, "%s", reason);
    take_rollout(rollout, &c);
    TRY(release_route(r, &route, ret_why));
    record_copy_text(&route, "control_namespace", c.control_namespace, SHA256_HEX);
    enum status s = check_way(&route, &c, ret_why);
    if (s == OK && open->journal[0] != '\0')
        s = preempt(r, change, open, &c, ret_why);
    if (s == OK)
        s = put_journal(r, change, &c, rollout->decision, ret_why);
    if (s == OK)
        s = bar(r, change, &c, &route, ret_why);
    record_release(&route);
    return s;
}

enum status journal_put_rollback(struct registry *registry, struct change *change,
                                 const struct release_rollout *rollout, const char *reason,
                                 struct why *ret_why)
{
    struct journal_case open;
    enum status s = journal_find_open(registry, &open, ret_why);
    if (s != OK && s != STATUS_NOT_FOUND)
        return s;
    if (s == OK && open.kind == JOURNAL_ROLLBACK) {
        if (open.is_blocked)
            return retry(registry, change, &open, ret_why);
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "journal",
                       "rollback %s is in progress, at step %d of %d", open.journal, open.step,
                       journal_step_count(JOURNAL_ROLLBACK));
    }
    return put_intent(registry, change, rollout, reason, &open, ret_why);
}
