/* spm.c: merges by score, and bytes for what is no token.
 *
 * HOW     These vocabularies have no words: a whole text is merged at once. But a token that holds two
 *         characters side by side must be there for a merge to reach across them, so a text is cut wherever
 *         no token has its two characters together: the result is the same, and the parts are short. A
 *         bitmap by hash tells; a pair that it holds by chance only makes a part longer.
 *         Ranks are the scores' bits, turned so that the highest score is the least number.
 * ALWAYS  Control, byte and user-defined tokens never come out of merging: their spelling in a text is
 *         text, or was found before.                                                     vocabulary_is_text
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/spm.h"

#include <math.h>

#include "config/mem.h"
#include "server/character.h"
#include "server/piece_index.h"

enum { PAIR_BITS = 22 };
static const char space_mark[] = "\xe2\x96\x81"; /* U+2581 */

struct spm {
    struct piece_index *pieces;
    uint32_t n_tokens;
    uint32_t byte_ids[256];
    uint32_t *ranks; /* [n_tokens] */
    uint64_t *pairs; /* [1 << PAIR_BITS] bits */
};

/* What one word's merges look at. */
struct word {
    const struct spm *spm;
    struct slice text;
};

static const char scores_key[] = "tokenizer.ggml.scores";
static const char tokens_key[] = "tokenizer.ggml.tokens";

static uint32_t pair_bit(uint32_t first, uint32_t second)
{
    uint64_t pair = (uint64_t)first << 32 | second;
    return (uint32_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PAIR_BITS));
}

static bool may_join(const struct spm *spm, uint32_t first, uint32_t second)
{
    uint32_t bit = pair_bit(first, second);
    return (spm->pairs[bit / 64] >> bit % 64 & 1) != 0;
}

/* The bits order as the floats do once the negative ones are inverted; MERGING_NONE would be a NaN. */
static uint32_t rank_of_score(float score)
{
    float positive_zero = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return (bits & 0x80000000u) != 0 ? bits : ~(bits | 0x80000000u);
}

static enum status check_scores(const struct gguf *gguf, uint32_t n_tokens, struct why *ret_why)
{
    enum gguf_type type;
    size_t count;
    TRY(gguf_array(gguf, scores_key, &type, &count, ret_why));
    if (type != GGUF_F32)
        return why_set(ret_why, STATUS_BAD_FILE, scores_key,
                       "key \"%s\": an array of type %d; f32 (%d) is needed", scores_key, (int)type,
                       (int)GGUF_F32);
    if (count != n_tokens)
        return why_set(ret_why, STATUS_BAD_FILE, scores_key,
                       "key \"%s\": %zu scores for %u tokens; one each is needed", scores_key,
                       count, n_tokens);
    return OK;
}

static enum status read_scores(struct spm *spm, const struct gguf *gguf, struct why *ret_why)
{
    TRY(check_scores(gguf, spm->n_tokens, ret_why));
    spm->ranks = mem_alloc(spm->n_tokens * sizeof spm->ranks[0]);
    if (spm->ranks == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t id = 0; id < spm->n_tokens; id++) {
        float score = gguf_array_f32(gguf, scores_key, id);
        if (isnan(score))
            return why_set(ret_why, STATUS_BAD_FILE, scores_key,
                           "key \"%s\": token %u has the score nan; a number is needed", scores_key,
                           id);
        spm->ranks[id] = rank_of_score(score);
    }
    return OK;
}

static enum status read_bytes(struct spm *spm, const struct vocabulary *vocabulary,
                              struct why *ret_why)
{
    memset(spm->byte_ids, 0xff, sizeof spm->byte_ids);
    for (uint32_t id = spm->n_tokens; id-- > 0;)
        if (vocabulary_kind(vocabulary, id) == TOKEN_BYTE)
            spm->byte_ids[(uint8_t)vocabulary_piece(vocabulary, id).bytes[0]] = id;
    for (unsigned byte = 0; byte < 256; byte++)
        if (spm->byte_ids[byte] == MERGING_NONE)
            return why_set(
                ret_why, STATUS_BAD_FILE, tokens_key,
                "key \"%s\": no byte token (kind %d) '<0x%02X>'; one for each byte is needed",
                tokens_key, TOKEN_BYTE, byte);
    return OK;
}

static enum status note_pairs(struct spm *spm, const struct vocabulary *vocabulary)
{
    spm->pairs = mem_zalloc((1u << PAIR_BITS) / 64, sizeof spm->pairs[0]);
    if (spm->pairs == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t id = 0; id < spm->n_tokens; id++) {
        if (!vocabulary_is_text(vocabulary, id))
            continue;
        struct slice piece = vocabulary_piece(vocabulary, id);
        uint32_t first, second;
        size_t at = character_read(piece.bytes, piece.len, &first);
        while (at < piece.len) {
            at += character_read(piece.bytes + at, piece.len - at, &second);
            uint32_t bit = pair_bit(first, second);
            spm->pairs[bit / 64] |= UINT64_C(1) << bit % 64;
            first = second;
        }
    }
    return OK;
}

static enum status fill(struct spm *spm, const struct gguf *gguf,
                        const struct vocabulary *vocabulary, struct why *ret_why)
{
    TRY(read_scores(spm, gguf, ret_why));
    TRY(read_bytes(spm, vocabulary, ret_why));
    TRY(piece_index_new(vocabulary, &spm->pieces));
    return note_pairs(spm, vocabulary);
}

enum status spm_new(const struct gguf *gguf, const struct vocabulary *vocabulary,
                    struct spm **ret_spm, struct why *ret_why)
{
    *ret_spm = NULL;
    struct spm *spm = mem_zalloc(1, sizeof *spm);
    if (spm == NULL)
        return STATUS_NO_MEMORY;
    spm->n_tokens = vocabulary_count(vocabulary);
    enum status s = fill(spm, gguf, vocabulary, ret_why);
    if (s != OK)
        spm_free(&spm);
    *ret_spm = spm;
    return s;
}

void spm_free(struct spm **spm)
{
    if (*spm == NULL)
        return;
    piece_index_free(&(*spm)->pieces);
    mem_free((*spm)->ranks);
    mem_free((*spm)->pairs);
    mem_free(*spm);
    *spm = NULL;
}

/* The bytes from one symbol up to another, or to the end. */
static struct slice between(const struct word *word, const struct merging_symbol *symbols,
                            uint32_t from, uint32_t to)
{
    size_t start = symbols[from].start,
           end = to == MERGING_NONE ? word->text.len : symbols[to].start;
    return (struct slice){word->text.bytes + start, end - start};
}

static uint32_t rank_of_pair(const void *user, const struct merging_symbol *symbols, uint32_t left,
                             uint32_t *ret_merged)
{
    const struct word *word = user;
    struct slice joined = between(word, symbols, left, symbols[symbols[left].next].next);
    int64_t id = piece_index_find(word->spm->pieces, joined);
    if (id == TOKEN_NONE)
        return MERGING_NONE;
    *ret_merged = (uint32_t)id;
    return word->spm->ranks[id];
}

/* A symbol that nothing merged is a character: a token, or its bytes. */
static enum status add_character(const struct spm *spm, struct slice text, struct token_ids *ids)
{
    int64_t id = piece_index_find(spm->pieces, text);
    if (id != TOKEN_NONE)
        return token_ids_add(ids, (uint32_t)id);
    for (size_t i = 0; i < text.len; i++)
        TRY(token_ids_add(ids, spm->byte_ids[(uint8_t)text.bytes[i]]));
    return OK;
}

static enum status encode_word(const struct word *word, struct merging *merging, size_t n,
                               struct token_ids *ids)
{
    if (n == 1)
        return add_character(word->spm, word->text, ids);
    TRY(merging_reserve(merging, n));
    struct merging_symbol *symbols = merging->symbols;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        symbols[i] = (struct merging_symbol){.id = MERGING_NONE, .start = (uint32_t)at};
        at += unicode_length(word->text.bytes + at, word->text.len - at);
    }
    merging_run(merging, (uint32_t)n, rank_of_pair, word);
    for (uint32_t i = 0; i != MERGING_NONE; i = symbols[i].next) {
        if (symbols[i].id != MERGING_NONE)
            TRY(token_ids_add(ids, symbols[i].id));
        else
            TRY(add_character(word->spm, between(word, symbols, i, symbols[i].next), ids));
    }
    return OK;
}

/* Bytes and characters up to the first place that no token reaches across. */
static size_t word_bytes(const struct spm *spm, struct slice text, size_t *ret_n)
{
    uint32_t first, second;
    size_t at = character_read(text.bytes, text.len, &first);
    *ret_n = 1;
    while (at < text.len) {
        size_t n = character_read(text.bytes + at, text.len - at, &second);
        if (!may_join(spm, first, second))
            break;
        first = second;
        at += n;
        (*ret_n)++;
    }
    return at;
}

static enum status encode_words(const struct spm *spm, struct merging *merging, struct slice text,
                                struct token_ids *ids, struct why *ret_why)
{
    for (size_t at = 0; at < text.len;) {
        struct word word = {.spm = spm, .text = {text.bytes + at, text.len - at}};
        size_t n;
        word.text.len = word_bytes(spm, word.text, &n);
        if (n > MERGING_SYMBOLS_MAX)
            return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                           "prompt: %zu characters without a break; at most %d are served", n,
                           MERGING_SYMBOLS_MAX);
        TRY(encode_word(&word, merging, n, ids));
        at += word.text.len;
    }
    return OK;
}

/* The text with a space before it if that is asked for, and spaces for U+2581. */
static void normalize(struct slice text, bool with_space, struct byte_buffer *out)
{
    if (with_space)
        byte_buffer_append(out, " ", 1);
    for (size_t at = 0; at < text.len;) {
        const char *from = text.bytes + at;
        const char *found = memmem(from, text.len - at, space_mark, sizeof space_mark - 1);
        size_t n = found != NULL ? (size_t)(found - from) : text.len - at;
        byte_buffer_append(out, from, n);
        if (found != NULL)
            byte_buffer_append(out, " ", 1);
        at += n + (found != NULL ? sizeof space_mark - 1 : 0);
    }
}

enum status spm_encode(const struct spm *spm, struct merging *merging, struct slice text,
                       bool with_space, struct token_ids *ids, struct why *ret_why)
{
    if (text.len == 0)
        return OK;
    if (!with_space && memmem(text.bytes, text.len, space_mark, sizeof space_mark - 1) == NULL)
        return encode_words(spm, merging, text, ids, ret_why);
    struct byte_buffer normal;
    byte_buffer_init(&normal, text.len + 1);
    normalize(text, with_space, &normal);
    enum status s = STATUS_NO_MEMORY;
    if (!normal.failed)
        s = encode_words(spm, merging, (struct slice){normal.bytes, normal.len}, ids, ret_why);
    byte_buffer_release(&normal);
    return s;
}
