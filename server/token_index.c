/* token_index.c: a hash table of spellings, alive while a vocabulary is being read.
 *
 * WHY     Merges and special ids are written as spellings; 150,000 look-ups must not be felt at
 *         start.
 * HOW     Open addressing over ids; a slot keeps 32 bits of the hash, so that a miss rarely touches
 *         a spelling. Trainers number tokens in the order of
 *         their merges, so that for what a merge makes, the id after the last merge's is nearly
 *         always right and saves the look-up.
 * NOT     Safe against crafted collisions: they cost the operator's own start, bounded by the
 *         file's size.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/token_index.h"

#include "config/mem.h"
#include "server/character.h"
#include "server/text_hash.h"

struct slot {
    uint32_t tag;
    uint32_t id_plus_one; /* 0: empty */
};

struct token_index {
    uint32_t n_tokens;
    uint32_t mask;
    struct slice *texts; /* [n_tokens], into the gguf */
    struct slot *slots;  /* [mask + 1] */
};

static const char tokens_key[] = "tokenizer.ggml.tokens";

/* The slot of the spelling, or the empty one where it would be. */
static struct slot *slot_of(const struct token_index *index, struct slice text, uint64_t hash)
{
    for (uint32_t at = (uint32_t)(hash >> 32) & index->mask;; at = (at + 1) & index->mask) {
        struct slot *slot = &index->slots[at];
        if (slot->id_plus_one == 0)
            return slot;
        if (slot->tag != (uint32_t)hash)
            continue;
        struct slice other = index->texts[slot->id_plus_one - 1];
        if (other.len == text.len && memcmp(other.bytes, text.bytes, text.len) == 0)
            return slot;
    }
}

static enum status check_text(struct slice text, uint32_t id, struct why *ret_why)
{
    if (text.len == 0)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": token %u is empty; 1 to %d bytes are needed", tokens_key, id,
                       TOKEN_BYTES_MAX);
    if (text.len > TOKEN_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": token %u has %zu bytes; at most %d are served", tokens_key, id,
                       text.len, TOKEN_BYTES_MAX);
    if (character_whole_bytes(text) != text.len)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": token %u is not UTF-8 at byte %zu", tokens_key, id,
                       character_whole_bytes(text));
    return OK;
}

static enum status add(struct token_index *index, uint32_t id, uint64_t hash, struct why *ret_why)
{
    struct slice text = index->texts[id];
    TRY(check_text(text, id, ret_why));
    struct slot *slot = slot_of(index, text, hash);
    if (slot->id_plus_one != 0)
        return why_set(
            ret_why, STATUS_BAD_FILE, tokens_key,
            "key \"%s\": tokens %u and %u are both '%.*s'; each spelling may be there once",
            tokens_key, slot->id_plus_one - 1, id, (int)(text.len < 64 ? text.len : 64),
            text.bytes);
    *slot = (struct slot){.tag = (uint32_t)hash, .id_plus_one = id + 1};
    return OK;
}

/* Ids from `from` up to `to`, TEXT_HASH_BATCH at most. */
static enum status add_batch(struct token_index *index, const struct gguf *gguf, uint32_t from,
                             uint32_t to, struct why *ret_why)
{
    uint64_t hashes[TEXT_HASH_BATCH];
    for (uint32_t id = from; id < to; id++) {
        index->texts[id] = gguf_array_string(gguf, tokens_key, id);
        hashes[id - from] = text_hash(index->texts[id]);
        __builtin_prefetch(&index->slots[(hashes[id - from] >> 32) & index->mask], 1);
    }
    for (uint32_t id = from; id < to; id++)
        TRY(add(index, id, hashes[id - from], ret_why));
    return OK;
}

static enum status check_array(const struct gguf *gguf, uint32_t *ret_count, struct why *ret_why)
{
    enum gguf_type type;
    size_t count;
    TRY(gguf_array(gguf, tokens_key, &type, &count, ret_why));
    if (type != GGUF_STRING)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": an array of type %d; strings (%d) are needed", tokens_key,
                       (int)type, (int)GGUF_STRING);
    if (count == 0 || count > TOKEN_COUNT_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": %zu tokens; 1 to %d are served", tokens_key, count,
                       TOKEN_COUNT_MAX);
    *ret_count = (uint32_t)count;
    return OK;
}

static enum status fill(struct token_index *index, const struct gguf *gguf, struct why *ret_why)
{
    uint32_t n_slots = 16;
    while (n_slots < index->n_tokens * 2)
        n_slots *= 2;
    index->mask = n_slots - 1;
    index->slots = mem_zalloc(n_slots, sizeof index->slots[0]);
    index->texts = mem_zalloc(index->n_tokens, sizeof index->texts[0]);
    if (index->slots == NULL || index->texts == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t id = 0; id < index->n_tokens; id += TEXT_HASH_BATCH) {
        uint32_t end = id + TEXT_HASH_BATCH;
        TRY(add_batch(index, gguf, id, end < index->n_tokens ? end : index->n_tokens, ret_why));
    }
    return OK;
}

enum status token_index_new(const struct gguf *gguf, struct token_index **ret_index,
                            struct why *ret_why)
{
    *ret_index = NULL;
    uint32_t n_tokens = 0;
    TRY(check_array(gguf, &n_tokens, ret_why));
    struct token_index *index = mem_zalloc(1, sizeof *index);
    if (index == NULL)
        return STATUS_NO_MEMORY;
    index->n_tokens = n_tokens;
    enum status s = fill(index, gguf, ret_why);
    if (s != OK)
        token_index_free(&index);
    *ret_index = index;
    return s;
}

void token_index_free(struct token_index **index)
{
    if (*index == NULL)
        return;
    mem_free((*index)->texts);
    mem_free((*index)->slots);
    mem_free(*index);
    *index = NULL;
}

uint32_t token_index_count(const struct token_index *index)
{
    return index->n_tokens;
}

struct slice token_index_text(const struct token_index *index, uint32_t id)
{
    ASSERT(id < index->n_tokens);
    return index->texts[id];
}

int64_t token_index_find(const struct token_index *index, struct slice text)
{
    const struct slot *slot = slot_of(index, text, text_hash(text));
    return slot->id_plus_one == 0 ? TOKEN_NONE : (int64_t)slot->id_plus_one - 1;
}

void token_index_find_all(const struct token_index *index, const struct slice *texts, size_t n,
                          int64_t *ret_ids)
{
    uint64_t hashes[TOKEN_FIND_MAX];
    ASSERT(n <= TOKEN_FIND_MAX);
    for (size_t i = 0; i < n; i++) {
        hashes[i] = text_hash(texts[i]);
        __builtin_prefetch(&index->slots[(hashes[i] >> 32) & index->mask]);
    }
    for (size_t i = 0; i < n; i++) { /* most are in the first slot looked at */
        uint32_t id_plus_one = index->slots[(hashes[i] >> 32) & index->mask].id_plus_one;
        __builtin_prefetch(&index->texts[id_plus_one - (id_plus_one > 0)]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct slot *slot = slot_of(index, texts[i], hashes[i]);
        ret_ids[i] = slot->id_plus_one == 0 ? TOKEN_NONE : (int64_t)slot->id_plus_one - 1;
    }
}

static bool is_joined(struct slice text, struct slice left, struct slice right)
{
    return text.len == left.len + right.len && memcmp(text.bytes, left.bytes, left.len) == 0 &&
           memcmp(text.bytes + left.len, right.bytes, right.len) == 0;
}

int64_t token_index_find_joined(const struct token_index *index, struct slice left,
                                struct slice right, int64_t guess)
{
    if (guess >= 0 && guess < index->n_tokens && is_joined(index->texts[guess], left, right))
        return guess;
    char joined[TOKEN_BYTES_MAX];
    if (left.len > sizeof joined || right.len > sizeof joined - left.len)
        return TOKEN_NONE;
    memcpy(joined, left.bytes, left.len);
    memcpy(joined + left.len, right.bytes, right.len);
    return token_index_find(index, (struct slice){joined, left.len + right.len});
}
