/* bpe.c: merges inside one word, lowest rank first.
 *
 * HOW     The word's bytes become symbols in a linked list. A heap holds the places where a known
 *         pair begins, ordered by (rank, place) in one 64-bit number. The least is taken; if its
 *         pair still stands there, the right symbol joins the left one and the two pairs around it
 *         enter the heap. A place whose pair has changed is passed over when it comes up: removing
 *         it earlier would cost more.
 * ALWAYS  (1) Merges happen in the order (rank, place), as the trainer did them.        merge_all
 *         (2) A word of n bytes takes at most 2n places in the heap: n - 1 at first,
 *             and a merge takes one out and puts at most two in.                        push
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/bpe.h"

#include "config/mem.h"
#include "server/byte_text.h"
#include "server/character.h"

enum { SCRATCH_ROOM_MIN = 64, RANK_BITS = 24, MERGES_MAX = (1 << RANK_BITS) - 2 };
#define RANK_MASK ((1u << RANK_BITS) - 1)
#define NONE UINT32_MAX /* no symbol, no token, no rank */

struct merge {
    uint32_t left, right, merged;
};

struct bpe {
    uint32_t byte_ids[256]; /* the token of each byte, NONE for bytes that UTF-8 never has */
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
    return slot == 0 ? NONE : (slot & RANK_MASK) - 1;
}

static enum status refuse_merge(size_t rank, struct slice text, const char *what,
                                struct why *ret_why)
{
    return why_set(ret_why, STATUS_BAD_FILE, merges_key, "%s: merge %zu '%.*s' %s", merges_key,
                   rank, (int)(text.len < 128 ? text.len : 128), text.bytes, what);
}

/* "left right": cut at the first space that is not the first byte. */
static enum status read_merge(struct bpe *bpe, const struct token_index *index, uint32_t rank,
                              struct slice text, struct why *ret_why)
{
    const char *space = text.len > 2 ? memchr(text.bytes + 1, ' ', text.len - 2) : NULL;
    if (space == NULL)
        return refuse_merge(rank, text, "is not two tokens with a space between", ret_why);
    struct slice left = {text.bytes, (size_t)(space - text.bytes)};
    struct slice right = {space + 1, text.len - left.len - 1};
    int64_t left_id = token_index_find(index, left), right_id = token_index_find(index, right);
    int64_t guess = rank == 0 ? TOKEN_NONE : (int64_t)bpe->merges[rank - 1].merged + 1;
    int64_t merged_id = token_index_find_joined(index, left, right, guess);
    if (left_id < 0 || right_id < 0)
        return refuse_merge(
            rank, text, left_id < 0 ? "begins with an unknown token" : "ends with an unknown token",
            ret_why);
    if (merged_id < 0)
        return refuse_merge(rank, text, "makes an unknown token", ret_why);
    bpe->merges[rank] = (struct merge){(uint32_t)left_id, (uint32_t)right_id, (uint32_t)merged_id};
    uint32_t *slot = slot_of(bpe, (uint32_t)left_id, (uint32_t)right_id);
    if (*slot != 0)
        return refuse_merge(rank, text, "is there twice", ret_why);
    *slot = (pair_hash((uint32_t)left_id, (uint32_t)right_id) & ~RANK_MASK) | (rank + 1);
    return OK;
}

static enum status check_array(const struct gguf *gguf, uint32_t *ret_count, struct why *ret_why)
{
    enum gguf_type type;
    size_t count;
    TRY(gguf_array(gguf, merges_key, &type, &count, ret_why));
    if (type != GGUF_STRING)
        return why_set(ret_why, STATUS_BAD_FILE, merges_key,
                       "%s: an array of type %d; strings (%d) are needed", merges_key, (int)type,
                       (int)GGUF_STRING);
    if (count > MERGES_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, merges_key,
                       "%s: %zu merges; at most %d are served", merges_key, count, MERGES_MAX);
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
    for (uint32_t rank = 0; rank < bpe->n_merges; rank++)
        TRY(read_merge(bpe, index, rank, gguf_array_string(gguf, merges_key, rank), ret_why));
    return OK;
}

static bool is_in_utf8(unsigned byte)
{
    return byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
}

/* Real vocabularies lack bytes that their training text did not have; the file's unknown token
 * stands for those. */
static enum status read_bytes(struct bpe *bpe, const struct token_index *index,
                              const struct vocabulary *vocabulary, struct why *ret_why)
{
    int64_t unknown = vocabulary_unknown(vocabulary);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[CHARACTER_BYTES_MAX];
        size_t len = character_write(byte_text_char((uint8_t)byte), text);
        int64_t id = token_index_find(index, (struct slice){text, len});
        if (id < 0 && unknown < 0 && is_in_utf8(byte))
            return why_set(ret_why, STATUS_BAD_FILE, "tokenizer.ggml.tokens",
                           "tokenizer.ggml.tokens: no token for byte 0x%02x ('%.*s') and no "
                           "tokenizer.ggml.unknown_token_id; one of them is needed",
                           byte, (int)len, text);
        bpe->byte_ids[byte] = id >= 0 ? (uint32_t)id : unknown >= 0 ? (uint32_t)unknown : NONE;
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

void bpe_scratch_release(struct bpe_scratch *scratch)
{
    mem_free(scratch->symbols);
    mem_free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}

/* The contents need not survive, so nothing is copied. */
static enum status reserve(struct bpe_scratch *scratch, size_t n)
{
    if (n <= scratch->room)
        return OK;
    size_t room = scratch->room * 2 > n ? scratch->room * 2 : n;
    room = room < SCRATCH_ROOM_MIN ? SCRATCH_ROOM_MIN : room;
    bpe_scratch_release(scratch);
    scratch->symbols = mem_alloc(room * sizeof scratch->symbols[0]);
    scratch->heap = mem_alloc(room * 2 * sizeof scratch->heap[0]);
    if (scratch->symbols == NULL || scratch->heap == NULL) {
        bpe_scratch_release(scratch);
        return STATUS_NO_MEMORY;
    }
    scratch->room = room;
    return OK;
}

static void push(struct bpe_scratch *scratch, uint64_t entry)
{
    ASSERT(scratch->heap_count < scratch->room * 2);
    uint64_t *heap = scratch->heap;
    size_t at = scratch->heap_count++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t pop(struct bpe_scratch *scratch)
{
    uint64_t *heap = scratch->heap;
    uint64_t least = heap[0], entry = heap[--scratch->heap_count];
    size_t n = scratch->heap_count, at = 0;
    for (size_t child = 1; child < n; child = at * 2 + 1) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
    return least;
}

/* Enters the pair that begins at symbol `left`, if it is one. */
static void offer(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t left)
{
    const struct bpe_symbol *symbols = scratch->symbols;
    if (left == NONE || symbols[left].next == NONE)
        return;
    uint32_t rank = rank_of(bpe, symbols[left].id, symbols[symbols[left].next].id);
    if (rank != NONE)
        push(scratch, (uint64_t)rank << 32 | left);
}

static void merge_all(const struct bpe *bpe, struct bpe_scratch *scratch)
{
    struct bpe_symbol *symbols = scratch->symbols;
    while (scratch->heap_count > 0) {
        uint64_t entry = pop(scratch);
        const struct merge *merge = &bpe->merges[entry >> 32];
        uint32_t left = (uint32_t)entry, right = symbols[left].next;
        if (symbols[left].id != merge->left || right == NONE || symbols[right].id != merge->right)
            continue;
        symbols[left].id = merge->merged;
        symbols[left].next = symbols[right].next;
        symbols[right].id = NONE; /* matches no merge any more */
        if (symbols[right].next != NONE)
            symbols[symbols[right].next].previous = left;
        offer(bpe, scratch, symbols[left].previous);
        offer(bpe, scratch, left);
    }
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, struct slice word,
                       struct token_ids *ids, struct why *ret_why)
{
    if (word.len == 0)
        return OK;
    if (word.len > BPE_WORD_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                       "prompt: a word of %zu bytes; at most %d are served", word.len,
                       BPE_WORD_BYTES_MAX);
    TRY(reserve(scratch, word.len));
    struct bpe_symbol *symbols = scratch->symbols;
    uint32_t n = (uint32_t)word.len;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = bpe->byte_ids[(uint8_t)word.bytes[i]];
        ASSERT(id != NONE); /* words are UTF-8 */
        symbols[i] =
            (struct bpe_symbol){.id = id, .previous = i - 1, .next = i + 1 < n ? i + 1 : NONE};
    }
    scratch->heap_count = 0;
    for (uint32_t i = 0; i < n; i++)
        offer(bpe, scratch, i);
    merge_all(bpe, scratch);
    for (uint32_t at = 0; at != NONE; at = symbols[at].next)
        TRY(token_ids_add(ids, symbols[at].id));
    return OK;
}
