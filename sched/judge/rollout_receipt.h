/* rollout_receipt.h: a decision of a rollout as canonical JSON, with all it rests on, and its
 * re-derivation.
 *
 * A receipt holds the state before, the event, the evidence, the plan's hash, every gate's verdict with its figures, and
 * the state after. Re-deriving puts state and evidence from the text through rollout_apply again and
 * writes the receipt anew: the bytes must be the same. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_RECEIPT_H
#define FOLDKV_SCHED_ROLLOUT_RECEIPT_H

#include "sched/judge/rollout.h"

enum { ROLLOUT_RECEIPT_BYTES_MAX = 1 << 20 };

/* before, plan and event are what rollout_apply was given, next and decision what it gave. ret_text is the
 * caller's (mem_free); ret_hash may be NULL. NO_MEMORY. */
enum status rollout_receipt_write(const struct rollout *before, const struct rollout_plan *plan,
                                  const struct rollout_event *event, const struct rollout *next,
                                  const struct rollout_decision *decision, char **ret_text,
                                  uint8_t ret_hash[SHA256_BYTES]) MUST_USE;
/* OK if plan and the receipt's own evidence give this very receipt. BAD_FILE names what does not
 * follow; NO_MEMORY. */
enum status rollout_receipt_rederive(struct slice receipt, const struct rollout_plan *plan,
                                     struct why *ret_why) MUST_USE;
/* What the gates were judged by. NOT_FOUND: this decision asked none; BAD_FILE, NO_MEMORY. */
enum status rollout_receipt_evidence(struct slice receipt, struct gate_evidence *ret_evidence,
                                     struct why *ret_why) MUST_USE;

#endif
