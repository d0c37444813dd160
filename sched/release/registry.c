/* registry.c: rows in, rows out, and what SQLite's failures mean to us.
 *
 * WHY     One place decides which failures of the disk end all writing.
 * HOW     A statement is prepared where it is used: a change writes a handful of rows and then waits
 *         for the disk, so nothing is gained by keeping statements.
 * ALWAYS  (1) After a failed sync nothing is written: what the kernel holds of the file is unknown
 *             then, and a second sync that succeeds would prove nothing.        registry_sql_failed
 * THREAD  registry
 * NOT     Opening (registry_open.c), making (registry_create.c), writing as a transaction (change.c).
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "config/mem.h"
#include "sched/release/registry_priv.h"

/* Frames of the log from which moving them is worth a pause; about 4 KiB each. */
enum { LOG_FRAMES_WORTH = 256 };

static const char *const table_names[REGISTRY_TABLE_COUNT] = {
#define TABLE(name, text, is_derived) [REGISTRY_##name] = (text),
#include "sched/release/registry_table.def"
#undef TABLE
};

const char *registry_table_name(enum registry_table table)
{
    return table_names[table];
}

bool registry_is_durable(const struct registry *registry)
{
    return registry->is_durable;
}

const char *registry_fault(const struct registry *registry)
{
    bool takes_none = registry->is_lost || registry->is_full || registry->is_shut;
    return takes_none ? registry->fault.text : NULL;
}

void registry_number_key(int64_t number, char ret_key[REGISTRY_KEY_ROOM])
{
    snprintf(ret_key, REGISTRY_KEY_ROOM, "%012" PRId64, number);
}

bool registry_may_mend(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS ||
           error == EACCES || error == EPERM;
}

enum status registry_sql_failed(struct registry *registry, const char *doing, struct why *ret_why)
{
    int code = sqlite3_extended_errcode(registry->db);
    const char *text = sqlite3_errmsg(registry->db);
    int system = sqlite3_system_errno(registry->db);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory while %s", doing);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return why_set(ret_why, STATUS_UNAVAILABLE, "registry", "the registry is busy while %s",
                       doing);
    case SQLITE_FULL:
        registry->is_full = registry->may_mend = true;
        break;
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        if (code == SQLITE_IOERR_NOMEM)
            return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory while %s", doing);
        registry->is_lost = true;
        registry->may_mend = registry_may_mend(system);
        break;
    default:
        return why_set(ret_why, STATUS_INTERNAL, "registry", "%s while %s (%d)", text, doing, code);
    }
    why_set(&registry->fault, STATUS_READ_ONLY, "registry",
            "the registry takes no writes: %s%s%s (code %d) while %s", text,
            system != 0 ? ", " : "", system != 0 ? strerror(system) : "", code, doing);
    return why_set(ret_why, STATUS_READ_ONLY, "registry", "%s", registry->fault.text);
}

enum status registry_exec(struct registry *registry, const char *sql, struct why *ret_why)
{
    if (sqlite3_exec(registry->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return registry_sql_failed(registry, sql, ret_why);
    return OK;
}

enum status registry_prepare(struct registry *registry, const char *sql, const char *first,
                             const char *second, const char *third, sqlite3_stmt **ret_statement,
                             struct why *ret_why)
{
    const char *const texts[] = {first, second, third};
    int rc = sqlite3_prepare_v2(registry->db, sql, -1, ret_statement, NULL);
    for (int i = 0; rc == SQLITE_OK && i < (int)ARRAY_LEN(texts); i++)
        if (texts[i] != NULL)
            rc = sqlite3_bind_text(*ret_statement, i + 1, texts[i], -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        return OK;
    enum status s = registry_sql_failed(registry, sql, ret_why);
    sqlite3_finalize(*ret_statement);
    *ret_statement = NULL;
    return s;
}

static enum status body_of(sqlite3_stmt *statement, int column, enum registry_table table,
                           const char *key, struct record *ret_body, struct why *ret_why)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    struct why why = {0};
    if (text == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for a row");
    enum status s =
        record_read(text, (size_t)sqlite3_column_bytes(statement, column), ret_body, &why);
    return s == OK
               ? OK
               : why_set(ret_why, s, "registry", "%s/%s: %s", table_names[table], key, why.text);
}

enum status registry_get(struct registry *registry, enum registry_table table, const char *key,
                         struct record *ret_body, struct why *ret_why)
{
    char sql[96];
    sqlite3_stmt *statement = NULL;
    *ret_body = (struct record){0};
    snprintf(sql, sizeof sql, "SELECT body FROM %s WHERE key = ?1", table_names[table]);
    TRY(registry_prepare(registry, sql, key, NULL, NULL, &statement, ret_why));
    int rc = sqlite3_step(statement);
    enum status s = OK;
    if (rc == SQLITE_ROW)
        s = body_of(statement, 0, table, key, ret_body, ret_why);
    else if (rc == SQLITE_DONE)
        s = why_set(ret_why, STATUS_NOT_FOUND, "registry", "there is no %s/%.100s",
                    table_names[table], key);
    else
        s = registry_sql_failed(registry, "reading a row", ret_why);
    sqlite3_finalize(statement);
    return s;
}

enum status registry_each(struct registry *registry, enum registry_table table,
                          registry_row_fn *on_row, void *user, struct why *ret_why)
{
    char sql[96];
    sqlite3_stmt *statement = NULL;
    enum status s = OK;
    int rc;
    snprintf(sql, sizeof sql, "SELECT key, body FROM %s ORDER BY key", table_names[table]);
    TRY(registry_prepare(registry, sql, NULL, NULL, NULL, &statement, ret_why));
    while (s == OK && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        const char *key = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        struct record body = {0};
        s = key != NULL ? body_of(statement, 1, table, key, &body, ret_why)
                        : registry_sql_failed(registry, "reading rows", ret_why);
        if (s == OK)
            s = on_row(user, key, &body, ret_why);
        record_release(&body);
    }
    sqlite3_finalize(statement);
    return s;
}

enum status registry_last_key(struct registry *registry, enum registry_table table,
                              char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    char sql[96];
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql, "SELECT max(key) FROM %s", table_names[table]);
    TRY(registry_prepare(registry, sql, NULL, NULL, NULL, &statement, ret_why));
    enum status s = OK;
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        snprintf(ret_key, REGISTRY_KEY_ROOM, "%s", key != NULL ? key : "");
    } else {
        s = registry_sql_failed(registry, "reading the last row", ret_why);
    }
    sqlite3_finalize(statement);
    return s;
}

enum status registry_epoch(struct registry *registry, int64_t *ret_epoch, struct why *ret_why)
{
    char key[REGISTRY_KEY_ROOM];
    TRY(registry_last_key(registry, REGISTRY_EPOCHS, key, ret_why));
    *ret_epoch = (int64_t)strtoll(key, NULL, 10);
    return OK;
}

enum status registry_run(struct registry *registry, const char *sql, const char *first,
                         const char *second, const char *third, const char *doing,
                         struct why *ret_why)
{
    sqlite3_stmt *statement = NULL;
    TRY(registry_prepare(registry, sql, first, second, third, &statement, ret_why));
    enum status s =
        sqlite3_step(statement) == SQLITE_DONE ? OK : registry_sql_failed(registry, doing, ret_why);
    sqlite3_finalize(statement);
    return s;
}

enum status registry_put(struct registry *registry, enum registry_table table, const char *key,
                         const char *body, struct why *ret_why)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "INSERT INTO %s(key, body) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET body = ?2",
             table_names[table]);
    return registry_run(registry, sql, key, body, NULL, "writing a row", ret_why);
}

enum status registry_prove(struct registry *registry, struct why *ret_why)
{
    char body[48];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* SQLite writes nothing where a row is already as it shall be */
    snprintf(body, sizeof body, "{\"at_us\":%" PRId64 "}",
             (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000);
    TRY(registry_exec(registry, "BEGIN IMMEDIATE", ret_why));
    enum status s = registry_put(registry, REGISTRY_ANSWERS, "probe", body, ret_why);
    if (s == OK)
        s = registry_exec(registry, "COMMIT", ret_why);
    if (s != OK)
        sqlite3_exec(registry->db, "ROLLBACK", NULL, NULL, NULL);
    return s;
}

void registry_probe(struct registry *registry)
{
    struct why unheard;
    if (registry->is_lost)
        return;
    if (registry->is_shut)
        registry_unshut(registry);
    else if (registry->is_full && registry_prove(registry, &unheard) == OK)
        registry->is_full = false;
}

enum status registry_checkpoint(struct registry *registry, struct why *ret_why)
{
    int frames = 0;
    if (!registry->is_durable || registry->is_reader || registry->is_lost ||
        registry->log_frames < LOG_FRAMES_WORTH)
        return OK;
    registry->log_frames = 0;
    int rc =
        sqlite3_wal_checkpoint_v2(registry->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, NULL);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY)
        return registry_sql_failed(registry, "moving the log into the file", ret_why);
    return OK;
}
