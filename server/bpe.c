/* bpe.c: a byte-level vocabulary's merges: which pairs of tokens join, in which order.
 *
 * HOW     A table by pair gives the rank of a merge; the word's bytes are the symbols that merging.c
 *         joins.
 *         Reading the file's merges is many look-ups in tables larger than the caches, so it goes by
 *         batches.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/bpe.h"

#include "config/mem.h"
#include "server/byte_text.h"
#include "server/character.h"

enum { BATCH = TOKEN_FIND_MAX / 2, RANK_BITS = 24, MERGES_MAX = (1 << RANK_BITS) - 2 };
#define RANK_MASK ((1u << RANK_BITS) - 1)

struct merge {
    uint32_t left, right, merged;
};

struct bpe {
    uint32_t
        byte_ids[256]; /* the token of each byte, MERGING_NONE for bytes that UTF-8 never has */
    uint32_t n_merges;
    uint32_t mask;
    struct merge *merges; /* [n_merges], by rank */
    uint32_t *slots;      /* [mask + 1] by pair: rank + 1 below 8 bits of the hash; 0 is empty */
};

static const char merges_key[] = "tokenizer.ggml.merges";

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    return (uint32_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* The slot of a pair, or the empty one where it would be. Most pairs are no merge; the bits of the
 * hash in a slot spare those the way to a merge that is not theirs. */
static uint32_t *slot_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint32_t hash = pair_hash(left, right);
    for (uint32_t at = hash & bpe->mask;; at = (at + 1) & bpe->mask) {
        uint32_t slot = bpe->slots[at];
        if (slot == 0)
            return &bpe->slots[at];
        if ((slot ^ hash) >> RANK_BITS != 0)
            continue;
        const struct merge *merge = &bpe->merges[(slot & RANK_MASK) - 1];
        if (merge->left == left && merge->right == right)
            return &bpe->slots[at];
    }
}

static uint32_t rank_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint32_t slot = *slot_of(bpe, left, right);
    return slot == 0 ? MERGING_NONE : (slot & RANK_MASK) - 1;
}

static enum status refuse_merge(size_t rank, struct slice text, const char *what,
                                struct why *ret_why)
{
    return why_set(ret_why, STATUS_BAD_FILE, merges_key, "key \"%s\": merge %zu '%.*s' %s",
                   merges_key, rank, (int)(text.len < 128 ? text.len : 128), text.bytes, what);
}

/* A merge as the file has it, and what its parts are. */
struct merge_text {
    struct slice text, parts[2];
    int64_t ids[2];
};

/* "left right": cut at the first space that is not the first byte. */
static enum status cut(uint32_t rank, struct slice text, struct merge_text *ret_merge,
                       struct why *ret_why)
{
    const char *space = text.len > 2 ? memchr(text.bytes + 1, ' ', text.len - 2) : NULL;
    if (space == NULL)
        return refuse_merge(rank, text, "is not two tokens with a space between", ret_why);
    size_t len = (size_t)(space - text.bytes);
    *ret_merge = (struct merge_text){.text = text,
                                     .parts = {{text.bytes, len}, {space + 1, text.len - len - 1}}};
    return OK;
}

static enum status add_merge(struct bpe *bpe, const struct token_index *index, uint32_t rank,
                             const struct merge_text *m, struct why *ret_why)
{
    int64_t guess = rank == 0 ? TOKEN_NONE : (int64_t)bpe->merges[rank - 1].merged + 1;
    int64_t merged_id = token_index_find_joined(index, m->parts[0], m->parts[1], guess);
    if (m->ids[0] < 0 || m->ids[1] < 0)
        return refuse_merge(
            rank, m->text,
            m->ids[0] < 0 ? "begins with an unknown token" : "ends with an unknown token", ret_why);
    if (merged_id < 0)
        return refuse_merge(rank, m->text, "makes an unknown token", ret_why);
    uint32_t left = (uint32_t)m->ids[0], right = (uint32_t)m->ids[1];
    bpe->merges[rank] = (struct merge){left, right, (uint32_t)merged_id};
    uint32_t *slot = slot_of(bpe, left, right);
    if (*slot != 0)
        return refuse_merge(rank, m->text, "is there twice", ret_why);
    *slot = (pair_hash(left, right) & ~RANK_MASK) | (rank + 1);
    return OK;
}

/* Merges from `from` up to `to`, BATCH at most, found together. */
static enum status add_batch(struct bpe *bpe, const struct gguf *gguf,
                             const struct token_index *index, uint32_t from, uint32_t to,
                             struct why *ret_why)
{
    struct merge_text merges[BATCH];
    struct slice texts[2 * BATCH] = {{0}};
    int64_t ids[2 * BATCH];
    size_t n = to - from;
    for (size_t i = 0; i < n; i++) {
        uint32_t rank = from + (uint32_t)i;
        TRY(cut(rank, gguf_array_string(gguf, merges_key, rank), &merges[i], ret_why));
        texts[2 * i] = merges[i].parts[0];
        texts[2 * i + 1] = merges[i].parts[1];
    }
    token_index_find_all(index, texts, 2 * n, ids);
    for (size_t i = 0; i < n; i++) {
        memcpy(merges[i].ids, &ids[2 * i], sizeof merges[i].ids);
        uint32_t hash = pair_hash((uint32_t)ids[2 * i], (uint32_t)ids[2 * i + 1]);
        __builtin_prefetch(&bpe->slots[hash & bpe->mask], 1);
    }
    for (size_t i = 0; i < n; i++)
        TRY(add_merge(bpe, index, from + (uint32_t)i, &merges[i], ret_why));
    return OK;
}

static enum status check_array(const struct gguf *gguf, uint32_t *ret_count, struct why *ret_why)
{
    enum gguf_type type;
    size_t count;
    TRY(gguf_array(gguf, merges_key, &type, &count, ret_why));
    if (type != GGUF_STRING)
        return why_set(ret_why, STATUS_BAD_FILE, merges_key,
                       "key \"%s\": an array of type %d; strings (%d) are needed", merges_key,
                       (int)type, (int)GGUF_STRING);
    if (count > MERGES_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, merges_key,
                       "key \"%s\": %zu merges; at most %d are served", merges_key, count,
                       MERGES_MAX);
    *ret_count = (uint32_t)count;
    return OK;
}

static enum status read_merges(struct bpe *bpe, const struct gguf *gguf,
                               const struct token_index *index, struct why *ret_why)
{
    uint32_t n_slots = 16;
    while (n_slots < bpe->n_merges * 2)
        n_slots *= 2;
    bpe->mask = n_slots - 1;
    bpe->slots = mem_zalloc(n_slots, sizeof bpe->slots[0]);
    bpe->merges = mem_zalloc(bpe->n_merges, sizeof bpe->merges[0]);
    if (bpe->slots == NULL || bpe->merges == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t rank = 0; rank < bpe->n_merges; rank += BATCH) {
        uint32_t end = rank + BATCH < bpe->n_merges ? rank + BATCH : bpe->n_merges;
        TRY(add_batch(bpe, gguf, index, rank, end, ret_why));
    }
    return OK;
}

/* Bytes of the characters that text is made of. Real vocabularies lack some of the others (control
 * characters, planes without characters): the file's unknown token stands for those or, if it has
 * none, a text that holds one is refused. */
static bool is_needed(unsigned byte)
{
    bool is_control = byte < 0x20 ? byte != '\t' && byte != '\n' && byte != '\r' : byte == 0x7f;
    return !is_control && byte != 0xc0 && byte != 0xc1 && byte <= 0xf0;
}

static enum status read_bytes(struct bpe *bpe, const struct token_index *index,
                              const struct vocabulary *vocabulary, struct why *ret_why)
{
    int64_t unknown = vocabulary_unknown(vocabulary);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[CHARACTER_BYTES_MAX];
        size_t len = character_write(byte_text_char((uint8_t)byte), text);
        int64_t id = token_index_find(index, (struct slice){text, len});
        if (id < 0 && unknown < 0 && is_needed(byte))
            return why_set(ret_why, STATUS_BAD_FILE, "tokenizer.ggml.tokens",
                           "tokenizer.ggml.tokens: no token for byte 0x%02x ('%.*s') and no "
                           "tokenizer.ggml.unknown_token_id; one of them is needed",
                           byte, (int)len, text);
        bpe->byte_ids[byte] = id >= 0        ? (uint32_t)id
                              : unknown >= 0 ? (uint32_t)unknown
                                             : MERGING_NONE;
    }
    return OK;
}

enum status bpe_new(const struct gguf *gguf, const struct token_index *index,
                    const struct vocabulary *vocabulary, struct bpe **ret_bpe, struct why *ret_why)
{
    *ret_bpe = NULL;
    uint32_t n_merges = 0;
    TRY(check_array(gguf, &n_merges, ret_why));
    struct bpe *bpe = mem_zalloc(1, sizeof *bpe);
    if (bpe == NULL)
        return STATUS_NO_MEMORY;
    bpe->n_merges = n_merges;
    enum status s = read_bytes(bpe, index, vocabulary, ret_why);
    if (s == OK)
        s = read_merges(bpe, gguf, index, ret_why);
    if (s != OK)
        bpe_free(&bpe);
    *ret_bpe = bpe;
    return s;
}

void bpe_free(struct bpe **bpe)
{
    if (*bpe == NULL)
        return;
    mem_free((*bpe)->slots);
    mem_free((*bpe)->merges);
    mem_free(*bpe);
    *bpe = NULL;
}

static uint32_t rank_of_pair(const void *user, const struct merging_symbol *symbols, uint32_t left,
                             uint32_t *ret_merged)
{
    const struct bpe *bpe = user;
    uint32_t rank = rank_of(bpe, symbols[left].id, symbols[symbols[left].next].id);
    if (rank != MERGING_NONE)
        *ret_merged = bpe->merges[rank].merged;
    return rank;
}

enum status bpe_encode(const struct bpe *bpe, struct merging *merging, struct slice word,
                       struct token_ids *ids, struct why *ret_why)
{
    if (word.len == 0)
        return OK;
    if (word.len > MERGING_SYMBOLS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                       "prompt: a word of %zu bytes; at most %d are served", word.len,
                       MERGING_SYMBOLS_MAX);
    TRY(merging_reserve(merging, word.len));
    struct merging_symbol *symbols = merging->symbols;
    uint32_t n = (uint32_t)word.len;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)word.bytes[i];
        uint32_t id = bpe->byte_ids[byte];
        if (id == MERGING_NONE)
            return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                           "prompt: this vocabulary has no token for byte 0x%02x", byte);
        symbols[i] = (struct merging_symbol){.id = id, .start = i};
    }
    merging_run(merging, n, rank_of_pair, bpe);
    for (uint32_t at = 0; at != MERGING_NONE; at = symbols[at].next)
        TRY(token_ids_add(ids, symbols[at].id));
    return OK;
}
