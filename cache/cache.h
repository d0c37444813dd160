/* cache.h: paged K/V for one generation: pages, block tables, the prefix index, append transactions, the namespace.
 *
 * The cache keeps books; it never touches a K or V number. Where bytes must move (the copied head of a shared block) it hands out
 * a list of moves and the caller copies. Engine thread only: no locks. Nothing allocates after cache_new.
 *
 * One cache group so far: every layer has the same number of K/V heads and the same unit sizes. A block is 64 tokens of every
 * layer and head, named by a page number that is the same for all of them.
 *
 * MEMORY  head-major: page p of head h of layer l starts at
 *     base + l * layer_stride + h * head_stride + p * page_bytes                      (2 MiB-aligned pool, huge pages if given) */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_H
#define FOLDKV_CACHE_CACHE_H

#include "config/sha256.h"
#include "config/why.h"

enum { CACHE_PAGE_TOKENS = 64 };

struct cache;
struct sequence;

struct cache_shape {
    uint32_t n_layers;
    uint32_t n_heads;       /* K/V heads a layer */
    size_t page_bytes;      /* K and V parts of 64 tokens of one head of one layer */
    size_t pool_bytes;      /* what the operator allows; rounded down to whole blocks */
    uint32_t context_max;   /* tokens a sequence may hold */
    uint32_t sequences_max; /* sequences open at once */
    uint8_t identity[SHA256_BYTES];   /* I */
    uint8_t namespace_id[SHA256_BYTES];
    uint8_t numerics[SHA256_BYTES];   /* hash of the binding */
};

/* Where the pool lies and how it is strided. */
struct cache_memory {
    char *base;
    size_t bytes;        /* the whole pool */
    size_t layer_stride;
    size_t head_stride;
    size_t page_bytes;
};

/* Bytes that must be copied before the sequence is read: the first n_tokens of page from go to page to, in every layer and head. */
struct cache_move {
    uint32_t from_page;
    uint32_t to_page;
    uint32_t n_tokens;
};

struct page_span { /* a run of physically consecutive pages; same layout as kernels' struct page_run */
    uint32_t first_page;
    uint32_t n_pages;
};

enum namespace_state { NAMESPACE_OPEN, NAMESPACE_DRAINING, NAMESPACE_FENCED, NAMESPACE_FREED };

/* CACHE_TOO_SMALL if the pool holds no block at all; NO_MEMORY. */
enum status cache_new(const struct cache_shape *shape, struct cache **ret_cache, struct why *ret_why) MUST_USE;
void cache_free(struct cache **cache);
struct cache_memory cache_memory(const struct cache *cache);
uint32_t cache_blocks_total(const struct cache *cache);
/* Blocks that n_tokens need. */
uint32_t cache_blocks_for(uint32_t n_tokens);

/* Opens a sequence over ids[n] and takes the longest exact prefix: full committed blocks are shared, then the longest matching head
 * of one more block or tail is copied (at most one move). At most n - 1 tokens are reused, none if may_reuse is false. salt may
 * be NULL (no salt). FENCED if the namespace is fenced, DRAINING if it takes no new sequence, CACHE_FULL if the copied head has
 * no page to go to (nothing is held then), UNAVAILABLE if sequences_max are open. *ret_move.n_tokens is 0 if nothing is to be copied; the
 * source stays pinned until sequence_moved. The ids must stay where they are until sequence_close. */
enum status sequence_open(struct cache *cache, const uint8_t *salt, size_t salt_len, const uint32_t *ids, uint32_t n,
                          bool may_reuse, struct sequence **ret_sequence, struct cache_move *ret_move) MUST_USE;
void sequence_moved(struct sequence *sequence);
/* Gives back every page; what was committed stays findable (cached) if publish, else this sequence's own unshared blocks are dropped
 * from the index. *sequence becomes NULL. */
void sequence_close(struct sequence **sequence, bool publish);

/* Committed tokens. */
uint32_t sequence_length(const struct sequence *sequence);
/* Tokens found in the cache at opening. */
uint32_t sequence_reused(const struct sequence *sequence);
/* The block table as runs, covering committed and staged tokens. */
const struct page_span *sequence_spans(const struct sequence *sequence, uint32_t *ret_count);

/* Append: open reserves pages for n more tokens, evicting cached blocks if it must. CACHE_FULL leaves the sequence as it was. */
enum status append_open(struct sequence *sequence, uint32_t n) MUST_USE;
/* The staged rows become visible, with ids[n]: the tokens at their positions. Full blocks and the partial tail enter the index. */
void append_commit(struct sequence *sequence, const uint32_t *ids, uint32_t n);
void append_abort(struct sequence *sequence);

void cache_set_namespace_state(struct cache *cache, enum namespace_state state);
enum namespace_state cache_namespace_state(const struct cache *cache);
/* Forgets every cached block that no sequence holds. */
void cache_purge(struct cache *cache);

/* Books, for metrics and tests: free + used + cached = total. */
struct cache_books {
    uint32_t blocks_free, blocks_used, blocks_cached;
    uint32_t blocks_shared;      /* used by more than one sequence */
    uint32_t sequences;
    uint64_t lookup_tokens, hit_tokens, copied_tokens, evicted_blocks, committed_tokens;
    uint64_t expected_bytes;     /* ledger: blocks_total * page_bytes * heads * layers */
    uint64_t resident_bytes;     /* mapping; the difference is the rounding to 2 MiB */
    uint64_t rounding_bytes;
};
struct cache_books cache_books(const struct cache *cache);
/* Free and cached blocks: what an append could get. */
uint32_t cache_blocks_available(const struct cache *cache);

#endif
