/* registry_create.c: a new registry's file, and what an existing one's first bytes say.
 *
 * WHY     A crash while the file is made must not leave something that is neither there nor not; and
 *         a file that is not ours is refused before anything could change it.
 * HOW     The tables are made under another name in one transaction, which is synced; then the file
 *         gets its name and the folder is synced. So a file of that name always has its version in
 *         its header, whatever lies in the write-ahead log. It is in WAL mode before it gets its name: a
 *         rollback journal beside it, whose deletion a power loss may undo, could be played back into it
 *         later.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdalign.h>
#include <unistd.h>

#include "config/mem.h"

/* Offsets in the header of a SQLite file. */
enum { HEADER_BYTES = 100, VERSION_AT = 60, APPLICATION_AT = 68 };

/* ---- SQLite's memory is ours: each block carries its size before it ---- */

enum { SIZE_ROOM = alignof(max_align_t) };

static void *sqlite_alloc(int bytes)
{
    char *block = mem_alloc((size_t)bytes + SIZE_ROOM);
    if (block == NULL)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + SIZE_ROOM;
}

static void sqlite_free(void *p)
{
    if (p != NULL)
        mem_free((char *)p - SIZE_ROOM);
}

static int sqlite_size(void *p)
{
    int bytes = 0;
    if (p != NULL)
        memcpy(&bytes, (char *)p - SIZE_ROOM, sizeof bytes);
    return bytes;
}

static void *sqlite_realloc(void *p, int bytes)
{
    char *block = mem_realloc((char *)p - SIZE_ROOM, (size_t)bytes + SIZE_ROOM);
    if (block == NULL)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + SIZE_ROOM;
}

static int sqlite_round(int bytes)
{
    return (bytes + 7) & ~7;
}

static int sqlite_memory_init(void *user)
{
    (void)user;
    return SQLITE_OK;
}

static void sqlite_memory_end(void *user)
{
    (void)user;
}

static pthread_once_t sqlite_once = PTHREAD_ONCE_INIT;
static int sqlite_configured;

static void start_sqlite(void)
{
    static const sqlite3_mem_methods methods = {sqlite_alloc,      sqlite_free,  sqlite_realloc,
                                                sqlite_size,       sqlite_round, sqlite_memory_init,
                                                sqlite_memory_end, NULL};
    sqlite_configured = sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

enum status registry_start_sqlite(struct why *ret_why)
{
    pthread_once(&sqlite_once, start_sqlite);
    int rc = sqlite_configured != SQLITE_OK ? sqlite_configured : sqlite3_initialize();
    if (rc == SQLITE_OK)
        return OK;
    return why_set(ret_why, rc == SQLITE_NOMEM ? STATUS_NO_MEMORY : STATUS_INTERNAL, "registry",
                   "SQLite does not start: %s", sqlite3_errstr(rc));
}

/* ---- the file ---- */

enum status registry_create_tables(struct registry *registry, struct why *ret_why)
{
    char version[96];
    snprintf(version, sizeof version, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             REGISTRY_APPLICATION_ID, REGISTRY_SCHEMA);
    TRY(registry_exec(registry, "BEGIN IMMEDIATE", ret_why));
#define TABLE(name, text, is_derived)                                                              \
    TRY(registry_exec(registry,                                                                    \
                      "CREATE TABLE " text                                                         \
                      "(key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT, WITHOUT ROWID", \
                      ret_why));
#include "sched/release/registry_table.def"
#undef TABLE
    TRY(registry_exec(registry,
                      "CREATE TABLE audit(seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, "
                      "body TEXT NOT NULL) STRICT",
                      ret_why));
    TRY(registry_exec(registry, version, ret_why));
    return registry_exec(registry, "COMMIT", ret_why);
}

static enum status create_at(const char *path, struct why *ret_why)
{
    struct registry making = {.lock_fd = -1};
    enum status s = OK;
    if (sqlite3_open_v2(path, &making.db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        s = registry_sql_failed(&making, "making the registry", ret_why);
    if (s == OK)
        s = registry_exec(&making, "PRAGMA synchronous=EXTRA", ret_why);
    if (s == OK)
        s = registry_create_tables(&making, ret_why);
    if (s == OK) /* under this name too: see the essay */
        s = registry_exec(&making, "PRAGMA journal_mode=WAL", ret_why);
    sqlite3_close(making.db);
    return s;
}

static enum status sync_folder(const char *dir, struct why *ret_why)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (ok)
        return OK;
    return why_set(ret_why, STATUS_IO, "state", "%s cannot be synced: %s", dir, strerror(error));
}

/* What making a registry uses beside its file. */
static void clear_making(const char *making)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
    char path[REGISTRY_PATH_ROOM + 32];
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        snprintf(path, sizeof path, "%s%s", making, suffixes[i]);
        unlink(path);
    }
}

enum status registry_create(const char *dir, struct why *ret_why)
{
    char path[REGISTRY_PATH_ROOM], making[REGISTRY_PATH_ROOM + 16];
    snprintf(path, sizeof path, "%s/" REGISTRY_FILE, dir);
    snprintf(making, sizeof making, "%s.new", path);
    if (access(dir, W_OK) != 0)
        return why_set(ret_why, STATUS_IO, "state", "no registry can be made in %s: %s", dir,
                       strerror(errno));
    clear_making(making); /* what a crash while making it left */
    enum status s = create_at(making, ret_why);
    if (s == OK && rename(making, path) != 0)
        s = why_set(ret_why, STATUS_IO, "state", "%s cannot be named: %s", path, strerror(errno));
    clear_making(making);
    return s == OK ? sync_folder(dir, ret_why) : s;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

enum status registry_check_header(const char *path, struct why *ret_why)
{
    unsigned char header[HEADER_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, header, sizeof header) : -1;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return why_set(ret_why, error == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "state",
                       "%s cannot be read: %s", path, strerror(error));
    if (n < HEADER_BYTES || memcmp(header, "SQLite format 3", 16) != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "state", "%s is corrupt: it is no SQLite file",
                       path);
    if (big_endian(header + APPLICATION_AT) != REGISTRY_APPLICATION_ID)
        return why_set(ret_why, STATUS_BAD_FILE, "state", "%s is another program's database", path);
    uint32_t version = big_endian(header + VERSION_AT);
    if (version != REGISTRY_SCHEMA)
        return why_set(ret_why, STATUS_BAD_FILE, "state",
                       "%s has schema %u and was written by a %s foldkv; this one reads schema %d",
                       path, version, version > REGISTRY_SCHEMA ? "newer" : "different",
                       REGISTRY_SCHEMA);
    return OK;
}
