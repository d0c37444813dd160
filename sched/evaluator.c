/* evaluator.c: the thread that measures a candidate. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluator.h"

enum status evaluator_new(const struct evaluator_options *options, struct evaluator **ret_evaluator,
                          struct why *ret_why)
{
    (void)options;
    *ret_evaluator = NULL;
    return why_set(ret_why, STATUS_UNAVAILABLE, "", "evaluations are not run yet");
}
