/* change.h: one durable change of the registry: rows, receipts and the audit entry that names them, in
 * one transaction.
 *
 * change_begin, puts, then change_commit or change_abort. A failed put sticks and shows at the commit. At
 * the commit the rules of release_rules.h are held against the rows as they would become, so no
 * caller can write a state that the receipts do not bear. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_CHANGE_H
#define FOLDKV_SCHED_CHANGE_H

#include "sched/release/registry.h"

enum { EPOCH_ANY = -1 };

struct change_terms {
    const char *who;        /* a principal, or "foldkv" for what the daemon decides */
    int64_t at_us;          /* microseconds of CLOCK_REALTIME */
    int64_t epoch_expected; /* If-Match; EPOCH_ANY: whatever it is */
    bool is_dry_run;        /* everything is checked, nothing is kept */
    const char *note;       /* a person's words, kept in the audit; NULL: none */
    /* The request's idempotency key and the hash of its body, kept with the change (answer.h); NULL: none. */
    const char *answer_key, *answer_payload;
};

struct change;

/* EPOCH_MISMATCH with both. change_begin asks too; this is for who must know before he looks at anything else. */
enum status change_check_epoch(struct registry *registry, const struct change_terms *terms,
                               struct why *ret_why) MUST_USE;
/* what names the kind of change, e.g. "rollout.start". EPOCH_MISMATCH; READ_ONLY with the reason. */
enum status change_begin(struct registry *registry, const struct change_terms *terms,
                         const char *what, struct change **ret_change,
                         struct why *ret_why) MUST_USE;
/* In place of the row of that key. */
void change_put(struct change *change, enum registry_table table, const char *key,
                const struct record *body);
/* Keeps a receipt under its hash, which it gives; one that is there already stays. */
void change_receipt(struct change *change, const struct record *receipt, char ret_hash[SHA256_HEX]);
/* What the change is about, for the answer that is kept under the idempotency key. */
void change_subject(struct change *change, const char *key);
/* The next release epoch, written with the change. */
int64_t change_raise_epoch(struct change *change);

/* The terms' time. */
int64_t change_at_us(const struct change *change);

/* All or nothing; the change is gone either way. ILLEGAL_MOVE, RECEIPTS_DISAGREE or TRANSITION_IN_PROGRESS: a rule
 * forbids it. READ_ONLY: the disk failed, and whether the change is kept shows only when the registry
 * is opened again. */
enum status change_commit(struct change **change, struct why *ret_why) MUST_USE;
/* Takes NULL. */
void change_abort(struct change **change);

#endif
