/* piece_index.c: a hash table over the pieces of a vocabulary.
 *
 * WHY     Merging by score asks at every step whether two symbols side by side make a token.
 * HOW     Open addressing over ids; a slot keeps 32 bits of the hash, so that a miss rarely touches a
 *         piece. What is longer than every piece is told without a look.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/piece_index.h"

#include "config/mem.h"
#include "server/text_hash.h"

struct slot {
    uint32_t tag;
    uint32_t id_plus_one; /* 0: empty */
};

struct piece_index {
    const struct vocabulary *vocabulary; /* outlives this */
    size_t bytes_max;
    uint32_t mask;
    struct slot slots[]; /* [mask + 1] */
};

static struct slot *slot_of(struct piece_index *index, struct slice bytes, uint64_t hash)
{
    for (uint32_t at = (uint32_t)(hash >> 32) & index->mask;; at = (at + 1) & index->mask) {
        struct slot *slot = &index->slots[at];
        if (slot->id_plus_one == 0)
            return slot;
        if (slot->tag != (uint32_t)hash)
            continue;
        struct slice piece = vocabulary_piece(index->vocabulary, slot->id_plus_one - 1);
        if (piece.len == bytes.len && memcmp(piece.bytes, bytes.bytes, bytes.len) == 0)
            return slot;
    }
}

/* Ids from `from` up to `to`, TEXT_HASH_BATCH at most. */
static void add_batch(struct piece_index *index, uint32_t from, uint32_t to)
{
    uint64_t hashes[TEXT_HASH_BATCH];
    for (uint32_t id = from; id < to; id++) {
        hashes[id - from] = text_hash(vocabulary_piece(index->vocabulary, id));
        __builtin_prefetch(&index->slots[(hashes[id - from] >> 32) & index->mask], 1);
    }
    for (uint32_t id = from; id < to; id++) {
        if (!vocabulary_is_text(index->vocabulary, id))
            continue;
        struct slice piece = vocabulary_piece(index->vocabulary, id);
        struct slot *slot = slot_of(index, piece, hashes[id - from]);
        if (slot->id_plus_one == 0)
            *slot = (struct slot){.tag = (uint32_t)hashes[id - from], .id_plus_one = id + 1};
        if (piece.len > index->bytes_max)
            index->bytes_max = piece.len;
    }
}

enum status piece_index_new(const struct vocabulary *vocabulary, struct piece_index **ret_index)
{
    uint32_t n_tokens = vocabulary_count(vocabulary), n_slots = 16;
    while (n_slots < n_tokens * 2)
        n_slots *= 2;
    struct piece_index *index = mem_zalloc(1, sizeof *index + n_slots * sizeof index->slots[0]);
    *ret_index = index;
    if (index == NULL)
        return STATUS_NO_MEMORY;
    index->vocabulary = vocabulary;
    index->mask = n_slots - 1;
    for (uint32_t id = 0; id < n_tokens; id += TEXT_HASH_BATCH)
        add_batch(index, id, id + TEXT_HASH_BATCH < n_tokens ? id + TEXT_HASH_BATCH : n_tokens);
    return OK;
}

void piece_index_free(struct piece_index **index)
{
    mem_free(*index);
    *index = NULL;
}

int64_t piece_index_find(const struct piece_index *index, struct slice bytes)
{
    if (bytes.len > index->bytes_max)
        return TOKEN_NONE;
    const struct slot *slot =
        slot_of((struct piece_index *)(uintptr_t)index, bytes, text_hash(bytes));
    return slot->id_plus_one == 0 ? TOKEN_NONE : (int64_t)slot->id_plus_one - 1;
}
