/* pool_split.h: how many blocks each cache group gets of the pool's bytes. Pure functions; any
 * thread.
 *
 * Groups without a window hold the same tokens, so they get equally many blocks, T. A group with a
 * window gets, for each sequence that may run, what its window and one append span, and T / 8 more
 * for cached prefixes: a prefix is found again only if the window before its end is still there,
 * and an eighth is what that takes of prefixes eight windows long. It never gets more than T. T is
 * the largest number whose sum is within the bytes.
 *
 * If T is less than one full context, windows give way first, down to those of one sequence:
 * a long request that is served alone is better than many that may not be long. What is left then
 * goes to the windows again. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_POOL_SPLIT_H
#define FOLDKV_CACHE_POOL_SPLIT_H

#include "cache/cache_shape.h"
#include "config/why.h"

/* ret_blocks[n_groups], each at least 1; together within shape->pool_bytes. CACHE_TOO_SMALL if the
 * bytes hold no block of every group, BAD_OPTION if they hold more than can be numbered; each with
 * a why that names both sizes. */
enum status pool_split(const struct cache_shape *shape, uint32_t ret_blocks[CACHE_GROUPS_MAX],
                       struct why *ret_why) MUST_USE;
/* What groups get where those without a window have so many blocks (at least 1), and the bytes that it takes: pool_split
 * of these bytes gives no fewer. UINT64_MAX if they overflow. */
uint64_t pool_split_of(const struct cache_shape *shape, uint32_t blocks,
                       uint32_t ret_blocks[CACHE_GROUPS_MAX]);
/* Bytes that one sequence of n_tokens takes, in whole blocks; UINT64_MAX if they overflow. */
uint64_t pool_split_sequence_bytes(const struct cache_shape *shape, uint32_t n_tokens);
/* Tokens that a sequence can hold when it has these blocks to itself, at most context_max. */
uint32_t pool_split_tokens(const struct cache_shape *shape, const uint32_t *blocks);

#endif
