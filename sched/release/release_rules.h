/* release_rules.h: what must be true of every change of the release, held against the rows as the change
 * would leave them and against the receipts that they name.
 *
 * The same rules judge a change before it is committed and each entry of the audit when it is replayed
 * (audit_verify.h), so a decision that its receipts do not bear is found either way.
 *
 *   (1) States only make the moves of generation.def; a rollout's row moves by one decision at a time, which is derived
 *       again from its evidence and its plan; namespaces only go forward; an epoch follows the one before it.
 *   (2) evaluated, warmed, canary and stable stand on receipts: four that agree, an evaluation that is derived again and
 *       passes, a warming that shared no page; canary on an evaluation of what is loaded and stable then.
 *   (3) A journal's steps come one by one, each with its receipt.
 *   (4) From a rollback's intent to its end the candidate is barred; it is fenced before the previous route
 *       is restored; nothing but its own steps changes the route.
 *   (5) One rollback at a time, one promotion at a time, never both; and the rollout of an open journal is in the state
 *       that the journal carries out.
 *   (6) The route's weight is that of its rollout's step.
 *
 * Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_RULES_H
#define FOLDKV_SCHED_RELEASE_RULES_H

#include "sched/release/registry.h"

struct release_move {
    const char *what;
    const struct record *before, *after; /* "table/key": the row; null in before where it is new */
};

/* ILLEGAL_MOVE, RECEIPTS_DISAGREE, TRANSITION_IN_PROGRESS. */
enum status release_rules_check(struct registry *registry, const struct release_move *move,
                                struct why *ret_why) MUST_USE;
/* Rule 2 for one generation's row: its four receipts agree with it and with each other. */
enum status release_rules_receipts(struct registry *registry, const struct record *generation,
                                   struct why *ret_why) MUST_USE;

#endif
