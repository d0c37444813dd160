/* change.c: begins, collects, judges and commits.
 *
 * WHY     The audit must say of every mutation who did what, and what was there before and after; and
 *         nobody should have to remember to write it.
 * HOW     Rows are written only here, so before and after fall out of the writing. The entry is
 *         appended in the same transaction; replaying all entries gives the tables again.
 * ALWAYS  (1) A row of a derived table and its audit entry are durable together or not at all.
 *         (2) A change that breaks a rule of the release is never committed.     release_rules_check
 * OWNS    The open transaction, from change_begin to change_commit or change_abort.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/change.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/release/audit.h"
#include "sched/release/registry_priv.h"
#include "sched/release/release_rules.h"

enum { WHAT_ROOM = 64, ROW_ROOM = REGISTRY_KEY_ROOM + 32 };

struct change {
    struct registry *registry;
    struct change_terms terms;
    char what[WHAT_ROOM], subject[REGISTRY_KEY_ROOM];
    struct record before, after; /* "table/key": the row, or null */
    struct record receipts;      /* one list, "receipts" */
    int64_t epoch;
    enum status status; /* the first failure of a put */
    struct why why;
};

static enum status compare_epoch(const struct change_terms *terms, int64_t epoch,
                                 struct why *ret_why)
{
    if (terms->epoch_expected == EPOCH_ANY || terms->epoch_expected == epoch)
        return OK;
    return why_set(ret_why, STATUS_EPOCH_MISMATCH, "If-Match",
                   "the release epoch is %" PRId64 ", the request expects %" PRId64, epoch,
                   terms->epoch_expected);
}

enum status change_check_epoch(struct registry *registry, const struct change_terms *terms,
                               struct why *ret_why)
{
    int64_t epoch;
    TRY(registry_epoch(registry, &epoch, ret_why));
    return compare_epoch(terms, epoch, ret_why);
}

static enum status may_begin(struct registry *r, const struct change_terms *terms,
                             int64_t *ret_epoch, struct why *ret_why)
{
    if (r->is_reader)
        return why_set(ret_why, STATUS_READ_ONLY, "registry",
                       "the registry was opened for reading");
    if (r->is_lost || r->is_shut)
        return why_set(ret_why, STATUS_READ_ONLY, "registry", "%s", r->fault.text);
    if (r->is_changing)
        return why_set(ret_why, STATUS_INTERNAL, "registry", "a change is already open");
    TRY(registry_exec(r, "BEGIN IMMEDIATE", ret_why));
    enum status s = registry_epoch(r, ret_epoch, ret_why);
    if (s == OK)
        s = compare_epoch(terms, *ret_epoch, ret_why);
    if (s != OK)
        sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
    return s;
}

enum status change_begin(struct registry *registry, const struct change_terms *terms,
                         const char *what, struct change **ret_change, struct why *ret_why)
{
    int64_t epoch = 0;
    *ret_change = NULL;
    struct change *c = mem_zalloc(1, sizeof *c);
    if (c == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for a change");
    enum status s = may_begin(registry, terms, &epoch, ret_why);
    if (s != OK) {
        mem_free(c);
        return s;
    }
    *c = (struct change){.registry = registry, .terms = *terms, .epoch = epoch};
    snprintf(c->what, sizeof c->what, "%s", what);
    record_init(&c->before);
    record_init(&c->after);
    record_init(&c->receipts);
    registry->is_changing = true;
    *ret_change = c;
    return OK;
}

/* Keeps the first failure. */
static void note(struct change *c, enum status s)
{
    if (c->status == OK)
        c->status = s;
}

static void put_text(struct change *c, enum registry_table table, const char *key,
                     const struct record *body)
{
    char *text = record_print(body);
    if (text == NULL)
        note(c, why_set(&c->why, STATUS_BAD_REQUEST, registry_table_name(table),
                        "a row of %s has no canonical form, or no memory is left",
                        registry_table_name(table)));
    else
        note(c, registry_put(c->registry, table, key, text, &c->why));
    mem_free(text);
}

void change_put(struct change *change, enum registry_table table, const char *key,
                const struct record *body)
{
    struct change *c = change;
    struct record old = {0};
    char row[ROW_ROOM];
    if (c->status != OK)
        return;
    snprintf(row, sizeof row, "%s/%s", registry_table_name(table), key);
    if (!record_has(&c->after, row)) { /* the first time in this change */
        enum status s = registry_get(c->registry, table, key, &old, &c->why);
        if (s != OK && s != STATUS_NOT_FOUND)
            note(c, s);
        record_set_record(&c->before, row, &old);
        record_release(&old);
    }
    record_set_record(&c->after, row, body);
    put_text(c, table, key, body);
}

void change_receipt(struct change *change, const struct record *receipt, char ret_hash[SHA256_HEX])
{
    struct record old = {0};
    ret_hash[0] = '\0';
    if (change->status != OK)
        return;
    if (record_hash(receipt, ret_hash) != OK) {
        note(change, why_set(&change->why, STATUS_BAD_REQUEST, "receipt",
                             "a receipt has no canonical form, or no memory is left"));
        return;
    }
    enum status s = registry_get(change->registry, REGISTRY_RECEIPTS, ret_hash, &old, &change->why);
    if (s == STATUS_NOT_FOUND)
        put_text(change, REGISTRY_RECEIPTS, ret_hash, receipt);
    else
        note(change, s);
    record_release(&old);
    record_add_text(&change->receipts, "receipts", ret_hash);
}

void change_subject(struct change *change, const char *key)
{
    snprintf(change->subject, sizeof change->subject, "%s", key);
}

static void put_answer(struct change *c)
{
    struct record row;
    if (c->terms.answer_key == NULL)
        return;
    record_init(&row);
    record_set_number(&row, "at_us", c->terms.at_us);
    record_set_number(&row, "epoch", c->epoch);
    record_set_text(&row, "payload", c->terms.answer_payload);
    record_set_text(&row, "subject", c->subject);
    record_set_text(&row, "what", c->what);
    put_text(c, REGISTRY_ANSWERS, c->terms.answer_key, &row);
    record_release(&row);
}

int64_t change_raise_epoch(struct change *change)
{
    char key[REGISTRY_KEY_ROOM];
    struct record row;
    change->epoch++;
    registry_number_key(change->epoch, key);
    record_init(&row);
    record_set_text(&row, "what", change->what);
    change_put(change, REGISTRY_EPOCHS, key, &row);
    record_release(&row);
    return change->epoch;
}

int64_t change_at_us(const struct change *change)
{
    return change->terms.at_us;
}

static enum status append_audit(struct change *c, struct why *ret_why)
{
    struct record entry;
    record_init(&entry);
    record_set_record(&entry, "after", &c->after);
    record_set_number(&entry, "at_us", c->terms.at_us);
    record_set_record(&entry, "before", &c->before);
    record_set_number(&entry, "epoch", c->epoch);
    if (c->terms.note != NULL)
        record_set_text(&entry, "note", c->terms.note);
    for (size_t i = 0; i < record_list_count(&c->receipts, "receipts"); i++)
        record_add_text(&entry, "receipts", record_item_text(&c->receipts, "receipts", i));
    record_set_text(&entry, "what", c->what);
    record_set_text(&entry, "who", c->terms.who);
    enum status s = audit_append(c->registry, &entry, ret_why);
    record_release(&entry);
    return s;
}

static void end(struct change **change)
{
    struct change *c = *change;
    c->registry->is_changing = false;
    record_release(&c->before);
    record_release(&c->after);
    record_release(&c->receipts);
    mem_free(c);
    *change = NULL;
}

enum status change_commit(struct change **change, struct why *ret_why)
{
    struct change *c = *change;
    struct registry *r = c->registry;
    put_answer(c);
    enum status s = c->status;
    if (s != OK)
        why_set(ret_why, s, c->why.field, "%s", c->why.text);
    const struct release_move move = {.what = c->what, .before = &c->before, .after = &c->after};
    if (s == OK && (c->before.is_failed || c->after.is_failed))
        s = why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for a change");
    if (s == OK)
        s = release_rules_check(r, &move, ret_why);
    if (s == OK)
        s = append_audit(c, ret_why);
    if (s == OK && !c->terms.is_dry_run) {
        s = registry_exec(r, "COMMIT", ret_why);
        if (s == OK)
            r->is_full = false;
    }
    if (s != OK || c->terms.is_dry_run)
        sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL); /* where there is still one to end */
    end(change);
    return s;
}

void change_abort(struct change **change)
{
    if (*change == NULL)
        return;
    sqlite3_exec((*change)->registry->db, "ROLLBACK", NULL, NULL, NULL);
    end(change);
}
