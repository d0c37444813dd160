/* chain_key.h: the key of a block in its prefix chain, by the one function that every tier uses.
 *
 *   key(block n) = SHA-256(tag | I | namespace | numerics | cache group | salt
 *                          | key(block n-1) | token ids)
 *
 * Every part is tagged and length-framed (sha256_part); numbers are little-endian. The chain starts
 * from a root key: the same function under a tag of its own, without parent and ids. Engine
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CHAIN_KEY_H
#define FOLDKV_CACHE_CHAIN_KEY_H

#include "cache/page_span.h"
#include "config/sha256.h"

/* What is the same for every block of a cache group. */
struct chain_scope {
    uint8_t identity[SHA256_BYTES];
    uint8_t namespace_id[SHA256_BYTES];
    uint8_t numerics[SHA256_BYTES];
    uint32_t cache_group;
};

/* No salt and an empty one are the same. */
void chain_key_root(struct sha256 *sha, const struct chain_scope *scope, struct slice salt,
                    uint8_t ret_key[SHA256_BYTES]);
void chain_key_block(struct sha256 *sha, const struct chain_scope *scope, struct slice salt,
                     const uint8_t parent[SHA256_BYTES], const uint32_t ids[CACHE_PAGE_TOKENS],
                     uint8_t ret_key[SHA256_BYTES]);

#endif
