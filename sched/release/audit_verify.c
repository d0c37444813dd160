/* audit_verify.c: replays the audit.
 *
 * WHY     A log that nobody can check is a story. Here each decision is made once more from what it stood on.
 * HOW     The same rules judge the replayed entry that judged the change; the registry that results is compared
 *         with the one that is there, row by row, both ways.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/audit_verify.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/release/audit.h"
#include "sched/release/registry_priv.h"
#include "sched/release/release_rules.h"

struct replay {
    struct registry *source, *copy;
    struct audit_report *report;
};

static bool table_of(const char *row, enum registry_table *ret_table, const char **ret_key)
{
    size_t len = strcspn(row, "/");
    for (int t = 0; t < REGISTRY_TABLE_COUNT; t++) {
        const char *name = registry_table_name((enum registry_table)t);
        if (strlen(name) == len && memcmp(name, row, len) == 0 && row[len] == '/') {
            *ret_table = (enum registry_table)t;
            *ret_key = row + len + 1;
            return true;
        }
    }
    return false;
}

static enum status put(struct registry *copy, enum registry_table table, const char *key,
                       const struct record *body, struct why *ret_why)
{
    char *text = record_print(body);
    if (text == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "audit", "no memory to replay");
    enum status s = registry_put(copy, table, key, text, ret_why);
    mem_free(text);
    return s;
}

static enum status take_receipts(struct replay *p, const struct record *entry, struct why *ret_why)
{
    for (size_t i = 0; i < record_list_count(entry, "receipts"); i++) {
        char hash[SHA256_HEX];
        struct record receipt;
        const char *key = record_item_text(entry, "receipts", i);
        TRY(registry_get(p->source, REGISTRY_RECEIPTS, key != NULL ? key : "", &receipt, ret_why));
        enum status s = record_hash(&receipt, hash);
        if (s == OK && strcmp(hash, key) != 0)
            s = why_set(ret_why, STATUS_BAD_FILE, "audit",
                        "receipt %.12s has the hash %.12s: it was altered", key, hash);
        if (s == OK)
            s = put(p->copy, REGISTRY_RECEIPTS, key, &receipt, ret_why);
        record_release(&receipt);
        TRY(s);
    }
    return OK;
}

static enum status take_rows(struct replay *p, const struct record *before,
                             const struct record *after, struct why *ret_why)
{
    for (const char *name = NULL; (name = record_next_key(after, name)) != NULL;) {
        enum registry_table table;
        const char *key;
        struct record now = {0}, was = record_child(before, name), body = record_child(after, name);
        if (!table_of(name, &table, &key) || body.json == NULL)
            return why_set(ret_why, STATUS_BAD_FILE, "audit", "'%.80s' is no row", name);
        enum status s = registry_get(p->copy, table, key, &now, ret_why);
        bool is_same = (s == OK || s == STATUS_NOT_FOUND) && record_is_equal(&now, &was);
        record_release(&now);
        if (!is_same)
            return why_set(ret_why, STATUS_BAD_FILE, "audit", "%.100s was not as the entry says",
                           name);
        TRY(put(p->copy, table, key, &body, ret_why));
    }
    return OK;
}

static enum status replay_entry(struct replay *p, const struct record *entry, const char *what,
                                struct why *ret_why)
{
    int64_t epoch = 0, said = -1;
    struct record before = record_child(entry, "before"), after = record_child(entry, "after");
    TRY(take_receipts(p, entry, ret_why));
    TRY(take_rows(p, &before, &after, ret_why));
    const struct release_move move = {.what = what, .before = &before, .after = &after};
    TRY(release_rules_check(p->copy, &move, ret_why));
    TRY(registry_epoch(p->copy, &epoch, ret_why));
    (void)record_number(entry, "epoch", &said);
    if (said != epoch)
        return why_set(ret_why, STATUS_BAD_FILE, "audit",
                       "it is of epoch %" PRId64 ", not %" PRId64, epoch, said);
    p->report->epoch = epoch;
    return OK;
}

static enum status on_entry(void *user, const struct audit_entry *row, struct why *ret_why)
{
    struct replay *p = user;
    struct record entry;
    struct why why = {0};
    enum status s = record_read(row->text, row->len, &entry, &why);
    const char *what = s == OK ? record_text(&entry, "what") : NULL,
               *who = s == OK ? record_text(&entry, "who") : NULL;
    if (s == OK)
        s = what != NULL && who != NULL
                ? replay_entry(p, &entry, what, &why)
                : why_set(&why, STATUS_BAD_FILE, "audit", "it does not say who did what");
    if (s == STATUS_NO_MEMORY)
        why_set(ret_why, s, "audit", "no memory to replay the audit");
    else if (s != OK)
        s = why_set(ret_why, STATUS_BAD_FILE, "audit",
                    "audit entry %" PRId64 " (%.40s by %.40s): %s", row->seq,
                    what != NULL ? what : "?", who != NULL ? who : "?", why.text);
    record_release(&entry);
    p->report->n_entries = row->seq;
    snprintf(p->report->head, sizeof p->report->head, "%s", row->hash);
    return s;
}

/* Two registries and a table, compared row by row. */
struct comparison {
    struct registry *other;
    enum registry_table table;
    bool is_source; /* the rows walked are the source's */
    int64_t n;
};

static enum status compare(void *user, const char *key, const struct record *body,
                           struct why *ret_why)
{
    struct comparison *c = user;
    struct record other = {0};
    enum status s = registry_get(c->other, c->table, key, &other, ret_why);
    bool is_same = s == OK && record_is_equal(body, &other);
    record_release(&other);
    c->n++;
    if (is_same)
        return OK;
    if (s == STATUS_NOT_FOUND && c->is_source)
        return why_set(ret_why, STATUS_BAD_FILE, "audit", "%s/%.64s is in no audit entry",
                       registry_table_name(c->table), key);
    if (s == STATUS_NOT_FOUND || s == OK)
        return why_set(ret_why, STATUS_BAD_FILE, "audit", "%s/%.64s is not as the audit left it",
                       registry_table_name(c->table), key);
    return s;
}

static enum status compare_tables(struct replay *p, struct why *ret_why)
{
    for (int t = 0; t < REGISTRY_TABLE_COUNT; t++) {
        if (t == REGISTRY_ANSWERS)
            continue;
        struct comparison there = {
            .other = p->copy, .table = (enum registry_table)t, .is_source = true};
        struct comparison back = {.other = p->source, .table = (enum registry_table)t};
        TRY(registry_each(p->source, there.table, compare, &there, ret_why));
        TRY(registry_each(p->copy, back.table, compare, &back, ret_why));
        if (t == REGISTRY_RECEIPTS)
            p->report->n_receipts = there.n;
        else
            p->report->n_rows += there.n;
    }
    return OK;
}

/* One moment of the source: a daemon may write while a reader verifies. */
static enum status verify(struct replay *p, struct why *ret_why)
{
    TRY(registry_exec(p->source, "BEGIN", ret_why));
    enum status s = audit_check_chain(p->source, ret_why);
    if (s == OK)
        s = registry_exec(p->copy, "BEGIN", ret_why);
    if (s == OK)
        s = audit_each(p->source, 0, INT64_MAX, on_entry, p, ret_why);
    if (s == OK)
        s = compare_tables(p, ret_why);
    sqlite3_exec(p->source->db, "ROLLBACK", NULL, NULL, NULL);
    return s;
}

enum status audit_verify(struct registry *registry, struct audit_report *ret_report,
                         struct why *ret_why)
{
    struct replay p = {.source = registry, .report = ret_report};
    *ret_report = (struct audit_report){0};
    TRY(registry_open(NULL, &p.copy, ret_why));
    enum status s = verify(&p, ret_why);
    registry_close(&p.copy);
    return s;
}
