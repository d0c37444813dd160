/* tokenizer.h: text to tokens and back, by the checkpoint's own vocabulary.
 *
 * Needs no gguf after it is made. Read-only, so any number of threads may encode and decode at a
 * time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKENIZER_H
#define FOLDKV_SERVER_TOKENIZER_H

#include "server/byte_buffer.h"
#include "server/token_ids.h"
#include "server/vocabulary.h"

struct tokenizer;

struct tokenizer_mode {
    bool add_special;   /* the tokens that the file wants at the ends of a text */
    bool parse_special; /* control tokens spelt in the text are those tokens, not their letters */
};

/* BAD_FILE names the key, what was found and what would be right; NO_MEMORY. */
enum status tokenizer_new(const struct gguf *gguf, struct tokenizer **ret_tokenizer,
                          struct why *ret_why) MUST_USE;
void tokenizer_free(struct tokenizer **tokenizer);
const struct vocabulary *tokenizer_vocabulary(const struct tokenizer *tokenizer);

/* Adds the text's tokens to ids (initialised by the caller, whose limit counts). BAD_REQUEST if the
 * text is not UTF-8 or has a word over MERGING_SYMBOLS_MAX; CONTEXT_LENGTH with both numbers if
 * there are more than ids->limit; NO_MEMORY. ret_why's field is "prompt". On failure ids holds what
 * was added so far. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             struct tokenizer_mode mode, struct token_ids *ids,
                             struct why *ret_why) MUST_USE;
/* The bytes of one token (id below the vocabulary's count); part of a character is possible. */
struct slice tokenizer_piece(const struct tokenizer *tokenizer, uint32_t id);
/* The bytes that the token adds to a text: its piece, but for the space that encoding put before a text
 * and after a special token, where the vocabulary has that. *is_inside is false at a text's beginning;
 * it is kept from token to token. */
struct slice tokenizer_text(const struct tokenizer *tokenizer, uint32_t id, bool *is_inside);
/* Appends the texts of all tokens. BAD_REQUEST, field "tokens", for an id outside the
 * vocabulary; NO_MEMORY if the buffer failed (its maximum counts). */
enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids,
                             struct byte_buffer *bytes, struct why *ret_why) MUST_USE;

#endif
