/* rollout_status.h: where a rollout stands, as JSON for a person's screen: its row, its plan, and, where there is evidence, arms
 * and gates by it. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_STATUS_H
#define FOLDKV_SCHED_ROLLOUT_STATUS_H

#include "sched/release/rollout_judged.h"

/* evidence NULL: without "arms" and "gates". judged: the decision that the evidence is of; NULL: it is of now. The members
 * are listed in rollout_driver.h. ret_text is the caller's (mem_free). NOT_FOUND, NO_MEMORY. */
enum status rollout_status_print(struct registry *registry, const char *key,
                                 const struct gate_evidence *evidence,
                                 const struct rollout_judged *judged, char **ret_text,
                                 struct why *ret_why) MUST_USE;

#endif
