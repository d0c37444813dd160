/* audit_verify.h: whether every decision in the audit follows from its receipts, and every row of the registry
 * from the audit.
 *
 * Registry thread, or whoever opened the registry for reading. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_AUDIT_VERIFY_H
#define FOLDKV_SCHED_AUDIT_VERIFY_H

#include "sched/release/registry.h"

struct audit_report {
    int64_t n_entries, n_receipts, n_rows, epoch;
    char head
        [SHA256_HEX]; /* hash of the last entry: who keeps it elsewhere can tell a shortened chain */
};

/* Replays the audit into an empty registry in memory: each entry must follow the one before it, find the rows as its
 * "before" says, name receipts that hash to their keys, and pass the rules (release_rules.h). At the end
 * the tables must be equal. BAD_FILE names the entry or the row that does not hold. */
enum status audit_verify(struct registry *registry, struct audit_report *ret_report,
                         struct why *ret_why) MUST_USE;

#endif
