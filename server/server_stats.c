/* server_stats.c: the words of completion outcomes. */
// SPDX-License-Identifier: Apache-2.0
#include "server/server_stats.h"

const char *completion_outcome_name(enum completion_outcome outcome)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_STOP] = "stop",   [OUTCOME_LENGTH] = "length",   [OUTCOME_CANCELLED] = "cancelled",
        [OUTCOME_ERROR] = "error", [OUTCOME_REFUSED] = "refused",
    };
    ASSERT(outcome < OUTCOME_COUNT);
    return names[outcome];
}
