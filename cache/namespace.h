/* namespace.h: the states of a generation's cache namespace.
 *
 *   open --> draining --> fenced --> freed
 *
 * namespace_set_state makes every move; there is no way back.
 *
 * open takes new sequences; draining takes none, those that are open go on; a lookup in a fenced
 * namespace answers FENCED, never a miss; a freed one holds nothing. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_NAMESPACE_H
#define FOLDKV_CACHE_NAMESPACE_H

#include "config/status.h"

enum namespace_state { NAMESPACE_OPEN, NAMESPACE_DRAINING, NAMESPACE_FENCED, NAMESPACE_FREED };

struct namespace
{
    enum namespace_state state;
};

/* Asserts that state is the next one. */
void namespace_set_state(struct namespace *space, enum namespace_state state);
/* OK, DRAINING or FENCED: whether a new sequence may open. */
enum status namespace_admits(const struct namespace *space) MUST_USE;

#endif
