/* tokenizer.c: the parts of a tokenizer joined: special tokens, words, merges, pieces.
 *
 * HOW     A text is cut at the special tokens spelt in it; what lies between is cut into words;
 *         each word is merged. All working memory belongs to the call, so calls on other threads do
 *         not meet.
 * NOT     A cache of words: a prompt is encoded once, at tens of megabytes a second.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer.h"

#include "config/mem.h"
#include "server/bpe.h"
#include "server/pretokenizer.h"
#include "server/special_match.h"
#include "server/character.h"

struct tokenizer {
    struct vocabulary *vocabulary;
    struct special_match *special;
    struct pretokenizer *pretokenizer;
    struct bpe *bpe;
};

/* What one call of encode works with. */
struct encoding {
    const struct tokenizer *tokenizer;
    struct word_walk *walk;
    struct bpe_scratch scratch;
    struct token_ids *ids;
    struct why *why;
};

static const char model_key[] = "tokenizer.ggml.model";
static const char pre_key[] = "tokenizer.ggml.pre";
static const char prefix_key[] = "tokenizer.ggml.add_space_prefix";

/* Of the tokenizers that a file can name, byte-level BPE is served. */
static enum status check_model(const struct gguf *gguf, struct why *ret_why)
{
    struct slice model;
    TRY(gguf_string(gguf, model_key, &model, ret_why));
    if (model.len != 4 || memcmp(model.bytes, "gpt2", 4) != 0)
        return why_set(ret_why, STATUS_BAD_FILE, model_key,
                       "%s: '%.*s' is not served; served is gpt2 (byte-level BPE)", model_key,
                       (int)(model.len < 64 ? model.len : 64), model.bytes);
    bool adds_prefix = false;
    if (gguf_has(gguf, prefix_key))
        TRY(gguf_bool(gguf, prefix_key, &adds_prefix, ret_why));
    if (adds_prefix)
        return why_set(ret_why, STATUS_BAD_FILE, prefix_key,
                       "%s: true is not served for gpt2; false or absent is right", prefix_key);
    return OK;
}

static enum status fill(struct tokenizer *tokenizer, const struct gguf *gguf,
                        struct token_index **ret_index, struct why *ret_why)
{
    struct slice pre = {"default", 7};
    if (gguf_has(gguf, pre_key))
        TRY(gguf_string(gguf, pre_key, &pre, ret_why));
    TRY(pretokenizer_new(pre, &tokenizer->pretokenizer, ret_why));
    TRY(token_index_new(gguf, ret_index, ret_why));
    TRY(vocabulary_new(gguf, *ret_index, &tokenizer->vocabulary, ret_why));
    TRY(special_match_new(tokenizer->vocabulary, &tokenizer->special));
    return bpe_new(gguf, *ret_index, tokenizer->vocabulary, &tokenizer->bpe, ret_why);
}

enum status tokenizer_new(const struct gguf *gguf, struct tokenizer **ret_tokenizer,
                          struct why *ret_why)
{
    *ret_tokenizer = NULL;
    TRY(check_model(gguf, ret_why));
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
    bpe_free(&t->bpe);
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

/* Text without special tokens. */
static enum status encode_plain(struct encoding *e, struct slice text)
{
    word_walk_start(e->walk, text);
    for (;;) {
        struct slice word;
        TRY(word_walk_next(e->walk, &word));
        if (word.len == 0)
            return OK;
        TRY(bpe_encode(e->tokenizer->bpe, &e->scratch, word, e->ids, e->why));
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
    bpe_scratch_release(&e.scratch);
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

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids,
                             struct byte_buffer *bytes, struct why *ret_why)
{
    uint32_t n_tokens = vocabulary_count(tokenizer->vocabulary);
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] >= n_tokens)
            return why_set(ret_why, STATUS_BAD_REQUEST, "tokens",
                           "tokens[%zu]: %u is no token; 0 to %u are", i, ids[i], n_tokens - 1);
        struct slice piece = vocabulary_piece(tokenizer->vocabulary, ids[i]);
        byte_buffer_append(bytes, piece.bytes, piece.len);
    }
    if (bytes->failed)
        return why_set(ret_why, STATUS_NO_MEMORY, "tokens", "tokens: %zu tokens make too much text",
                       n_ids);
    return OK;
}
