/* journal_step.c: carries a journal out, step by step.
 *
 * WHY     After a crash at any instruction the journal must go on at the first step without a receipt, and doing
 *         that step again must be harmless.
 * HOW     A step is: rows that must stand before it (a change of their own, skipped when they stand), the effect
 *         in memory, and one change with its receipt and the rows that follow from it. Pinning also holds the
 *         previous release's four receipts against each other, now: what was true when it was published may
 *         not be true any more.
 * ALWAYS  (1) No effect of step k + 1 before the receipt of step k is durable.           make_step
 *         (2) Steps are never undone.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/journal_priv.h"

#include "sched/release/release.h"
#include "sched/release/release_rules.h"

static const char *const who = "foldkv";

static const char *kind_word(const struct journal_case *c)
{
    return c->kind == JOURNAL_ROLLBACK ? "rollback" : "promotion";
}

static enum status begin(struct registry *r, const struct journal_case *c, const char *verb,
                         int64_t at_us, struct change **ret_change, struct why *ret_why)
{
    char what[64];
    const struct change_terms terms = {.who = who, .at_us = at_us, .epoch_expected = EPOCH_ANY};
    snprintf(what, sizeof what, "%s.%s", kind_word(c), verb);
    return change_begin(r, &terms, what, ret_change, ret_why);
}

static enum status settle(struct change **change, enum status s, struct why *ret_why)
{
    if (s == OK)
        return change_commit(change, ret_why);
    change_abort(change);
    return s;
}

/* ROLLBACK_BLOCKED: the journal waits for a person, the rollout says why. */
static enum status block(struct registry *r, const struct journal_case *c, const char *reason,
                         int64_t at_us, struct why *ret_why)
{
    struct change *change;
    struct record row;
    TRY(registry_get(r, REGISTRY_JOURNALS, c->journal, &row, ret_why));
    enum status s = begin(r, c, "blocked", at_us, &change, ret_why);
    if (s == OK) {
        record_set_text(&row, "blocked_reason", reason);
        journal_put_state(change, c->journal, &row, "blocked", c->step);
        s = settle(&change,
                   journal_put_event(r, change, c, EVENT_ROLLBACK_BLOCKED, reason, ret_why),
                   ret_why);
    }
    record_release(&row);
    return s;
}

static enum status put_before(struct registry *r, const struct journal_case *c,
                              enum journal_step step, int64_t at_us, struct why *ret_why)
{
    struct change *change;
    bool is_needed = false;
    TRY(journal_put_before(r, NULL, c, step, &is_needed, ret_why));
    if (!is_needed)
        return OK;
    TRY(begin(r, c, step == STEP_SWITCH_ROUTE ? "switch" : "fence", at_us, &change, ret_why));
    return settle(&change, journal_put_before(r, change, c, step, &is_needed, ret_why), ret_why);
}

/* The receipts that a rolled-back generation leaves: all that its row names. */
static enum status add_retained(struct registry *r, const struct journal_case *c,
                                struct record *evidence, struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS, c->candidate, &row, ret_why));
    struct record named = record_child(&row, "receipts");
    record_set_record(evidence, "retained", &named);
    record_release(&row);
    return OK;
}

/* The registry's own part of a step's effect. */
static enum status own_effect(struct registry *r, const struct journal_case *c,
                              enum journal_step step, struct record *evidence, struct why *ret_why)
{
    if (step == STEP_RETAIN_FAILED_RECEIPTS_FOR_AUDIT)
        return add_retained(r, c, evidence, ret_why);
    if (step != STEP_PIN_PREVIOUS_ACTIVE_RELEASE && step != STEP_PIN_CANDIDATE_RELEASE)
        return OK;
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS,
                     step == STEP_PIN_CANDIDATE_RELEASE ? c->candidate : c->pinned, &row, ret_why));
    enum status s = release_rules_receipts(r, &row, ret_why);
    struct record named = record_child(&row, "receipts");
    record_set_record(evidence, "receipts", &named);
    record_release(&row);
    return s;
}

static enum status put_receipt(struct registry *r, const struct journal_case *c,
                               enum journal_step step, int64_t at_us, const struct record *evidence,
                               struct why *ret_why)
{
    struct change *change;
    struct record row;
    int number = c->step + 1;
    bool is_last = number == journal_step_count(c->kind);
    TRY(registry_get(r, REGISTRY_JOURNALS, c->journal, &row, ret_why));
    enum status s = begin(r, c, is_last ? "complete" : "step", at_us, &change, ret_why);
    if (s == OK) {
        journal_put_step(change, c->journal, step, number, c->candidate, at_us, evidence);
        journal_put_state(change, c->journal, &row, is_last ? "complete" : "open", number);
        s = settle(&change, journal_put_rows(r, change, c, step, ret_why), ret_why);
    }
    record_release(&row);
    return s;
}

static enum effect_outcome apply(const struct journal_effects *effects,
                                 const struct journal_case *c, enum journal_step step,
                                 int64_t at_us, struct record *evidence, struct why *ret_why)
{
    journal_effect_fn *effect = effects->apply[step];
    return effect != NULL ? effect(effects->user, c, at_us, evidence, ret_why) : EFFECT_DONE;
}

/* A release that cannot be verified blocks a rollback; a promotion pauses there until it is rolled back. */
static enum status pin_failed(struct registry *r, const struct journal_case *c, int64_t at_us,
                              enum journal_progress *ret_progress, struct why *ret_why)
{
    struct why reason = *ret_why;
    *ret_progress = JOURNAL_BLOCKED;
    if (c->kind == JOURNAL_PROMOTION)
        return OK;
    TRY(block(r, c, reason.text, at_us, ret_why));
    why_set(ret_why, STATUS_ROLLBACK_BLOCKED, "journal", "the rollback is blocked: %s",
            reason.text);
    return OK;
}

static enum status make_step(struct registry *r, const struct journal_effects *effects,
                             const struct journal_case *c, int64_t at_us,
                             enum journal_progress *ret_progress, struct why *ret_why)
{
    enum journal_step step = journal_step_at(c->kind, c->step + 1);
    bool is_pin = step == STEP_PIN_PREVIOUS_ACTIVE_RELEASE || step == STEP_PIN_CANDIDATE_RELEASE;
    struct record evidence;
    TRY(put_before(r, c, step, at_us, ret_why));
    record_init(&evidence);
    enum status s = own_effect(r, c, step, &evidence, ret_why);
    enum effect_outcome outcome = EFFECT_FAILED;
    if (s == OK)
        outcome = apply(effects, c, step, at_us, &evidence, ret_why);
    if (is_pin && (s == STATUS_RECEIPTS_DISAGREE || s == STATUS_NOT_FOUND ||
                   (s == OK && outcome == EFFECT_FAILED)))
        s = pin_failed(r, c, at_us, ret_progress, ret_why);
    else if (s == OK && outcome != EFFECT_DONE)
        *ret_progress = JOURNAL_PENDING;
    else if (s == OK)
        s = put_receipt(r, c, step, at_us, &evidence, ret_why);
    record_release(&evidence);
    return s;
}

enum status journal_advance(struct registry *registry, const struct journal_effects *effects,
                            int64_t at_us, enum journal_progress *ret_progress, struct why *ret_why)
{
    for (;;) {
        struct journal_case c;
        enum status s = journal_find_open(registry, &c, ret_why);
        *ret_progress = JOURNAL_NONE;
        if (s == STATUS_NOT_FOUND)
            return OK;
        TRY(s);
        if (c.is_blocked) {
            *ret_progress = JOURNAL_BLOCKED;
            return OK;
        }
        TRY(make_step(registry, effects, &c, at_us, ret_progress, ret_why));
        if (*ret_progress != JOURNAL_NONE)
            return OK;
    }
}
