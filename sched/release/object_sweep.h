/* object_sweep.h: objects that no generation has any more are removed. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_OBJECT_SWEEP_H
#define FOLDKV_SCHED_OBJECT_SWEEP_H

#include "sched/release/registry.h"

/* Removes, durably, each object of DIR but those that a generation's row names as its object, the evaluation sets of
 * such generations, and the n hashes of kept ("" among them: none), which are about to be named. IO with the path; what
 * was not removed then goes with the next sweep. */
enum status object_sweep(struct registry *registry, const char *dir, const char *const *kept,
                         size_t n, struct why *ret_why) MUST_USE;

#endif
