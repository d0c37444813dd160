/* cache_fixture.h: small caches and whole prompts for the cache's unit tests. Whatever fails here
 * aborts. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_CACHE_FIXTURE_H
#define FOLDKV_TESTS_CACHE_FIXTURE_H

#include "cache/cache.h"

/* One layer, one head, 64 bytes a page: n_blocks pages. */
struct cache *cache_fixture_new(uint32_t n_blocks, uint32_t n_sequences, uint32_t context);
/* n_groups groups with these windows, one layer and head each, 64 bytes a page, and so much memory
 * as n_blocks blocks of every group take. */
struct cache *cache_fixture_windows(const uint32_t *windows, uint32_t n_groups, uint32_t n_blocks,
                                    uint32_t n_sequences, uint32_t context, uint32_t append_max);
/* ids[i] = from + i: no two runs with different from share a prefix. */
void cache_fixture_ids(uint32_t *ids, uint32_t n, uint32_t from);
/* A sequence over ids[n] without salt, its move (if any) done; all n tokens are committed. */
struct sequence *cache_fixture_run(struct cache *cache, const uint32_t *ids, uint32_t n);
/* Appends and commits ids[n] to an open sequence. */
void cache_fixture_append(struct sequence *sequence, const uint32_t *ids, uint32_t n);
/* Opens over ids[n] without salt, does the move, and notes what was found; *ret_move may be NULL.
 * */
struct sequence *cache_fixture_open(struct cache *cache, const uint32_t *ids, uint32_t n,
                                    struct cache_move *ret_move);
/* Tokens that an opening over ids[n] would reuse; the sequence is closed again. */
uint32_t cache_fixture_findable(struct cache *cache, const uint32_t *ids, uint32_t n);
/* Page i of the sequence in group 0, or in this one; NO_PAGE if it has none. */
uint32_t cache_fixture_page(const struct sequence *sequence, uint32_t i);
uint32_t cache_fixture_group_page(const struct sequence *sequence, uint32_t group, uint32_t i);

#endif
