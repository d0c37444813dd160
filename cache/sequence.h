/* sequence.h: one running request's tokens in the cache: opened over its longest cached prefix,
 * grown by appends, closed.
 *
 * A sequence belongs to its cache and is a loan from sequence_open to sequence_close. Engine
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_SEQUENCE_H
#define FOLDKV_CACHE_SEQUENCE_H

#include "cache/page_span.h"
#include "config/status.h"

enum { CACHE_SALT_BYTES_MAX = 64 };

struct cache;
struct sequence;

/* Bytes that must be copied before the sequence is read: in each group the first n_tokens of page
 * from_page go to page to_page, in every layer and head. The copy must be done while no row is being
 * stored: the source may be a running sequence's tail. */
struct cache_move {
    uint32_t n_tokens;
    uint32_t from_page[CACHE_GROUPS_MAX];
    uint32_t to_page[CACHE_GROUPS_MAX];
};

/* Opens a sequence over ids[n] (1 <= n <= context_max) and takes the longest exact prefix, the
 * longest P for which groups without a window hold tokens [0, P) and those with a window W hold the
 * blocks of [P-W+1, P): full committed blocks are shared, then the head of one more block or tail,
 * where P does not end a block, is copied (one move for all groups). At most n - 1 tokens are reused, none if may_reuse is false. salt may be NULL
 * (the same as empty); at most CACHE_SALT_BYTES_MAX bytes. The ids are read during the call only.
 * FENCED if the namespace is fenced, DRAINING if it takes no new sequence, CACHE_FULL if the copied
 * head has no page to go to, UNAVAILABLE if sequences_max are open; nothing is held then.
 * *ret_move.n_tokens is 0 if nothing is to be copied; else the source stays pinned until
 * sequence_moved, which must come before the first commit (a close instead of it is fine). */
enum status sequence_open(struct cache *cache, const uint8_t *salt, size_t salt_len,
                          const uint32_t *ids, uint32_t n, bool may_reuse,
                          struct sequence **ret_sequence, struct cache_move *ret_move) MUST_USE;
/* The bytes of the move are in place. Nothing to do if there was none. */
void sequence_moved(struct sequence *sequence);
/* Gives back every page; an append that is open is aborted. What was committed stays findable
 * (cached) if publish; else the blocks that this sequence wrote and no other holds are dropped,
 * with all that was cached behind them. *sequence becomes NULL; takes NULL. */
void sequence_close(struct sequence **sequence, bool publish);

/* Committed tokens, reused ones included. */
uint32_t sequence_length(const struct sequence *sequence);
/* Tokens found in the cache at opening. */
uint32_t sequence_reused(const struct sequence *sequence);
/* Blocks of the group that the sequence has yet to get, at most at once, to grow to n_tokens. */
uint32_t sequence_blocks_lacking(const struct sequence *sequence, uint32_t group,
                                 uint32_t n_tokens);
/* A group's block table as runs, covering committed and staged tokens from block *ret_first_page
 * on: those before it lie behind the window of every row to come and have been given back (0 without
 * a window). Holds until this sequence's next append_open, commit, abort or close: a commit may
 * exchange a page for an equal one that was there before. */
const struct page_span *sequence_spans(const struct sequence *sequence, uint32_t group,
                                       uint32_t *ret_first_page, uint32_t *ret_count);

#endif
