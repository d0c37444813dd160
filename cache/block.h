/* block.h: what is known about one block (the pages of one number), for the files of this folder.
 *
 * The records are an array indexed by page number, taken by block_store_init. Fields belong to the
 * file named beside them; the rest of the folder reads. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_BLOCK_H
#define FOLDKV_CACHE_BLOCK_H

#include "cache/page_span.h"
#include "config/sha256.h"

struct block {
    /* prefix_index: the first line of 64 bytes is what a comparison looks at first */
    uint8_t parent_key[SHA256_BYTES];
    uint32_t left, right;   /* subtrees */
    uint32_t priority;      /* of the tree, fixed for each page */
    uint32_t before, after; /* neighbours in the index's order */
    uint32_t n_tokens;      /* committed; CACHE_PAGE_TOKENS: a full block */
    uint32_t ids[CACHE_PAGE_TOKENS];
    uint8_t key[SHA256_BYTES]; /* of an indexed full block */
    /* the indexed block whose key is parent_key; NO_PAGE: a root, or the group is not linked */
    uint32_t parent;
    uint32_t n_children; /* indexed blocks whose parent this is */
    bool is_indexed;

    /* block_store */
    bool is_cached;        /* in the list of evictable blocks */
    uint32_t refs;         /* sequences whose table holds it */
    uint32_t pins;         /* copies that still read it */
    uint32_t older, newer; /* neighbours in that list */
    uint64_t serial;       /* of its taking: another one is another block of the same number */
} __attribute__((aligned(64)));

#endif
