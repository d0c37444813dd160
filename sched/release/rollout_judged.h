/* rollout_judged.h: what the gates of a rollout were last decided by: the newest of its decisions that asked them, and its
 * evidence. It is read from the decision's receipt, so it is there after the step, after the rollout's end and after
 * a restart. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_JUDGED_H
#define FOLDKV_SCHED_ROLLOUT_JUDGED_H

#include "sched/release/release_rollout.h"

struct rollout_judged {
    char decision[SHA256_HEX]; /* its receipt */
    int64_t at_ms;
    int64_t step; /* whose evidence it is; an index */
};

/* NOT_FOUND: no such rollout, or none of its decisions asked the gates. */
enum status rollout_judged_find(struct registry *registry, const char *key,
                                struct rollout_judged *ret_judged,
                                struct gate_evidence *ret_evidence, struct why *ret_why) MUST_USE;

#endif
