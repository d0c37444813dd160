/* release_rules.c: the rules, one function for each kind of row.
 *
 * WHY     A rule that is checked where a decision is made is forgotten where the next one is made; here no
 *         write passes without it.
 * HOW     For each row that the change wrote, its table's rule; then the invariants over the whole. Reading
 *         is done through the registry, within the change's transaction, so it sees the new rows.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release_rules.h"

#include <inttypes.h>

#include "sched/agreement.h"
#include "sched/generation_id.h"
#include "sched/release_state.h"
#include "sched/judgement.h"

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
    const char *state = record_text(row, "state");
    return state != NULL ? state : "";
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
    const char *identity = record_text(generation, "identity");
    if (s == OK)
        s = agreement_check(receipts, identity != NULL ? identity : "", NULL, ret_why);
    const char *space = record_text(generation, "namespace");
    const char *found = record_text(&receipts[RECEIPT_CACHE], "namespace");
    if (s == OK && (space == NULL || found == NULL || strcmp(space, found) != 0))
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "namespace",
                    "the receipts are of namespace %.16s, the generation has %.16s: they are stale",
                    found != NULL ? found : "none", space != NULL ? space : "none");
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
    return s;
}

/* The receipt's gates all pass, or were declared not measurable before the run. */
static enum status check_evaluation(struct registry *r, const struct row *row, struct why *ret_why)
{
    struct record named = record_child(&row->after, "receipts"), receipt = {0};
    enum judgement verdict = JUDGEMENT_FAIL;
    TRY(release_rules_receipts(r, &row->after, ret_why));
    TRY(receipt_of(r, &named, "evaluation", &receipt, ret_why));
    const char *of = record_text(&receipt, "candidate");
    enum status s = OK;
    if (of == NULL || strcmp(of, row->key) != 0)
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "evaluation",
                    "the generation has no evaluation receipt of its own");
    if (s == OK)
        s = judgement_of(&receipt, &verdict, ret_why);
    if (s == OK && verdict != JUDGEMENT_PASS)
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "evaluation",
                    "the evaluation's verdict is %s", judgement_text(verdict));
    record_release(&receipt);
    return s;
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
        return release_rules_receipts(r, &row->after, ret_why);
    return OK;
}

/* Step k of a rollout stands on k - 1 judgements that pass; so does what follows its last step. */
static enum status check_judgements(struct registry *r, const struct row *row, int64_t needed,
                                    struct why *ret_why)
{
    if (record_list_count(&row->after, "judgements") < (size_t)needed)
        return refuse(ret_why, "judgements", "a step lacks its judgement", row->key);
    for (size_t i = 0; i < (size_t)needed; i++) {
        const char *hash = record_item_text(&row->after, "judgements", i);
        struct record receipt = {0};
        enum judgement verdict = JUDGEMENT_FAIL;
        int64_t step = 0;
        TRY(registry_get(r, REGISTRY_RECEIPTS, hash != NULL ? hash : "", &receipt, ret_why));
        const char *of = record_text(&receipt, "rollout");
        bool is_own = of != NULL && strcmp(of, row->key) == 0 &&
                      record_number(&receipt, "step", &step) && step == (int64_t)i + 1;
        enum status s = judgement_of(&receipt, &verdict, ret_why);
        record_release(&receipt);
        TRY(s);
        if (!is_own || verdict != JUDGEMENT_PASS)
            return refuse(ret_why, "judgements", "a step's judgement does not pass", row->key);
    }
    return OK;
}

static enum status check_rollout(struct registry *r, const struct row *row, struct why *ret_why)
{
    enum release_rollout_state from =
        release_rollout_state_find(record_text(&row->before, "state"));
    enum release_rollout_state to = release_rollout_state_find(record_text(&row->after, "state"));
    int64_t old_step = 0, step = 0;
    (void)record_number(&row->before, "step", &old_step);
    if (to == RELEASE_ROLLOUT_STATE_COUNT || !record_number(&row->after, "step", &step))
        return refuse(ret_why, "state", "a rollout without a state or a step", row->key);
    if (row->before.json == NULL)
        return to == RELEASE_ROLLOUT_AWAITING_APPROVAL && step == 0
                   ? OK
                   : refuse(ret_why, "state", "a rollout begins by awaiting approval", row->key);
    if (from != to && !release_rollout_may_move(from, to))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state", "rollout %s cannot go from %s to %s",
                       row->key, release_rollout_state_text(from), release_rollout_state_text(to));
    if (step != old_step && (step != old_step + 1 || to != RELEASE_ROLLOUT_STEP))
        return refuse(ret_why, "step", "a rollout's steps come one by one", row->key);
    if (to == RELEASE_ROLLOUT_STEP && step > 1)
        return check_judgements(r, row, step - 1, ret_why);
    if (to == RELEASE_ROLLOUT_PROMOTING)
        return check_judgements(r, row, step, ret_why);
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

/* What the invariants need to know of the journals. */
struct open_journals {
    int n_rollbacks, n_promotions;
    char candidate[SHA256_HEX];
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
    open->n_promotions += kind == JOURNAL_PROMOTION;
    if (kind == JOURNAL_ROLLBACK) {
        open->n_rollbacks++;
        snprintf(open->candidate, sizeof open->candidate, "%s", candidate);
        (void)record_number(body, "step", &open->step);
    }
    return OK;
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
    const char *key = record_text(&generation, "namespace");
    if (s == OK)
        s = registry_get(r, REGISTRY_NAMESPACES, key != NULL ? key : "", &space, ret_why);
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
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "journal", "a rollback is in progress");
    enum status s = registry_get(r, REGISTRY_ROUTES, "route", &route, ret_why);
    if (s == STATUS_NOT_FOUND)
        return open.n_rollbacks + open.n_promotions == 0
                   ? OK
                   : refuse(ret_why, "route", "a journal without a route", "");
    if (s == OK && open.n_rollbacks == 1)
        s = check_rollback(r, &open, &route, ret_why);
    else if (s == OK && record_has(&route, "barred"))
        s = refuse(ret_why, "route", "a generation is barred without an open rollback", "");
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
