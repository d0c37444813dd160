/* prefix_index.h: from a parent key to its children: full blocks, and committed tails of running
 * and finished sequences.
 *
 * One ordered tree over all indexed blocks, by (parent key, token ids, page). Because it is
 * ordered, the child with the longest common prefix is a neighbour of the place where the looked-up
 * ids would stand: every call is O(log blocks). Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_PREFIX_INDEX_H
#define FOLDKV_CACHE_PREFIX_INDEX_H

#include "cache/block.h"

struct prefix_index {
    struct block *blocks; /* lent, [n_blocks] */
    uint32_t n_blocks;
    uint32_t root;
    uint32_t n_entries;
};

void prefix_index_init(struct prefix_index *index, struct block *blocks, uint32_t n_blocks);

/* The child of parent_key that shares the most leading tokens with ids[n], 1 <= n <=
 * CACHE_PAGE_TOKENS; NO_PAGE if none shares any. *ret_common is that number; it is
 * CACHE_PAGE_TOKENS only for a full block that is equal. */
uint32_t prefix_index_find(const struct prefix_index *index, const uint8_t parent_key[SHA256_BYTES],
                           const uint32_t *ids, uint32_t n, uint32_t *ret_common);

/* Enters a block whose ids and n_tokens (and key, if full) stand. parent is an indexed full block,
 * or NO_PAGE for a root. */
void prefix_index_insert(struct prefix_index *index, uint32_t page,
                         const uint8_t parent_key[SHA256_BYTES], uint32_t parent);
/* Takes out a block that has no children. */
void prefix_index_remove(struct prefix_index *index, uint32_t page);
/* An indexed tail grows by ids[n] and stays a tail. Usually one comparison. */
void prefix_index_extend(struct prefix_index *index, uint32_t page, const uint32_t *ids,
                         uint32_t n);

/* Some child of this block; it must have one. */
uint32_t prefix_index_child(const struct prefix_index *index, uint32_t page);
/* True if another block's tokens begin with all of this indexed block's, under the same parent. */
bool prefix_index_is_covered(const struct prefix_index *index, uint32_t page);
/* The block in front of this one if its tokens are all a beginning of this one's, under the same
 * parent; else NO_PAGE. */
uint32_t prefix_index_covered_before(const struct prefix_index *index, uint32_t page);

/* Walks everything; NULL, or the invariant that does not hold. For tests. */
const char *prefix_index_check(const struct prefix_index *index);

#endif
