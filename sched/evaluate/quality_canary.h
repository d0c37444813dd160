/* quality_canary.h: the set, scored on a candidate again and again while it has traffic: one prompt in the air at
 * a time. Private to the evaluator; its thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_QUALITY_CANARY_H
#define FOLDKV_SCHED_QUALITY_CANARY_H

#include "sched/evaluate/evaluation_run.h"

struct quality_canary {
    struct evaluation_plan *plan; /* its own; NULL: there is none */
    struct evaluator_canary terms;
    bool is_ending;
    struct flight flight;
    bool is_flying;
    bool is_hurried; /* no rest before the end of this run */
    uint32_t item;   /* in the air, or the next */
    uint64_t sent_ns, due_ns;
    struct quality_slice slices[QUALITY_SLICES_MAX]; /* of the run that goes on */
};

/* Takes the plan. BAD_REQUEST if its slices are not the baseline's. */
enum status quality_canary_begin(struct quality_canary *canary, struct evaluation_plan **plan,
                                 const struct evaluator_canary *terms,
                                 struct why *ret_why) MUST_USE;
/* Collects, sends, ends. True if a run over the set was completed: slices hold it until the next turn. */
bool quality_canary_turn(struct quality_canary *canary, struct flights *flights, uint64_t now_ns);
/* The run that goes on, or the next, is made without a rest. */
void quality_canary_hurry(struct quality_canary *canary);
/* It has no request in the air any more, and plan is NULL, once turns after this have ended it. */
void quality_canary_end(struct quality_canary *canary);

#endif
