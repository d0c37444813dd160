/* release_plan.h: whether a rollout's plan can be followed: {steps: [{weight_bp, min_requests, max_seconds}],
 * thresholds: {gate: number}, auto_approve}.
 *
 * Weights are in hundredths of a percent and rise; a judged step ends at 9500, so that the control arm has as
 * much; 100 % is the promotion. Every threshold is a whole number: one may be changed, none may be
 * blank. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_PLAN_H
#define FOLDKV_SCHED_RELEASE_PLAN_H

#include "config/record.h"

enum {
    RELEASE_RELEASE_PLAN_STEPS_MAX = 16,
    RELEASE_PLAN_CAP_BP = 500,
    RELEASE_PLAN_WEIGHT_BP_MAX = 10000 - RELEASE_PLAN_CAP_BP
};

struct release_plan_step {
    int64_t weight_bp, min_requests, max_seconds;
};

/* BAD_REQUEST names the step and the member. */
enum status release_plan_check(const struct record *plan, struct why *ret_why) MUST_USE;
int release_plan_count(const struct record *plan);
/* The i-th step, from 1, of a plan that was checked. */
struct release_plan_step release_plan_step(const struct record *plan, int i);

#endif
