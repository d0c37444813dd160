/* shared_pass.h: one pass and the seats that lanes have in it.
 *
 * Whoever loads a lane takes a seat before there is a scheduler to join with, so that a pass is never
 * promised to more than it has room for. A pass outlives the lane that it was made for: it holds a
 * model of its own. Seats are taken and given back under the engine's lock; the pass itself is the
 * engine thread's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SHARED_PASS_H
#define FOLDKV_SCHED_SHARED_PASS_H

#include "sched/lane_parts.h"

struct shared_pass {
    struct pass *pass;
    struct model *model;
    struct kernels kernels;
    uint32_t n_seats; /* taken; under the engine's lock */
    uint64_t cycle;   /* engine thread: the last in which it ran */
};

/* One seat is taken. Room for PASS_SCHEDULERS_MAX lanes. */
enum status shared_pass_new(const struct lane_parts *parts, const struct lane_limits *limits,
                            struct workers *workers, struct shared_pass **ret_shared,
                            struct why *ret_why) MUST_USE;
/* Nobody has a seat. Takes NULL. */
void shared_pass_free(struct shared_pass **shared);
/* Whether a lane of these parts computes the same in the same way, and there is a seat. */
bool shared_pass_suits(const struct shared_pass *shared, const struct lane_parts *parts);

#endif
