/* block_store.h: every block of the pool: free, used or cached; who holds it; what is evicted.
 *
 *   free --take--> used --unref, unpin--> cached --ref, pin--> used
 *                    |                       `--reserve (evicts), forget--> free
 *                    `--unref, unpin of one that is not indexed--> free
 *
 * used: a sequence's table or an unfinished copy holds it. cached: nobody does, but the index finds
 * it. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_BLOCK_STORE_H
#define FOLDKV_CACHE_BLOCK_STORE_H

#include "cache/page_pool.h"
#include "cache/pool_memory.h"
#include "cache/prefix_index.h"

struct block_store {
    struct block *blocks;
    uint32_t n_blocks;
    struct page_pool *pages;
    const struct pool_memory *memory; /* lent; told which pages are free */
    struct prefix_index index;
    uint32_t oldest, newest; /* ends of the list of cached blocks */
    uint32_t n_used, n_cached, n_shared;
    uint32_t evict_batch;
    uint32_t n_spare; /* not to be used: n_used + n_cached stays within n_blocks - n_spare */
    uint64_t n_evicted;
    uint64_t n_taken;
};

/* NO_MEMORY; the store can be released then, too. memory may be NULL (tests). */
enum status block_store_init(struct block_store *store, uint32_t n_blocks,
                             const struct pool_memory *memory) MUST_USE;
void block_store_release(struct block_store *store);

/* Free blocks less the spare ones. */
uint32_t block_store_free(const struct block_store *store);
/* Whether n blocks can be had: free or cached ones. */
bool block_store_can_reserve(const struct block_store *store, uint32_t n) MUST_USE;
/* Makes sure that n blocks are free, evicting if it must; false (and nothing evicted) if they
 * cannot be had. */
bool block_store_reserve(struct block_store *store, uint32_t n) MUST_USE;
/* Takes a free block, held once, as near behind page `after` (or NO_PAGE) as can be. One must be
 * free. */
uint32_t block_store_take(struct block_store *store, uint32_t after) MUST_USE;

/* One more or one fewer table that holds it. */
void block_store_ref(struct block_store *store, uint32_t page);
void block_store_unref(struct block_store *store, uint32_t page);
/* One more or one fewer copy that reads it. */
void block_store_pin(struct block_store *store, uint32_t page);
void block_store_unpin(struct block_store *store, uint32_t page);

/* Takes an indexed block that has no children out of the index; a cached one becomes free. */
void block_store_forget(struct block_store *store, uint32_t page);
/* The same with all that is below it first. */
void block_store_forget_tree(struct block_store *store, uint32_t page);
/* Forgets the cached tails in front of this indexed block that it says all of. */
void block_store_forget_covered(struct block_store *store, uint32_t page);
/* Forgets every cached block. */
void block_store_purge(struct block_store *store);

/* Walks everything; NULL, or the invariant that does not hold. For tests. */
const char *block_store_check(const struct block_store *store);

#endif
