/* registry_open.c: opening, locking, checking and closing.
 *
 * WHY     Two daemons on one registry would each think they decide; a file that is damaged or not ours
 *         must be left exactly as it is.
 * HOW     The lock first, then the header by plain reading, then SQLite with its own check of the whole
 *         file, then the audit chain, then, after a crash, a row that says nothing, whose commit shows whether
 *         the disk takes writes. If it does not, the same checks over a connection that writes nothing at all, neither a log
 *         nor SQLite's shared index of it. Closing leaves the log as it is when something was wrong.
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

static void close_file(struct registry *r)
{
    sqlite3_close(r->db);
    r->db = NULL;
}

/* first: a statement before the file is looked at; NULL: none. */
static enum status set_up(struct registry *r, const char *first, struct why *ret_why)
{
    sqlite3_busy_timeout(r->db, BUSY_MS);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (first != NULL)
        TRY(registry_exec(r, first, ret_why));
    TRY(registry_exec(r, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", ret_why));
    TRY(check_whole(r, r->path, ret_why));
    return audit_check_chain(r, ret_why);
}

static enum status open_reader(struct registry *r, struct why *ret_why)
{
    if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return registry_sql_failed(r, "opening the registry", ret_why);
    return set_up(r, NULL, ret_why);
}

/* What the system says before SQLite is asked, which would open a read-only file as such in silence. */
static enum status check_access(struct registry *r, const char *path, struct why *ret_why)
{
    if (access(path, W_OK) == 0)
        return OK;
    r->may_mend = registry_may_mend(errno);
    why_set(&r->fault, STATUS_READ_ONLY, "registry", "the registry takes no writes: %.200s: %s",
            path, strerror(errno));
    return why_set(ret_why, STATUS_READ_ONLY, "registry", "%s", r->fault.text);
}

/* What a connection that could write nothing has made beside the file. */
static void clear_log(struct registry *r, const char *log)
{
    char index[sizeof r->path + 8];
    struct stat about;
    snprintf(index, sizeof index, "%s-shm", r->path);
    close_file(r);
    if (stat(log, &about) == 0 && about.st_size == 0 && unlink(log) == 0)
        unlink(index);
}

/* READ_ONLY: nothing can be written there, and registry_fault's text is set. */
static enum status open_writer(struct registry *r, struct why *ret_why)
{
    char log[sizeof r->path + 8];
    snprintf(log, sizeof log, "%s-wal", r->path);
    bool has_log = access(log, F_OK) == 0;
    TRY(check_access(r, r->path, ret_why));
    if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return registry_sql_failed(r, "opening the registry", ret_why);
    enum status s = set_up(r, NULL, ret_why);
    if (s == OK)
        s = registry_exec(
            r, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0",
            ret_why);
    if (s == OK) {
        sqlite3_wal_hook(r->db, on_log, r);
        if (has_log) /* else the disk has just given room for its index */
            s = registry_prove(r, ret_why);
    }
    /* A log that was not there before goes with the close; one that was is left alone when the file is refused. */
    if (s == OK || !has_log)
        sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    if (s == STATUS_READ_ONLY && !has_log)
        clear_log(r, log);
    return s;
}

/* A file: URI of a path; only what means the same in both stays as it is. */
static void print_uri(const char *path, const char *parameters, size_t room, char *ret_uri)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = (size_t)snprintf(ret_uri, room, "file:");
    for (const char *p = path; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        c == '/' || c == '.' || c == '-' || c == '_';
        if (is_plain)
            ret_uri[n++] = (char)c;
        else
            n += (size_t)snprintf(ret_uri + n, room - n, "%%%c%c", hex[c >> 4], hex[c & 15]);
    }
    snprintf(ret_uri + n, room - n, "%s", parameters);
}

/* Without a byte written: SQLite's index of the log is kept in memory, and it takes no locks of its own. DIR's lock holds
 * other daemons off; a reader comes here only where no daemon could have made the index. */
static enum status open_shut(struct registry *r, struct why *ret_why)
{
    char log[sizeof r->path + 8], uri[3 * sizeof r->path + 32];
    struct stat about;
    snprintf(log, sizeof log, "%s-wal", r->path);
    r->is_lost = r->is_full = false;
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    bool has_log = stat(log, &about) == 0 && about.st_size > 0;
    print_uri(r->path, "?immutable=1", sizeof uri, uri);
    int rc = has_log ? sqlite3_open_v2(r->path, &r->db, flags, "unix-none")
                     : sqlite3_open_v2(uri, &r->db, flags | SQLITE_OPEN_URI, NULL);
    if (rc != SQLITE_OK)
        return registry_sql_failed(r, "opening the registry for reading", ret_why);
    TRY(set_up(r, has_log ? "PRAGMA locking_mode=EXCLUSIVE" : NULL, ret_why));
    r->is_shut = true;
    return OK;
}

void registry_unshut(struct registry *registry)
{
    struct registry *r = registry, before = *r;
    struct why unheard;
    ASSERT(r->is_shut);
    r->db = NULL;
    r->is_shut = false;
    if (open_writer(r, &unheard) == OK) {
        sqlite3_close(before.db);
    } else {
        close_file(r);
        *r = before;
    }
}

static enum status open_durable(struct registry *r, const char *dir, struct why *ret_why)
{
    snprintf(r->path, sizeof r->path, "%s/" REGISTRY_FILE, dir);
    if (!r->is_reader)
        TRY(take_lock(r, dir, ret_why));
    enum status s = registry_check_header(r->path, ret_why);
    if (s == STATUS_NOT_FOUND && !r->is_reader) {
        TRY(registry_create(dir, ret_why));
        s = OK;
    }
    TRY(s);
    s = r->is_reader ? open_reader(r, ret_why) : open_writer(r, ret_why);
    if (s != STATUS_READ_ONLY)
        return s;
    const struct why fault = r->fault;
    bool may_mend = r->may_mend;
    close_file(r);
    TRY(open_shut(r, ret_why));
    r->fault = fault;
    r->is_lost = !may_mend; /* as after any sync that failed */
    return OK;
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
