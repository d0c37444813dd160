/* pool_warmer.h: a thread of the lowest priority that has the system give the page pool's memory,
 * block by block, ahead of its use: while the engine is ready and idle, and beside steps when it must.
 *
 * WHY not all of it before ready: gigabytes of zeroing are most of a start, and the first minutes
 * need little of it. Any thread may ask for progress; the rest is its owner's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_POOL_WARMER_H
#define FOLDKV_SCHED_POOL_WARMER_H

#include "cache/cache.h"

struct pool_warmer;

/* Starts with first_blocks[cache_groups]: each group's blocks before it are there. The cache is a
 * loan until pool_warmer_free. NO_MEMORY, or UNAVAILABLE if the thread could not be made. */
enum status pool_warmer_new(const struct cache *cache, const uint32_t *first_blocks,
                            struct pool_warmer **ret_warmer) MUST_USE;
/* Ends the thread, done or not. Takes NULL. */
void pool_warmer_free(struct pool_warmer **warmer);
/* Whether there are steps, to which it leaves the memory's bandwidth as long as it is well ahead of
 * in_use[cache_groups], each group's blocks that are not free. Cheap: the engine says so at every step
 * and idle turn. */
void pool_warmer_note(struct pool_warmer *warmer, bool is_busy, const uint32_t *in_use);
/* Blocks whose memory is there, over all groups. */
uint32_t pool_warmer_blocks(const struct pool_warmer *warmer);

#endif
