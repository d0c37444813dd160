/* cache_reach.h: pages that are lost: not free, and in no sequence's table, no unfinished copy and not in
 * the index.
 *
 * Far cheaper than cache_check.h: one walk over blocks, tables and index, so that a serving engine can
 * afford it now and then. Allocates nothing; engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_REACH_H
#define FOLDKV_CACHE_CACHE_REACH_H

#include "config/base.h"

struct cache;

/* Bytes of scratch that the walk needs. */
size_t cache_reach_scratch_bytes(const struct cache *cache);
/* Blocks of all groups that are not free and not reachable. scratch's content does not matter. */
uint64_t cache_unreachable_blocks(const struct cache *cache, void *scratch);

#endif
