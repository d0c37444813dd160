/* release_rules.h: what must be true of every change of the release, held against the rows as the change
 * would leave them and against the receipts that they name.
 *
 * The same rules judge a change before it is committed and each entry of the audit when it is replayed
 * (audit_verify.h), so a decision that its receipts do not bear is found either way.
 *
 *   (1) States only make the moves of generation.def and release_rollout.def; namespaces only go forward; an epoch
 *       follows the one before it.
 *   (2) evaluated, warmed, canary, each further step, and promotion stand on receipts: four that agree, an
 *       evaluation whose gates pass, a warming that shared no page, a judgement for each step.
 *   (3) A journal's steps come one by one, each with its receipt.
 *   (4) From a rollback's intent to its end the candidate is barred; it is fenced before the previous route
 *       is restored; nothing but its own steps changes the route.
 *   (5) One rollback at a time, one promotion at a time, never both.
 *
 * Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_RULES_H
#define FOLDKV_SCHED_RELEASE_RULES_H

#include "sched/registry.h"

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
