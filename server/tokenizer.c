/* tokenizer.c: the parts of a tokenizer joined: special tokens, words, merges, pieces.
 *
 * HOW     A text is cut at the special tokens spelt in it. What lies between is, by a byte-level
 *         vocabulary (gpt2), cut into words and each word merged by rank; by a vocabulary with
 *         scores (llama), merged as it is. All working memory belongs to the call, so calls on
 *         other threads do not meet.
 * NOT     A cache of words: a prompt is encoded once, at tens of megabytes a second.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer.h"

#include "config/mem.h"
#include "server/bpe.h"
#include "server/character.h"
#include "server/piece_index.h"
#include "server/pretokenizer.h"
#include "server/special_match.h"
#include "server/spm.h"

struct tokenizer {
    struct vocabulary *vocabulary;
    struct special_match *special;
    struct pretokenizer *pretokenizer; /* with bpe */
    struct bpe *bpe;                   /* a byte-level vocabulary, else NULL */
    struct piece_index *whole_words; /* words that are not merged, where the vocabulary has such */
    struct spm *spm;                 /* a vocabulary with scores, else NULL */
    bool adds_space;                 /* before a text and after a special token */
};

/* What one call of encode works with. */
struct encoding {
    const struct tokenizer *tokenizer;
    struct word_walk *walk; /* with bpe */
    struct merging merging;
    struct token_ids *ids;
    struct why *why;
};

static const char model_key[] = "tokenizer.ggml.model";
static const char pre_key[] = "tokenizer.ggml.pre";
static const char prefix_key[] = "tokenizer.ggml.add_space_prefix";

static bool is_text(struct slice text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.bytes, other, text.len) == 0;
}

/* Of the tokenizers that a file can name, byte-level BPE and SentencePiece's BPE are served. */
static enum status check_model(const struct gguf *gguf, bool *ret_is_spm, struct why *ret_why)
{
    struct slice model;
    TRY(gguf_string(gguf, model_key, &model, ret_why));
    *ret_is_spm = is_text(model, "llama");
    if (!*ret_is_spm && !is_text(model, "gpt2"))
        return why_set(
            ret_why, STATUS_BAD_FILE, model_key,
            "key \"%s\": '%.*s' is not served; served are gpt2 (byte-level BPE) and llama "
            "(SentencePiece with scores)",
            model_key, (int)(model.len < 64 ? model.len : 64), model.bytes);
    return OK;
}

static enum status read_adds_space(struct tokenizer *tokenizer, const struct gguf *gguf,
                                   bool is_spm, struct why *ret_why)
{
    tokenizer->adds_space = is_spm;
    if (gguf_has(gguf, prefix_key))
        TRY(gguf_bool(gguf, prefix_key, &tokenizer->adds_space, ret_why));
    if (tokenizer->adds_space && !is_spm)
        return why_set(ret_why, STATUS_BAD_FILE, prefix_key,
                       "key \"%s\": true is not served for gpt2; false or absent is right",
                       prefix_key);
    return OK;
}

static enum status make_pretokenizer(struct tokenizer *tokenizer, const struct gguf *gguf,
                                     struct why *ret_why)
{
    struct slice pre;
    TRY(gguf_string(gguf, pre_key, &pre, ret_why));
    return pretokenizer_new(pre, &tokenizer->pretokenizer, ret_why);
}

static enum status fill_bpe(struct tokenizer *tokenizer, const struct gguf *gguf,
                            struct token_index **ret_index, struct why *ret_why)
{
    TRY(make_pretokenizer(tokenizer, gguf, ret_why));
    struct pretokenizer_traits traits = pretokenizer_traits(tokenizer->pretokenizer);
    const struct vocabulary_rules rules = {.spelling = SPELLING_BYTES,
                                           .adds_bos = traits.adds_bos,
                                           .bos = TOKEN_NONE,
                                           .eos = TOKEN_NONE,
                                           .unknown = TOKEN_NONE};
    TRY(token_index_new(gguf, ret_index, ret_why));
    TRY(vocabulary_new(gguf, *ret_index, &rules, &tokenizer->vocabulary, ret_why));
    if (traits.takes_whole_words)
        TRY(piece_index_new(tokenizer->vocabulary, &tokenizer->whole_words));
    return bpe_new(gguf, *ret_index, tokenizer->vocabulary, &tokenizer->bpe, ret_why);
}

static enum status fill_spm(struct tokenizer *tokenizer, const struct gguf *gguf,
                            struct token_index **ret_index, struct why *ret_why)
{
    static const struct vocabulary_rules rules = {
        .spelling = SPELLING_SPACES, .adds_bos = true, .unknown = 0, .bos = 1, .eos = 2};
    TRY(token_index_new(gguf, ret_index, ret_why));
    TRY(vocabulary_new(gguf, *ret_index, &rules, &tokenizer->vocabulary, ret_why));
    return spm_new(gguf, tokenizer->vocabulary, &tokenizer->spm, ret_why);
}

static enum status fill(struct tokenizer *tokenizer, const struct gguf *gguf,
                        struct token_index **ret_index, struct why *ret_why)
{
    bool is_spm = false;
    TRY(check_model(gguf, &is_spm, ret_why));
    TRY(read_adds_space(tokenizer, gguf, is_spm, ret_why));
    TRY(is_spm ? fill_spm(tokenizer, gguf, ret_index, ret_why)
               : fill_bpe(tokenizer, gguf, ret_index, ret_why));
    return special_match_new(tokenizer->vocabulary, &tokenizer->special);
}

enum status tokenizer_new(const struct gguf *gguf, struct tokenizer **ret_tokenizer,
                          struct why *ret_why)
{
    *ret_tokenizer = NULL;
    struct tokenizer *tokenizer = mem_zalloc(1, sizeof *tokenizer);
    struct token_index *index = NULL;
    enum status s = tokenizer == NULL ? STATUS_NO_MEMORY : fill(tokenizer, gguf, &index, ret_why);
    token_index_free(&index);
    if (s == STATUS_NO_MEMORY)
        s = why_set(ret_why, s, "", "the vocabulary: %s", status_text(s));
    if (s != OK)
        tokenizer_free(&tokenizer);
    *ret_tokenizer = tokenizer;
    return s;
}

void tokenizer_free(struct tokenizer **tokenizer)
{
    struct tokenizer *t = *tokenizer;
    if (t == NULL)
        return;
    spm_free(&t->spm);
    bpe_free(&t->bpe);
    piece_index_free(&t->whole_words);
    pretokenizer_free(&t->pretokenizer);
    special_match_free(&t->special);
    vocabulary_free(&t->vocabulary);
    mem_free(t);
    *tokenizer = NULL;
}

const struct vocabulary *tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary;
}

static enum status encode_word(struct encoding *e, struct slice word)
{
    const struct tokenizer *t = e->tokenizer;
    int64_t id = t->whole_words != NULL ? piece_index_find(t->whole_words, word) : TOKEN_NONE;
    if (id != TOKEN_NONE)
        return token_ids_add(e->ids, (uint32_t)id);
    return bpe_encode(t->bpe, &e->merging, word, e->ids, e->why);
}

/* Text without special tokens, at the beginning or after one. */
static enum status encode_plain(struct encoding *e, struct slice text)
{
    const struct tokenizer *t = e->tokenizer;
    if (t->spm != NULL)
        return spm_encode(t->spm, &e->merging, text, t->adds_space, e->ids, e->why);
    word_walk_start(e->walk, text);
    for (;;) {
        struct slice word;
        TRY(word_walk_next(e->walk, &word));
        if (word.len == 0)
            return OK;
        TRY(encode_word(e, word));
    }
}

static enum status encode_text(struct encoding *e, struct slice text, bool parse_special)
{
    size_t at = 0, start;
    uint32_t id;
    while (special_match_find(e->tokenizer->special, text, at, parse_special, &start, &id)) {
        TRY(encode_plain(e, (struct slice){text.bytes + at, start - at}));
        TRY(token_ids_add(e->ids, id));
        at = start + vocabulary_piece(e->tokenizer->vocabulary, id).len;
    }
    return encode_plain(e, (struct slice){text.bytes + at, text.len - at});
}

static enum status encode_all(struct encoding *e, struct slice text, struct tokenizer_mode mode)
{
    const struct vocabulary *vocabulary = e->tokenizer->vocabulary;
    if (e->tokenizer->pretokenizer != NULL)
        TRY(word_walk_new(e->tokenizer->pretokenizer, &e->walk));
    if (mode.add_special && vocabulary_adds_bos(vocabulary))
        TRY(token_ids_add(e->ids, (uint32_t)vocabulary_bos(vocabulary)));
    TRY(encode_text(e, text, mode.parse_special));
    if (mode.add_special && vocabulary_adds_eos(vocabulary))
        TRY(token_ids_add(e->ids, (uint32_t)vocabulary_eos(vocabulary)));
    return OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             struct tokenizer_mode mode, struct token_ids *ids, struct why *ret_why)
{
    size_t valid = character_whole_bytes(text);
    if (valid != text.len)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                       "prompt: not UTF-8 at byte %zu of %zu", valid, text.len);
    struct encoding e = {.tokenizer = tokenizer, .ids = ids, .why = ret_why};
    enum status s = encode_all(&e, text, mode);
    merging_release(&e.merging);
    word_walk_free(&e.walk);
    if (s == OK && ids->count > ids->limit)
        return why_set(ret_why, STATUS_CONTEXT_LENGTH, "prompt",
                       "prompt: %zu tokens; the context holds %zu", ids->count, ids->limit);
    if (s == STATUS_NO_MEMORY || s == STATUS_INTERNAL)
        return why_set(ret_why, s, "prompt", "prompt: %s while it was made into tokens",
                       status_text(s));
    return s;
}

struct slice tokenizer_piece(const struct tokenizer *tokenizer, uint32_t id)
{
    return vocabulary_piece(tokenizer->vocabulary, id);
}

struct slice tokenizer_text(const struct tokenizer *tokenizer, uint32_t id, bool *is_inside)
{
    struct slice piece = vocabulary_piece(tokenizer->vocabulary, id);
    bool is_added = tokenizer->adds_space && !*is_inside &&
                    vocabulary_is_text(tokenizer->vocabulary, id) && piece.bytes[0] == ' ';
    *is_inside = vocabulary_search(tokenizer->vocabulary, id) == SEARCH_NEVER;
    return is_added ? (struct slice){piece.bytes + 1, piece.len - 1} : piece;
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids,
                             struct byte_buffer *bytes, struct why *ret_why)
{
    uint32_t n_tokens = vocabulary_count(tokenizer->vocabulary);
    bool is_inside = false;
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] >= n_tokens)
            return why_set(ret_why, STATUS_BAD_REQUEST, "tokens",
                           "tokens[%zu]: %u is no token; 0 to %u are", i, ids[i], n_tokens - 1);
        struct slice text = tokenizer_text(tokenizer, ids[i], &is_inside);
        byte_buffer_append(bytes, text.bytes, text.len);
    }
    if (bytes->failed)
        return why_set(ret_why, STATUS_NO_MEMORY, "tokens", "tokens: %zu tokens make too much text",
                       n_ids);
    return OK;
}
