/* release_plan.c: reads and judges a plan. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release_plan.h"

#include <inttypes.h>

static enum status check_member(const struct record *step, int i, const char *key, int64_t least,
                                int64_t most, int64_t *ret_number, struct why *ret_why)
{
    char field[48], found[48];
    snprintf(field, sizeof field, "steps[%d].%s", i - 1, key);
    record_show(step, key, found, sizeof found);
    if (!record_number(step, key, ret_number) || *ret_number < least || *ret_number > most)
        return why_set(ret_why, STATUS_BAD_REQUEST, field,
                       "%s is %s: a whole number from %" PRId64 " to %" PRId64 " is needed", field,
                       found, least, most);
    return OK;
}

static enum status check_steps(const struct record *plan, int n, struct why *ret_why)
{
    int64_t before = 0;
    for (int i = 1; i <= n; i++) {
        struct record step = record_item(plan, "steps", (size_t)i - 1);
        struct release_plan_step s;
        TRY(check_member(&step, i, "weight_bp", 1, RELEASE_PLAN_WEIGHT_BP_MAX, &s.weight_bp,
                         ret_why));
        TRY(check_member(&step, i, "min_requests", 1, 1000000000, &s.min_requests, ret_why));
        TRY(check_member(&step, i, "max_seconds", 1, 31536000, &s.max_seconds, ret_why));
        if (s.weight_bp <= before)
            return why_set(ret_why, STATUS_BAD_REQUEST, "steps",
                           "steps[%d].weight_bp is %" PRId64 ", not more than the %" PRId64
                           " of the step before it",
                           i - 1, s.weight_bp, before);
        before = s.weight_bp;
    }
    return OK;
}

enum status release_plan_check(const struct record *plan, struct why *ret_why)
{
    size_t n = record_list_count(plan, "steps");
    struct record thresholds = record_child(plan, "thresholds");
    if (n < 1 || n > RELEASE_RELEASE_PLAN_STEPS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "steps",
                       "the plan has %zu steps: 1 to %d are needed", n,
                       RELEASE_RELEASE_PLAN_STEPS_MAX);
    TRY(check_steps(plan, (int)n, ret_why));
    const char *key = record_next_key(&thresholds, NULL);
    if (key == NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "thresholds", "the plan has no thresholds");
    for (; key != NULL; key = record_next_key(&thresholds, key)) {
        int64_t number;
        if (!record_number(&thresholds, key, &number))
            return why_set(
                ret_why, STATUS_BAD_REQUEST, "thresholds",
                "the threshold of %.64s is no whole number: one may be changed, none may be blank",
                key);
    }
    return OK;
}

int release_plan_count(const struct record *plan)
{
    return (int)record_list_count(plan, "steps");
}

struct release_plan_step release_plan_step(const struct record *plan, int i)
{
    struct record step = record_item(plan, "steps", (size_t)i - 1);
    struct release_plan_step s = {0};
    bool is_whole = record_number(&step, "weight_bp", &s.weight_bp) &&
                    record_number(&step, "min_requests", &s.min_requests) &&
                    record_number(&step, "max_seconds", &s.max_seconds);
    ASSERT(is_whole);
    return s;
}
