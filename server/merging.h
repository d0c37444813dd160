/* merging.h: the loop by which symbols of one word join into tokens: of all pairs that stand side by
 * side, the one of least rank, leftmost first, until no pair is left.
 *
 * Which pairs there are is the caller's; time is n log n in the word's symbols, memory 40 bytes a
 * symbol. A merging is one caller's scratch; any thread, one at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_MERGING_H
#define FOLDKV_SERVER_MERGING_H

#include "config/status.h"

#define MERGING_NONE UINT32_MAX /* no symbol, no token, no rank */

/* A longer word is refused: it would hold too much memory while it is merged. */
enum { MERGING_SYMBOLS_MAX = 1 << 20 };

struct merging_symbol {
    uint32_t id;             /* the token so far */
    uint32_t start;          /* bytes of the word before it */
    uint32_t previous, next; /* places in the word's array */
    uint32_t rank, merged;   /* of its pair with the next one; rank NONE if that is no pair */
};

/* Memory that one caller's words share. Zeroed is empty. */
struct merging {
    struct merging_symbol *symbols;
    uint64_t *heap;
    size_t room, heap_count;
};

/* The rank of the pair that begins at symbols[left], which has a next one, and the token that it
 * makes; MERGING_NONE if it is no pair. */
typedef uint32_t (*merging_rank_fn)(const void *user, const struct merging_symbol *symbols,
                                    uint32_t left, uint32_t *ret_merged);

/* Room for n symbols, their contents undefined; NO_MEMORY. */
enum status merging_reserve(struct merging *merging, size_t n) MUST_USE;
/* Merges symbols[0..n), n > 0, whose id and start the caller has set. Afterwards the list from
 * symbols[0] along `next` is the word's tokens. */
void merging_run(struct merging *merging, uint32_t n, merging_rank_fn rank_of, const void *user);
void merging_release(struct merging *merging);

#endif
