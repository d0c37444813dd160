/* registry.h: what must survive: generations, receipts, routes, rollouts, journals, epochs and the audit
 * chain, in one SQLite file DIR/registry.sqlite (WAL, synchronous=FULL), or in memory where there is
 * no DIR.
 *
 * Rows are canonical JSON under a key (config/record.h). They are read here and written only by
 * sched/release/change.h. After a failed write or sync the registry takes no writes any more
 * (registry_fault says why) and can still be read; one that lies where nothing can be written is opened so.
 * One thread owns it: the registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REGISTRY_H
#define FOLDKV_SCHED_REGISTRY_H

#include "config/record.h"

enum registry_table {
#define TABLE(name, text, is_derived) REGISTRY_##name,
#include "sched/release/registry_table.def"
#undef TABLE
    REGISTRY_TABLE_COUNT
};

enum { REGISTRY_KEY_ROOM = 128 };

struct registry;

/* Opens DIR's registry, which it makes if there is none (and DIR, mode 0700), and locks it until
 * registry_close (flock on DIR/lock). dir NULL: in memory. Refused with one line and nothing
 * changed: locked by another daemon, a newer version's, another program's, corrupt, or with an audit
 * chain that does not hold. Where there is one and it can be read but not written (a disk that is full or
 * read-only) it is opened all the same, and registry_fault says why nothing is written. */
enum status registry_open(const char *dir, struct registry **ret_registry,
                          struct why *ret_why) MUST_USE;
/* For looking only, also while a daemon has it locked; every change is refused. NOT_FOUND if there
 * is none. */
enum status registry_open_reader(const char *dir, struct registry **ret_registry,
                                 struct why *ret_why) MUST_USE;
/* Takes NULL. */
void registry_close(struct registry **registry);

bool registry_is_durable(const struct registry *registry);
/* Why it takes no writes; NULL if it does. A full disk, and one that was full or read-only when the registry was
 * opened, may be over by the next change; anything else lasts until the registry is opened again. */
const char *registry_fault(const struct registry *registry);

/* Where the last change found the disk full, or opening found it unwritable: tries to write a row that says nothing, and
 * so finds out whether that is over. Does nothing otherwise. */
void registry_probe(struct registry *registry);

/* NOT_FOUND if there is no such row. */
enum status registry_get(struct registry *registry, enum registry_table table, const char *key,
                         struct record *ret_body, struct why *ret_why) MUST_USE;
/* Calls on_row for each row in the order of keys until it fails. body is the callee's only to look
 * at. */
typedef enum status registry_row_fn(void *user, const char *key, const struct record *body,
                                    struct why *ret_why);
enum status registry_each(struct registry *registry, enum registry_table table,
                          registry_row_fn *on_row, void *user, struct why *ret_why) MUST_USE;
/* The greatest key; "" if the table is empty. */
enum status registry_last_key(struct registry *registry, enum registry_table table,
                              char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why) MUST_USE;
/* The release epoch: 0 before the first generation was founded. */
enum status registry_epoch(struct registry *registry, int64_t *ret_epoch,
                           struct why *ret_why) MUST_USE;
/* Moves what the write-ahead log holds into the file; for when there is nothing else to do. Does
 * nothing while the log is short. */
enum status registry_checkpoint(struct registry *registry, struct why *ret_why) MUST_USE;

const char *registry_table_name(enum registry_table table);
/* Keys of rows that are numbered: as wide as it takes to sort by number. */
void registry_number_key(int64_t number, char ret_key[REGISTRY_KEY_ROOM]);

#endif
