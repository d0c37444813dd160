/* Namespace: what was written under one generation, and whether it still may be found.
 *
 * WHY     After a rollback nothing of the failed generation may be served; "fenced" is an answer of
 *         its own, so that nobody takes it for a miss and repairs it.
 * ALWAYS  (1) A state is left only for the next one.                        namespace_set_state
 *         (2) Fenced and freed answer FENCED to every lookup, for ever.     namespace_admits
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/namespace.h"

void namespace_set_state(struct namespace *space, enum namespace_state state)
{
    ASSERT(state <= NAMESPACE_FREED && (int)state == (int)space->state + 1);
    space->state = state;
}

enum status namespace_admits(const struct namespace *space)
{
    switch (space->state) {
    case NAMESPACE_OPEN:
        return OK;
    case NAMESPACE_DRAINING:
        return STATUS_DRAINING;
    case NAMESPACE_FENCED:
    case NAMESPACE_FREED:
        break;
    }
    return STATUS_FENCED;
}
