/* vocabulary.h: the tokens of a checkpoint: the bytes of each, its kind, and the ids with a meaning
 * of their own.
 *
 * Owns all it hands out; needs no gguf after it is made. Read-only, so any thread may read. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_VOCABULARY_H
#define FOLDKV_SERVER_VOCABULARY_H

#include "server/token_index.h"

/* The file's own numbers. */
enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE
};

/* Whether a token is looked for in a text by its spelling, before the text is encoded. */
enum token_search {
    SEARCH_NEVER,
    SEARCH_SPECIAL, /* control tokens and their like: where special tokens are parsed */
    SEARCH_ALWAYS   /* user-defined ones */
};

/* How a file writes what its normal tokens stand for. */
enum spelling {
    SPELLING_BYTES, /* in the byte alphabet */
    SPELLING_SPACES /* as text, with U+2581 for the space */
};

/* What goes for a vocabulary before its file says anything. */
struct vocabulary_rules {
    enum spelling spelling;
    bool adds_bos;             /* if there is one */
    int64_t bos, eos, unknown; /* if the file has as many tokens; or TOKEN_NONE */
};

struct vocabulary;

/* Reads kinds and special ids (tokenizer.ggml.*). BAD_FILE names the key and what was found;
 * NO_MEMORY. */
enum status vocabulary_new(const struct gguf *gguf, const struct token_index *index,
                           const struct vocabulary_rules *rules, struct vocabulary **ret_vocabulary,
                           struct why *ret_why) MUST_USE;
void vocabulary_free(struct vocabulary **vocabulary);

uint32_t vocabulary_count(const struct vocabulary *vocabulary);
/* The bytes that token id stands for (id must be below the count); control tokens give their
 * spelling. */
struct slice vocabulary_piece(const struct vocabulary *vocabulary, uint32_t id);
enum token_kind vocabulary_kind(const struct vocabulary *vocabulary, uint32_t id);
/* True if text is encoded with the token: it is normal (or unused) and keeps to the spelling. */
bool vocabulary_is_text(const struct vocabulary *vocabulary, uint32_t id);
enum token_search vocabulary_search(const struct vocabulary *vocabulary, uint32_t id);
/* TOKEN_NONE where the file names none. */
int64_t vocabulary_bos(const struct vocabulary *vocabulary);
int64_t vocabulary_eos(const struct vocabulary *vocabulary);
int64_t vocabulary_unknown(const struct vocabulary *vocabulary);
/* Whether the file wants these at the ends of a text; the id is then there. */
bool vocabulary_adds_bos(const struct vocabulary *vocabulary);
bool vocabulary_adds_eos(const struct vocabulary *vocabulary);
/* The tokens that end a generation, ascending. */
const uint32_t *vocabulary_stop_ids(const struct vocabulary *vocabulary, uint32_t *ret_count);

#endif
