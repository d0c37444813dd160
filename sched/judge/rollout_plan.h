/* rollout_plan.h: the steps and limits of a rollout as an operator declares them, and their hash.
 *
 *   {"steps": [{"weight_bp": 100, "min_requests": 5000, "max_seconds": 604800}, ...],
 *    "cap_bp": 500, "auto_approve": false, "gates": {"tpot_p99": {"eps_ppm": 150000}}}
 *
 * "steps" must be there; what else is left out has its default, and the canonical form holds all of
 * it. The canonical form is a plan file too. A value, no pointers; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_PLAN_H
#define FOLDKV_SCHED_ROLLOUT_PLAN_H

#include "sched/judge/gate.h"

enum { ROLLOUT_STEPS_MAX = 16, ROLLOUT_PLAN_BYTES_MAX = 65536 };

struct rollout_step {
    uint32_t weight_bp; /* the candidate's share in basis points; 1 to 10000 - cap_bp, rising */
    uint32_t
        min_requests; /* that candidate and control must each have ended before the step may end */
    uint32_t max_seconds; /* after which a step that could not be judged pauses */
};

struct rollout_plan {
    uint32_t n_steps;
    struct rollout_step steps[ROLLOUT_STEPS_MAX];
    uint32_t cap_bp; /* most of control's share */
    bool auto_approve;
    struct gate_thresholds thresholds;
};

/* 1 %, 5 %, 25 %, every threshold at its default, approval needed. */
void rollout_plan_defaults(struct rollout_plan *ret_plan);
/* BAD_REQUEST names the field, its value and what is right. */
enum status rollout_plan_parse(struct slice text, struct rollout_plan *ret_plan,
                               struct why *ret_why) MUST_USE;
/* Also IO, if the file cannot be read. */
enum status rollout_plan_read_file(const char *path, struct rollout_plan *ret_plan,
                                   struct why *ret_why) MUST_USE;
/* The canonical JSON of steps, limits and the fixed alpha and beta (mem_free), and its hash. */
enum status rollout_plan_write(const struct rollout_plan *plan, char **ret_text,
                               uint8_t ret_hash[SHA256_BYTES]) MUST_USE;

#endif
