/* answer.h: what a request with an idempotency key was answered, so that the same request again does
 * nothing and hears the same.
 *
 * An answer is kept in the transaction of the change that it tells of (change_terms.answer_key): {at_us, epoch,
 * payload, subject, what}. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ANSWER_H
#define FOLDKV_SCHED_ANSWER_H

#include "sched/release/registry.h"

/* NOT_FOUND if the key is new; KEY_REUSED if it came with another payload; OK with the answer. */
enum status answer_find(struct registry *registry, const char *key, const char *payload_hash,
                        struct record *ret_answer, struct why *ret_why) MUST_USE;
/* Forgets answers from before at_us. */
enum status answer_forget(struct registry *registry, int64_t at_us, struct why *ret_why) MUST_USE;

#endif
