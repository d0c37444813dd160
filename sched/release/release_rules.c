/* release_rules.c: the rules, one function for each kind of row.
 *
 * WHY     A rule that is checked where a decision is made is forgotten where the next one is made; here no
 *         write passes without it.
 * HOW     For each row that the change wrote, its table's rule; then the invariants over the whole. Reading
 *         is done through the registry, within the change's transaction, so it sees the new rows.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_rules.h"

#include <inttypes.h>

#include "sched/release/agreement.h"
#include "sched/release/generation_id.h"
#include "sched/release/release_evidence.h"
#include "sched/release/release_state.h"

/* One row of a change. */
struct row {
    const char *key;
    struct record before, after;
};

static enum status refuse(struct why *ret_why, const char *field, const char *text, const char *key)
{
    return why_set(ret_why, STATUS_ILLEGAL_MOVE, field, "%s (%.16s)", text, key);
}

static const char *state_of(const struct record *row)
{
    return record_text_or_empty(row, "state");
}

/* A receipt that a row names under a key; without json if it names none. */
static enum status receipt_of(struct registry *r, const struct record *row, const char *key,
                              struct record *ret_receipt, struct why *ret_why)
{
    const char *hash = record_text(row, key);
    *ret_receipt = (struct record){0};
    return hash == NULL ? OK : registry_get(r, REGISTRY_RECEIPTS, hash, ret_receipt, ret_why);
}

enum status release_rules_receipts(struct registry *registry, const struct record *generation,
                                   struct why *ret_why)
{
    struct record receipts[AGREEMENT_RECEIPTS] = {0};
    struct record named = record_child(generation, "receipts");
    enum status s = OK;
    for (int i = 0; s == OK && i < AGREEMENT_RECEIPTS; i++)
        s = receipt_of(registry, &named, agreement_receipt_text((enum agreement_receipt)i),
                       &receipts[i], ret_why);
    if (s == OK)
        s = agreement_check(receipts, record_text_or_empty(generation, "identity"), ret_why);
    const char *space = record_text(generation, "namespace");
    const char *found = record_text(&receipts[RECEIPT_CACHE], "namespace");
    if (s == OK && (space == NULL || found == NULL || strcmp(space, found) != 0)) {
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "namespace",
                    "the receipts are of namespace %.16s, the generation has %.16s: they are stale",
                    found != NULL ? found : "none", space != NULL ? space : "none");
        why_add_both(ret_why, "cache", found, "generation", space);
    }
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
    return s;
}

static enum status check_evaluation(struct registry *r, const struct row *row, struct why *ret_why)
{
    TRY(release_rules_receipts(r, &row->after, ret_why));
    return release_evidence_evaluation(r, &row->after, ret_why);
}

static enum status check_warming(struct registry *r, const struct row *row, struct why *ret_why)
{
    struct record named = record_child(&row->after, "receipts"), receipt = {0};
    TRY(receipt_of(r, &named, "warming", &receipt, ret_why));
    const char *space = record_text(&receipt, "namespace"),
               *own = record_text(&row->after, "namespace");
    int64_t shared = -1;
    bool ok = space != NULL && own != NULL && strcmp(space, own) == 0 &&
              record_number(&receipt, "shared_pages", &shared) && shared == 0;
    record_release(&receipt);
    if (ok)
        return OK;
    return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "warming",
                   "no warming receipt says that namespace %.16s was warmed without a shared page",
                   own != NULL ? own : "none");
}

static enum status check_generation(struct registry *r, const struct row *row, struct why *ret_why)
{
    enum generation_state from = generation_state_find(record_text(&row->before, "state"));
    enum generation_state to = generation_state_find(record_text(&row->after, "state"));
    if (!generation_id_is_hash(row->key) || to == GENERATION_STATE_COUNT)
        return refuse(ret_why, "state", "a generation without an id or a state", row->key);
    if (row->before.json == NULL && to != GENERATION_REGISTERED && to != GENERATION_STABLE)
        return refuse(ret_why, "state", "a generation begins as registered", row->key);
    if (row->before.json != NULL && from != to && !generation_may_move(from, to))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "generation %.16s cannot go from %s to %s", row->key,
                       generation_state_text(from), generation_state_text(to));
    if (row->before.json != NULL && from == to)
        return OK;
    if (to == GENERATION_EVALUATED)
        return check_evaluation(r, row, ret_why);
    if (to == GENERATION_WARMED)
        return check_warming(r, row, ret_why);
    if (to == GENERATION_CANARY || to == GENERATION_STABLE)
        TRY(release_rules_receipts(r, &row->after, ret_why));
    if (to == GENERATION_CANARY)
        return release_evidence_current(r, &row->after, ret_why);
    return OK;
}

/* What the invariants need to know of the journals. */
struct open_journals {
    int n_rollbacks, n_promotions;
    bool is_blocked;
    char candidate[SHA256_HEX];
    char rollout[REGISTRY_KEY_ROOM]; /* of either */
    int64_t step;
};

static enum status see_journal(void *user, const char *key, const struct record *body,
                               struct why *ret_why)
{
    struct open_journals *open = user;
    enum journal_kind kind;
    (void)key;
    const char *state = state_of(body), *candidate = record_text(body, "candidate");
    if (strcmp(state, "open") != 0 && strcmp(state, "blocked") != 0)
        return OK;
    if (!journal_kind_find(record_text(body, "kind"), &kind) || candidate == NULL)
        return refuse(ret_why, "journal", "a journal without a kind or a candidate", key);
    record_copy_text(body, "rollout", open->rollout, sizeof open->rollout);
    open->is_blocked = strcmp(state, "blocked") == 0;
    open->n_promotions += kind == JOURNAL_PROMOTION;
    if (kind == JOURNAL_ROLLBACK) {
        open->n_rollbacks++;
        snprintf(open->candidate, sizeof open->candidate, "%s", candidate);
        (void)record_number(body, "step", &open->step);
    }
    return OK;
}

/* What is carried out by a journal is so only while that is open. */
static enum status check_rollout(struct registry *r, const struct row *row, struct why *ret_why)
{
    struct release_rollout ro;
    struct open_journals open = {0};
    TRY(release_evidence_decision(r, row->key, &row->before, &row->after, &ro, ret_why));
    TRY(registry_each(r, REGISTRY_JOURNALS, see_journal, &open, ret_why));
    bool needs = ro.now.state == ROLLOUT_ROLLING_BACK || ro.now.state == ROLLOUT_BLOCKED ||
                 ro.now.state == ROLLOUT_PROMOTING;
    if (needs != (strcmp(open.rollout, row->key) == 0))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "rollout %s is %s, and its journal %s", row->key,
                       rollout_state_name(ro.now.state), needs ? "is not open" : "is open");
    return OK;
}

static enum status check_namespace(const struct row *row, struct why *ret_why)
{
    const char *from = state_of(&row->before), *to = state_of(&row->after);
    if (row->before.json == NULL)
        return strcmp(to, "open") == 0
                   ? OK
                   : refuse(ret_why, "state", "a namespace begins as open", row->key);
    if (strcmp(from, to) != 0 && !namespace_may_move(from, to))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "namespace %.16s cannot go from %s to %s", row->key, from, to);
    return OK;
}

/* The step's receipt is there and is of this journal and this step. */
static enum status check_step_receipt(struct registry *r, const char *journal,
                                      enum journal_kind kind, int64_t step, struct why *ret_why)
{
    char key[REGISTRY_KEY_ROOM];
    struct record row = {0}, receipt = {0};
    const char *name = journal_step_text(journal_step_at(kind, (int)step));
    snprintf(key, sizeof key, "%.80s.%02" PRId64, journal, step);
    TRY(registry_get(r, REGISTRY_JOURNAL_STEPS, key, &row, ret_why));
    enum status s = receipt_of(r, &row, "receipt", &receipt, ret_why);
    const char *of = record_text(&receipt, "journal"), *said = record_text(&receipt, "step");
    if (s == OK &&
        (of == NULL || said == NULL || strcmp(of, journal) != 0 || strcmp(said, name) != 0))
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "journal",
                    "step %s of journal %s has no receipt", name, journal);
    record_release(&row);
    record_release(&receipt);
    return s;
}

static enum status check_journal(struct registry *r, const struct row *row, struct why *ret_why)
{
    enum journal_kind kind;
    int64_t old_step = 0, step = 0;
    (void)record_number(&row->before, "step", &old_step);
    if (!journal_kind_find(record_text(&row->after, "kind"), &kind) ||
        !record_number(&row->after, "step", &step) || step < old_step || step > old_step + 1 ||
        step > journal_step_count(kind))
        return refuse(ret_why, "journal", "a journal's steps come one by one", row->key);
    if (row->before.json != NULL && strcmp(state_of(&row->before), "open") != 0 &&
        strcmp(state_of(&row->before), "blocked") != 0)
        return refuse(ret_why, "journal", "a journal that is over does not change", row->key);
    if (row->before.json == NULL && step != (kind == JOURNAL_ROLLBACK ? 1 : 0))
        return refuse(ret_why, "journal", "a rollback begins with the receipt of its first step",
                      row->key);
    bool is_complete = strcmp(state_of(&row->after), "complete") == 0;
    if (is_complete != (step == journal_step_count(kind)))
        return refuse(ret_why, "journal", "a journal is complete with its last step", row->key);
    return step > old_step ? check_step_receipt(r, row->key, kind, step, ret_why) : OK;
}

static enum status check_epoch(struct registry *r, const struct row *row, struct why *ret_why)
{
    char key[REGISTRY_KEY_ROOM];
    struct record before = {0};
    int64_t epoch = (int64_t)strtoll(row->key, NULL, 10);
    registry_number_key(epoch, key);
    if (row->before.json != NULL || epoch < 1 || strcmp(key, row->key) != 0)
        return refuse(ret_why, "epoch", "an epoch is written once", row->key);
    if (epoch == 1)
        return OK;
    registry_number_key(epoch - 1, key);
    enum status s = registry_get(r, REGISTRY_EPOCHS, key, &before, ret_why);
    record_release(&before);
    return s == STATUS_NOT_FOUND ? refuse(ret_why, "epoch", "an epoch was left out", row->key) : s;
}

static enum status check_row(struct registry *r, const char *name, const struct row *row,
                             struct why *ret_why)
{
    size_t len = strcspn(name, "/");
#define IS(table)                                                                                  \
    (len == strlen(registry_table_name(table)) &&                                                  \
     memcmp(name, registry_table_name(table), len) == 0)
    if (IS(REGISTRY_GENERATIONS))
        return check_generation(r, row, ret_why);
    if (IS(REGISTRY_ROLLOUTS))
        return check_rollout(r, row, ret_why);
    if (IS(REGISTRY_NAMESPACES))
        return check_namespace(row, ret_why);
    if (IS(REGISTRY_JOURNALS))
        return check_journal(r, row, ret_why);
    if (IS(REGISTRY_EPOCHS))
        return check_epoch(r, row, ret_why);
    return OK;
#undef IS
}

static bool names(const struct record *row, const char *key, const char *id)
{
    const char *text = record_text(row, key);
    return text != NULL && strcmp(text, id) == 0;
}

/* Rule 4 over the rows of an open rollback. */
static enum status check_rollback(struct registry *r, const struct open_journals *open,
                                  const struct record *route, struct why *ret_why)
{
    struct record generation = {0}, space = {0};
    if (!names(route, "barred", open->candidate))
        return refuse(ret_why, "route", "the candidate of an open rollback is not barred",
                      open->candidate);
    enum status s = registry_get(r, REGISTRY_GENERATIONS, open->candidate, &generation, ret_why);
    if (s == OK)
        s = registry_get(r, REGISTRY_NAMESPACES, record_text_or_empty(&generation, "namespace"),
                         &space, ret_why);
    bool is_fenced =
        strcmp(state_of(&space), "fenced") == 0 || strcmp(state_of(&space), "freed") == 0;
    bool is_routed =
        names(route, "stable", open->candidate) || names(route, "candidate", open->candidate);
    if (s == OK && !is_fenced && (!is_routed || open->step >= 4))
        s = refuse(ret_why, "route",
                   "the previous route is restored before the candidate is fenced",
                   open->candidate);
    if (s == OK && is_routed && open->step >= 5)
        s = refuse(ret_why, "route", "the previous route is not restored", open->candidate);
    record_release(&generation);
    record_release(&space);
    return s;
}

/* Rule 5: the rollout of the open journal. */
static enum status check_carried_out(struct registry *r, const struct open_journals *open,
                                     struct why *ret_why)
{
    struct record row;
    if (open->n_rollbacks + open->n_promotions == 0)
        return OK;
    enum rollout_state needed = open->n_promotions > 0 ? ROLLOUT_PROMOTING
                                : open->is_blocked     ? ROLLOUT_BLOCKED
                                                       : ROLLOUT_ROLLING_BACK;
    TRY(registry_get(r, REGISTRY_ROLLOUTS, open->rollout, &row, ret_why));
    struct record now = record_child(&row, "now");
    bool is = rollout_state_find(record_text(&now, "state")) == needed;
    record_release(&row);
    return is ? OK
              : why_set(ret_why, STATUS_ILLEGAL_MOVE, "journal",
                        "the rollout of the open journal is not %s", rollout_state_name(needed));
}

/* Rule 6, where the candidate is in the route. */
static enum status check_weight(struct registry *r, const struct record *route, struct why *ret_why)
{
    struct release_rollout ro;
    int64_t weight = 0;
    const char *key = record_text(route, "rollout");
    if (key == NULL || !record_has(route, "candidate"))
        return OK;
    (void)record_number(route, "weight_bp", &weight);
    TRY(release_rollout_read(r, key, &ro, ret_why));
    uint32_t right = rollout_weight_bp(&ro.now, &ro.plan);
    if (right == 0 || weight == right) /* 0: barred, which is checked elsewhere */
        return OK;
    return why_set(ret_why, STATUS_ILLEGAL_MOVE, "weight_bp",
                   "the route's weight is %" PRId64 ", that of rollout %s is %" PRIu32, weight, key,
                   right);
}

static enum status check_whole(struct registry *r, const struct release_move *move,
                               struct why *ret_why)
{
    struct open_journals open = {0};
    struct record route = {0};
    TRY(registry_each(r, REGISTRY_JOURNALS, see_journal, &open, ret_why));
    if (open.n_rollbacks + open.n_promotions > 1)
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "journal", "a %s is in progress",
                       open.n_rollbacks > 0 ? "rollback" : "promotion");
    if (open.n_rollbacks == 1 && record_has(move->after, "routes/route") &&
        strncmp(move->what, "rollback.", 9) != 0)
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "journal",
                       "a rollback is in progress");
    TRY(check_carried_out(r, &open, ret_why));
    enum status s = registry_get(r, REGISTRY_ROUTES, "route", &route, ret_why);
    if (s == STATUS_NOT_FOUND)
        return open.n_rollbacks + open.n_promotions == 0
                   ? OK
                   : refuse(ret_why, "route", "a journal without a route", "");
    if (s == OK && open.n_rollbacks == 1)
        s = check_rollback(r, &open, &route, ret_why);
    else if (s == OK && record_has(&route, "barred"))
        s = refuse(ret_why, "route", "a generation is barred without an open rollback", "");
    if (s == OK)
        s = check_weight(r, &route, ret_why);
    record_release(&route);
    return s;
}

enum status release_rules_check(struct registry *registry, const struct release_move *move,
                                struct why *ret_why)
{
    for (const char *name = NULL; (name = record_next_key(move->after, name)) != NULL;) {
        const char *slash = strchr(name, '/');
        if (slash == NULL)
            return refuse(ret_why, "audit", "a change names no row", name);
        struct row row = {.key = slash + 1,
                          .before = record_child(move->before, name),
                          .after = record_child(move->after, name)};
        TRY(check_row(registry, name, &row, ret_why));
    }
    return check_whole(registry, move, ret_why);
}
