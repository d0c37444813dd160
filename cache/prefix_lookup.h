/* prefix_lookup.h: how much of a prompt every group still holds. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_PREFIX_LOOKUP_H
#define FOLDKV_CACHE_PREFIX_LOOKUP_H

#include "cache/sequence.h"

/* The longest P <= n such that groups without a window hold ids[0, P), and groups with a window W
 * hold the blocks of ids[P-W+1, P). P tokens of a prompt ids[n] of this sequence (its salt and root
 * keys stand). group->matches then tells of each block that P needs: its page and its key. */
uint32_t prefix_lookup(const struct sequence *sequence, const uint32_t *ids, uint32_t n);

#endif
