/* registry_priv.h: the registry's inside, for what reads and writes its file: registry*, change, audit*. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REGISTRY_PRIV_H
#define FOLDKV_SCHED_REGISTRY_PRIV_H

#include <sqlite3.h>

#include "sched/release/registry.h"

enum {
    REGISTRY_APPLICATION_ID = 0x666b7672, /* "fkvr" */
    REGISTRY_SCHEMA = 2,
    REGISTRY_PATH_ROOM = 4096,
};
#define REGISTRY_FILE "registry.sqlite"

struct registry {
    sqlite3 *db;
    int lock_fd;     /* -1: in memory, or a reader */
    int log_frames;  /* of the write-ahead log, at the last commit */
    bool is_durable; /* there is a DIR */
    bool is_reader;
    bool is_lost; /* a sync or a write failed: nothing is written until it is opened anew */
    bool is_full; /* the last change found the disk full */
    bool is_shut; /* it could not be opened for writing and is open for reading */
    bool may_mend;  /* the failure was a want of room or of leave to write, not an error of the disk */
    bool is_changing;
    char path[REGISTRY_PATH_ROOM + 32]; /* of the file; "": in memory */
    struct why fault;
};

/* What the last call on db came to as a status; doing says what was tried. A failure of the disk
 * makes the registry read-only. */
enum status registry_sql_failed(struct registry *registry, const char *doing, struct why *ret_why);
/* Whether a file system that said this may take writes later, with all that was written before as it was. */
bool registry_may_mend(int error);
/* Runs statements that give no rows. */
enum status registry_exec(struct registry *registry, const char *sql, struct why *ret_why) MUST_USE;
/* Prepares one statement with up to three texts bound (NULL: unbound). */
enum status registry_prepare(struct registry *registry, const char *sql, const char *first,
                             const char *second, const char *third, sqlite3_stmt **ret_statement,
                             struct why *ret_why) MUST_USE;
/* Runs one statement that gives no rows, with its texts bound likewise; doing as in registry_sql_failed. */
enum status registry_run(struct registry *registry, const char *sql, const char *first,
                         const char *second, const char *third, const char *doing,
                         struct why *ret_why) MUST_USE;
/* In place of whatever was there. */
enum status registry_put(struct registry *registry, enum registry_table table, const char *key,
                         const char *body, struct why *ret_why) MUST_USE;
/* Writes a row that says nothing, durably: finds out whether that can be done. */
enum status registry_prove(struct registry *registry, struct why *ret_why) MUST_USE;
/* Opens the file of one that is shut for writing, with every check of registry_open; if that fails, it is as it was. */
void registry_unshut(struct registry *registry);
/* Makes DIR/registry.sqlite under another name, then gives it its own. */
enum status registry_create(const char *dir, struct why *ret_why) MUST_USE;
/* The tables, in an empty database. */
enum status registry_create_tables(struct registry *registry, struct why *ret_why) MUST_USE;
/* Judges an existing file by its first bytes, before anything opens it for writing. */
enum status registry_check_header(const char *path, struct why *ret_why) MUST_USE;
/* Hands SQLite our allocator; once a process. */
enum status registry_start_sqlite(struct why *ret_why) MUST_USE;

#endif
