/* audit.h: the hash-chained log of every change: who did what, what was there before and after, and on
 * which receipts.
 *
 * An entry is canonical JSON {after, at_us, before, epoch, note (where a person said something), receipts, seq, what, who}; its hash is
 * SHA-256 over the hash of the entry before it (64 zeros before the first) and its text, each framed.
 * Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_AUDIT_H
#define FOLDKV_SCHED_AUDIT_H

#include "sched/release/registry.h"

struct audit_entry {
    int64_t seq; /* from 1, without gaps */
    const char *hash;
    const char *text; /* the entry in canonical form */
    size_t len;
};

/* Adds seq to the entry and appends it; within a change's transaction. */
enum status audit_append(struct registry *registry, struct record *entry,
                         struct why *ret_why) MUST_USE;
typedef enum status audit_entry_fn(void *user, const struct audit_entry *entry,
                                   struct why *ret_why);
/* Calls on_entry for at most limit entries behind after, oldest first, until it fails. */
enum status audit_each(struct registry *registry, int64_t after, int64_t limit,
                       audit_entry_fn *on_entry, void *user, struct why *ret_why) MUST_USE;
/* The last entry's number and hash; 0 and zeros for an empty audit. */
enum status audit_head(struct registry *registry, int64_t *ret_seq, char ret_hash[SHA256_HEX],
                       struct why *ret_why) MUST_USE;
/* BAD_FILE names the first entry that does not follow from the one before it. */
enum status audit_check_chain(struct registry *registry, struct why *ret_why) MUST_USE;

#endif
