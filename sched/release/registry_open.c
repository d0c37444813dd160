/* registry_open.c: opening, locking, checking and closing.
 *
 * WHY     Two daemons on one registry would each think they decide; a file that is damaged or not ours
 *         must be left exactly as it is.
 * HOW     The lock first, then the header by plain reading, then SQLite with its own check of the whole
 *         file, then the audit chain. Closing leaves the log as it is when something was wrong.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/release/audit.h"
#include "sched/release/registry_priv.h"

/* How long a change waits while a reader's check or copy holds the file. */
enum { BUSY_MS = 5000 };

static enum status take_lock(struct registry *r, const char *dir, struct why *ret_why)
{
    char path[REGISTRY_PATH_ROOM];
    if (snprintf(path, sizeof path, "%s/lock", dir) >= (int)sizeof path - 64)
        return why_set(ret_why, STATUS_BAD_OPTION, "state", "the path is too long: %.100s...", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return why_set(ret_why, STATUS_IO, "state", "%s cannot be made: %s", dir, strerror(errno));
    r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (r->lock_fd < 0)
        r->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->lock_fd < 0)
        return why_set(ret_why, STATUS_IO, "state", "%s cannot be opened: %s", path,
                       strerror(errno));
    if (flock(r->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return OK;
    return why_set(ret_why, errno == EWOULDBLOCK ? STATUS_UNAVAILABLE : STATUS_IO, "state",
                   errno == EWOULDBLOCK ? "%s is locked by another daemon" : "%s cannot be locked",
                   path);
}

static int on_log(void *user, sqlite3 *db, const char *name, int frames)
{
    (void)db, (void)name;
    ((struct registry *)user)->log_frames = frames;
    return SQLITE_OK;
}

/* The file's own consistency, as SQLite sees it. */
static enum status check_whole(struct registry *r, const char *path, struct why *ret_why)
{
    sqlite3_stmt *statement = NULL;
    struct why why = {0};
    enum status s =
        registry_prepare(r, "PRAGMA integrity_check(1)", NULL, NULL, NULL, &statement, &why);
    const char *found = NULL;
    if (s == OK && sqlite3_step(statement) == SQLITE_ROW)
        found = (const char *)sqlite3_column_text(statement, 0);
    else if (s == OK)
        s = registry_sql_failed(r, "checking the file", &why);
    if (s != OK &&
        (sqlite3_errcode(r->db) == SQLITE_CORRUPT || sqlite3_errcode(r->db) == SQLITE_NOTADB))
        s = why_set(ret_why, STATUS_BAD_FILE, "state", "%s is corrupt: %s", path,
                    sqlite3_errmsg(r->db));
    else if (s != OK)
        why_set(ret_why, s, "state", "%s: %s", path, why.text);
    else if (found == NULL || strcmp(found, "ok") != 0)
        s = why_set(ret_why, STATUS_BAD_FILE, "state", "%s is corrupt: %s", path,
                    found != NULL ? found : "unreadable");
    sqlite3_finalize(statement);
    return s;
}

static enum status open_file(struct registry *r, const char *path, struct why *ret_why)
{
    int flags = r->is_reader ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    if (sqlite3_open_v2(path, &r->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return registry_sql_failed(r, "opening the registry", ret_why);
    sqlite3_busy_timeout(r->db, BUSY_MS);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    TRY(registry_exec(r, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", ret_why));
    TRY(check_whole(r, path, ret_why));
    if (!r->is_reader)
        TRY(registry_exec(
            r, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0",
            ret_why));
    sqlite3_wal_hook(r->db, on_log, r);
    return OK;
}

static enum status open_durable(struct registry *r, const char *dir, struct why *ret_why)
{
    char path[REGISTRY_PATH_ROOM + 32], log[sizeof path + 8];
    snprintf(path, sizeof path, "%s/" REGISTRY_FILE, dir);
    if (!r->is_reader)
        TRY(take_lock(r, dir, ret_why));
    enum status s = registry_check_header(path, ret_why);
    if (s == STATUS_NOT_FOUND && !r->is_reader) {
        TRY(registry_create(dir, ret_why));
        s = OK;
    }
    TRY(s);
    snprintf(log, sizeof log, "%s-wal", path);
    bool has_log = access(log, F_OK) == 0;
    s = open_file(r, path, ret_why);
    if (s == OK)
        s = audit_check_chain(r, ret_why);
    /* A log that was not there before goes with the close; one that was is left alone when the file is refused. */
    if (!r->is_reader && (s == OK || !has_log))
        sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return s;
}

static enum status open_memory(struct registry *r, struct why *ret_why)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(":memory:", &r->db, flags, NULL) != SQLITE_OK)
        return registry_sql_failed(r, "opening the registry", ret_why);
    return registry_create_tables(r, ret_why);
}

static enum status open_any(const char *dir, bool is_reader, struct registry **ret_registry,
                            struct why *ret_why)
{
    TRY(registry_start_sqlite(ret_why));
    struct registry *r = mem_zalloc(1, sizeof *r);
    if (r == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for the registry");
    r->lock_fd = -1;
    r->is_durable = dir != NULL;
    r->is_reader = is_reader;
    enum status s = dir != NULL ? open_durable(r, dir, ret_why) : open_memory(r, ret_why);
    if (s != OK)
        registry_close(&r);
    *ret_registry = r;
    return s;
}

enum status registry_open(const char *dir, struct registry **ret_registry, struct why *ret_why)
{
    return open_any(dir, false, ret_registry, ret_why);
}

enum status registry_open_reader(const char *dir, struct registry **ret_registry,
                                 struct why *ret_why)
{
    ASSERT(dir != NULL);
    return open_any(dir, true, ret_registry, ret_why);
}

void registry_close(struct registry **registry)
{
    struct registry *r = *registry;
    if (r == NULL)
        return;
    if (r->is_lost) /* what is in the log is decided by whoever opens it next, not by this close */
        sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(r->db);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    mem_free(r);
    *registry = NULL;
}
