/* release_evidence.h: what a row's state stands on, derived again from the receipts that the row names.
 *
 * A receipt that says "pass" proves nothing; what it rests on, put through the same rules once more, does. Part of
 * release_rules.h. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_EVIDENCE_H
#define FOLDKV_SCHED_RELEASE_EVIDENCE_H

#include "sched/release/release_rollout.h"

/* The generation's receipt "evaluation" follows from its evidence under the thresholds of its receipt
 * "evaluation_manifest", which names this very generation's checkpoint, identity and evaluation set, and the plan of its plan
 * receipt; and it passes. RECEIPTS_DISAGREE. */
enum status release_evidence_evaluation(struct registry *registry, const struct record *generation,
                                        struct why *ret_why) MUST_USE;
/* What it was evaluated with is what is there now: the plan of its plan receipt, and, as the baseline, identity and plan of the
 * stable generation. RECEIPTS_DISAGREE with both values, also where it was never evaluated. */
enum status release_evidence_current(struct registry *registry, const struct record *generation,
                                     struct why *ret_why) MUST_USE;
/* One decision leads from before (no json: a rollout that starts) to after, and it follows from its evidence and the
 * rollout's plan. ret_after: after, read. ILLEGAL_MOVE, RECEIPTS_DISAGREE. */
enum status release_evidence_decision(struct registry *registry, const char *key,
                                      const struct record *before, const struct record *after,
                                      struct release_rollout *ret_after,
                                      struct why *ret_why) MUST_USE;

#endif
