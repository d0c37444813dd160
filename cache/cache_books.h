/* cache_books.h: the cache's books, for metrics and tests. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_BOOKS_H
#define FOLDKV_CACHE_CACHE_BOOKS_H

#include "config/base.h"

struct cache;

/* One cache group's. free + used + cached = total, and resident = expected + rounding, always. */
struct cache_group_books {
    uint32_t blocks_total, blocks_free, blocks_used, blocks_cached;
    uint32_t blocks_shared; /* used by more than one sequence */
    uint64_t evicted_blocks;
    uint64_t block_bytes;    /* page_bytes * heads * layers */
    uint64_t expected_bytes; /* blocks_total * block_bytes */
    uint64_t resident_bytes; /* the mapping */
    uint64_t
        rounding_bytes; /* the difference: rounding to 2 MiB, and red zones in sanitized builds */
};
struct cache_group_books cache_group_books(const struct cache *cache, uint32_t group);

/* The sums over all groups, and what is counted in tokens, which is the same in all of them. */
struct cache_books {
    uint32_t blocks_total, blocks_free, blocks_used, blocks_cached, blocks_shared;
    uint32_t sequences;
    uint64_t lookup_tokens; /* prompt tokens of the sequences opened with may_reuse */
    uint64_t hit_tokens;    /* of these, found (shared or copied) */
    uint64_t copied_tokens; /* of these, copied */
    uint64_t committed_tokens;
    uint64_t evicted_blocks;
    uint64_t expected_bytes, resident_bytes, rounding_bytes;
};
struct cache_books cache_books(const struct cache *cache);

#endif
