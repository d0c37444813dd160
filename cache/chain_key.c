/* Chain key: names a block by everything its numbers depend on.
 *
 * WHY     Two prompts share K/V only if model, namespace, numerics, cache group, salt and every
 *         token up to the block's end are the same. Typed, framed parts make it impossible for one
 *         part to pass for the end of another.
 * ALWAYS  (1) A key depends on the listed parts alone, never on page numbers or time: replicas and
 *             tiers agree on it.
 *         (2) ids are hashed as little-endian 32-bit numbers on every machine.  chain_key_block
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/chain_key.h"

#include <endian.h>

/* Tags of the parts. Part of the key: a value is never reused with another meaning. */
enum {
    PART_KIND = 1,
    PART_IDENTITY = 2,
    PART_NAMESPACE = 3,
    PART_NUMERICS = 4,
    PART_CACHE_GROUP = 5,
    PART_SALT = 6,
    PART_PARENT = 7,
    PART_IDS = 8,
};

static void add_scope(struct sha256 *sha, const char *kind, const struct chain_scope *scope,
                      struct slice salt)
{
    uint32_t group = htole32(scope->cache_group);
    sha256_start(sha);
    sha256_part(sha, PART_KIND, kind, strlen(kind));
    sha256_part(sha, PART_IDENTITY, scope->identity, SHA256_BYTES);
    sha256_part(sha, PART_NAMESPACE, scope->namespace_id, SHA256_BYTES);
    sha256_part(sha, PART_NUMERICS, scope->numerics, SHA256_BYTES);
    sha256_part(sha, PART_CACHE_GROUP, &group, sizeof group);
    sha256_part(sha, PART_SALT, salt.bytes, salt.len);
}

void chain_key_root(struct sha256 *sha, const struct chain_scope *scope, struct slice salt,
                    uint8_t ret_key[SHA256_BYTES])
{
    add_scope(sha, "foldkv.chain.root", scope, salt);
    sha256_finish(sha, ret_key);
}

void chain_key_block(struct sha256 *sha, const struct chain_scope *scope, struct slice salt,
                     const uint8_t parent[SHA256_BYTES], const uint32_t ids[CACHE_PAGE_TOKENS],
                     uint8_t ret_key[SHA256_BYTES])
{
    uint32_t little[CACHE_PAGE_TOKENS];
    for (uint32_t i = 0; i < CACHE_PAGE_TOKENS; i++)
        little[i] = htole32(ids[i]);
    add_scope(sha, "foldkv.chain.block", scope, salt);
    sha256_part(sha, PART_PARENT, parent, SHA256_BYTES);
    sha256_part(sha, PART_IDS, little, sizeof little);
    sha256_finish(sha, ret_key);
}
