/* evaluation_plan.c: an evaluation settled before its first request. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluation_plan.h"

enum status evaluation_plan_new(const struct evaluation_terms *terms,
                                struct evaluation_plan **ret_plan, struct why *ret_why)
{
    (void)terms;
    *ret_plan = NULL;
    return why_set(ret_why, STATUS_UNAVAILABLE, "", "evaluations are not run yet");
}
