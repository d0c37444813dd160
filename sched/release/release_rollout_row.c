/* release_rollout_row.c: rows of rollouts, read and moved.
 *
 * HOW     "now" holds what the machine remembers, in the words that a decision's receipt uses, so that the two can be
 *         compared as they stand. A move is rollout_apply, its receipt, and the row that names it.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_rollout.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/judge/rollout_receipt.h"

/* ---- reading ---- */

static bool take_u64(const struct record *now, const char *key, uint64_t *ret_number)
{
    int64_t number;
    if (!record_number(now, key, &number) || number < 0)
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

static bool read_now(const struct record *now, uint32_t n_steps, struct rollout *ret_now)
{
    uint64_t step;
    *ret_now = (struct rollout){.state = rollout_state_find(record_text(now, "state")),
                                .reason = rollout_reason_find(record_text(now, "reason")),
                                .gate = gate_find(record_text(now, "gate")),
                                .has_served = record_flag(now, "has_served")};
    if (!take_u64(now, "started_ms", &ret_now->started_ms) || !take_u64(now, "step", &step) ||
        step >= n_steps)
        return false;
    ret_now->step = (uint32_t)step;
    return ret_now->state != ROLLOUT_STATE_COUNT && ret_now->reason != REASON_COUNT &&
           ret_now->gate != GATE_COUNT;
}

static enum status read_plan(struct registry *r, const char *hash, struct rollout_plan *ret_plan,
                             struct why *ret_why)
{
    struct record plan;
    TRY(registry_get(r, REGISTRY_RECEIPTS, hash, &plan, ret_why));
    char *text = record_print(&plan);
    record_release(&plan);
    if (text == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "plan", "no memory for a plan");
    enum status s = rollout_plan_parse((struct slice){text, strlen(text)}, ret_plan, ret_why);
    mem_free(text);
    return s == OK || s == STATUS_NO_MEMORY ? s : STATUS_BAD_FILE;
}

enum status release_rollout_parse(struct registry *registry, const char *key,
                                  const struct record *row, struct release_rollout *ret_rollout,
                                  struct why *ret_why)
{
    struct release_rollout *ro = ret_rollout;
    struct record now = record_child(row, "now");
    memset(ro, 0, sizeof *ro);
    snprintf(ro->key, sizeof ro->key, "%s", key);
    record_copy_text(row, "candidate", ro->candidate, sizeof ro->candidate);
    record_copy_text(row, "baseline", ro->baseline, sizeof ro->baseline);
    record_copy_text(row, "plan", ro->plan_hash, sizeof ro->plan_hash);
    record_copy_text(row, "note", ro->note, sizeof ro->note);
    ro->n_decisions = record_list_count(row, "decisions");
    const char *last =
        ro->n_decisions > 0 ? record_item_text(row, "decisions", ro->n_decisions - 1) : NULL;
    snprintf(ro->decision, sizeof ro->decision, "%s", last != NULL ? last : "");
    (void)record_number(row, "started_us", &ro->started_us);
    TRY(read_plan(registry, ro->plan_hash, &ro->plan, ret_why));
    if (!read_now(&now, ro->plan.n_steps, &ro->now))
        return why_set(ret_why, STATUS_BAD_FILE, "now", "rollout %.64s does not say how it stands",
                       key);
    return OK;
}

enum status release_rollout_read(struct registry *registry, const char *key,
                                 struct release_rollout *ret_rollout, struct why *ret_why)
{
    struct record row;
    enum status s = registry_get(registry, REGISTRY_ROLLOUTS, key, &row, ret_why);
    if (s == STATUS_NOT_FOUND)
        return why_set(ret_why, s, "rollout", "there is no rollout '%.64s': foldkv rollout list shows those that there are", key);
    TRY(s);
    s = release_rollout_parse(registry, key, &row, ret_rollout, ret_why);
    record_release(&row);
    return s;
}

/* ---- finding ---- */

/* The last rollout that fits. */
struct search {
    const char *promoted; /* a candidate's id; NULL: any that is not over */
    char key[REGISTRY_KEY_ROOM];
};

static enum status see(void *user, const char *key, const struct record *body, struct why *ret_why)
{
    struct search *search = user;
    struct record now = record_child(body, "now");
    enum rollout_state state = rollout_state_find(record_text(&now, "state"));
    const char *candidate = record_text(body, "candidate");
    (void)ret_why;
    bool fits = search->promoted != NULL ? state == ROLLOUT_PROMOTED && candidate != NULL &&
                                               strcmp(candidate, search->promoted) == 0
                                         : state != ROLLOUT_STATE_COUNT && !rollout_is_over(state);
    if (fits)
        snprintf(search->key, sizeof search->key, "%s", key);
    return OK;
}

static enum status find(struct registry *r, struct search *search, const char *none,
                        struct release_rollout *ret_rollout, struct why *ret_why)
{
    TRY(registry_each(r, REGISTRY_ROLLOUTS, see, search, ret_why));
    if (search->key[0] == '\0')
        return why_set(ret_why, STATUS_NOT_FOUND, "rollout", "%s", none);
    return release_rollout_read(r, search->key, ret_rollout, ret_why);
}

enum status release_rollout_find_active(struct registry *registry,
                                        struct release_rollout *ret_rollout, struct why *ret_why)
{
    struct search search = {.promoted = NULL};
    return find(registry, &search, "there is no rollout under way: foldkv rollout start CANDIDATE begins one", ret_rollout, ret_why);
}

enum status release_rollout_find_promoted(struct registry *registry, const char *stable,
                                          struct release_rollout *ret_rollout, struct why *ret_why)
{
    struct search search = {.promoted = stable};
    return find(registry, &search, "no rollout promoted the stable generation", ret_rollout,
                ret_why);
}

/* ---- moving ---- */

static void set_now(struct record *row, const struct rollout *now)
{
    struct record r;
    record_init(&r);
    record_set_text(&r, "gate", gate_rows[now->gate].key);
    record_set_flag(&r, "has_served", now->has_served);
    record_set_text(&r, "reason", rollout_reason_name(now->reason));
    record_set_number(&r, "started_ms", (int64_t)now->started_ms);
    record_set_text(&r, "state", rollout_state_name(now->state));
    record_set_number(&r, "step", now->step);
    record_set_record(row, "now", &r);
    record_release(&r);
}

/* The row as it is, or, before its first decision, as it begins. */
static enum status row_of(struct registry *r, const struct release_rollout *ro,
                          struct record *ret_row, struct why *ret_why)
{
    if (ro->n_decisions > 0)
        return registry_get(r, REGISTRY_ROLLOUTS, ro->key, ret_row, ret_why);
    record_init(ret_row);
    record_set_text(ret_row, "baseline", ro->baseline);
    record_set_text(ret_row, "candidate", ro->candidate);
    record_set_text(ret_row, "plan", ro->plan_hash);
    record_set_number(ret_row, "started_us", ro->started_us);
    return OK;
}

static enum status keep_receipt(struct change *change, const struct release_rollout *before,
                                const struct rollout_event *event, const struct rollout *next,
                                const struct rollout_decision *decision, char ret_hash[SHA256_HEX],
                                struct why *ret_why)
{
    char *text;
    struct record receipt = {0};
    enum status s =
        rollout_receipt_write(&before->now, &before->plan, event, next, decision, &text, NULL);
    if (s != OK)
        return why_set(ret_why, s, "receipt", "no memory for a decision's receipt");
    s = record_read(text, strlen(text), &receipt, ret_why);
    mem_free(text);
    if (s == OK)
        change_receipt(change, &receipt, ret_hash);
    record_release(&receipt);
    return s;
}

static bool is_by_gate(const struct rollout *now)
{
    return now->reason == REASON_GATE_FAILED || now->reason == REASON_NO_DATA ||
           now->reason == REASON_INCONCLUSIVE;
}

void release_rollout_say(const struct release_rollout *rollout,
                         const struct rollout_decision *decision, char ret_text[ROLLOUT_NOTE_ROOM])
{
    const struct rollout *now = &rollout->now;
    bool has_gate = is_by_gate(now);
    if (has_gate && decision->is_judged)
        snprintf(ret_text, ROLLOUT_NOTE_ROOM, "gate %s: %s (%.100s)", gate_rows[now->gate].key,
                 rollout_reason_name(now->reason), decision->judgements[now->gate].text);
    else if (has_gate)
        snprintf(ret_text, ROLLOUT_NOTE_ROOM, "gate %s: %s", gate_rows[now->gate].key,
                 rollout_reason_name(now->reason));
    else
        snprintf(ret_text, ROLLOUT_NOTE_ROOM, "%s",
                 rollout->note[0] != '\0' ? rollout->note : rollout_reason_name(now->reason));
}

/* What a person said, or, where a gate decided, its figures. */
static void set_note(struct release_rollout *rollout, const struct rollout_decision *decision,
                     const char *note)
{
    snprintf(rollout->note, sizeof rollout->note, "%s", note != NULL ? note : "");
    if (note == NULL && is_by_gate(&rollout->now) && decision->is_judged)
        release_rollout_say(rollout, decision, rollout->note);
}

enum status release_rollout_put(struct registry *registry, struct change *change,
                                struct release_rollout *rollout, const struct rollout_event *event,
                                const char *note, struct rollout_decision *ret_decision,
                                struct why *ret_why)
{
    struct rollout next;
    struct record row = {0};
    char hash[SHA256_HEX];
    if (note != NULL && strlen(note) >= ROLLOUT_NOTE_ROOM)
        return why_set(ret_why, STATUS_BAD_REQUEST, "note", "the note has %zu bytes: at most %d",
                       strlen(note), ROLLOUT_NOTE_ROOM - 1);
    TRY(rollout_apply(&rollout->now, &rollout->plan, event, &next, ret_decision, ret_why));
    if (ret_decision->action == ACTION_NONE)
        return OK;
    TRY(keep_receipt(change, rollout, event, &next, ret_decision, hash, ret_why));
    TRY(row_of(registry, rollout, &row, ret_why));
    rollout->now = next;
    set_note(rollout, ret_decision, note);
    record_add_text(&row, "decisions", hash);
    record_set_text(&row, "note", rollout->note[0] != '\0' ? rollout->note : NULL);
    set_now(&row, &next);
    change_put(change, REGISTRY_ROLLOUTS, rollout->key, &row);
    change_subject(change, rollout->key);
    record_release(&row);
    rollout->n_decisions++;
    memcpy(rollout->decision, hash, sizeof hash);
    return OK;
}
