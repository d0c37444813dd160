/* rollout_status.h: where a rollout stands, as JSON for a person's screen: its row, its plan, and, where there is evidence of
 * its step, arms and gates as they are now. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_STATUS_H
#define FOLDKV_SCHED_ROLLOUT_STATUS_H

#include "sched/release/release_rollout.h"

/* evidence NULL: without "arms" and "gates". The members are listed in rollout_driver.h. ret_text is the caller's
 * (mem_free). NOT_FOUND, NO_MEMORY. */
enum status rollout_status_print(struct registry *registry, const char *key,
                                 const struct gate_evidence *evidence, char **ret_text,
                                 struct why *ret_why) MUST_USE;

#endif
