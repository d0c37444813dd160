/* spm.h: encoding by scores, as SentencePiece's BPE vocabularies do: of all tokens that two symbols side by
 * side make, the one of the highest score, leftmost first; a character that is no token becomes its
 * bytes' tokens.
 *
 * Time is n log n in the text's characters. Needs the vocabulary it was made from. Read-only once made;
 * any thread, each with its own scratch. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SPM_H
#define FOLDKV_SERVER_SPM_H

#include "server/byte_buffer.h"
#include "server/merging.h"
#include "server/token_ids.h"
#include "server/vocabulary.h"

struct spm;

/* Reads tokenizer.ggml.scores. BAD_FILE names the score that is not a number, or the byte that has no
 * token; NO_MEMORY. */
enum status spm_new(const struct gguf *gguf, const struct vocabulary *vocabulary,
                    struct spm **ret_spm, struct why *ret_why) MUST_USE;
void spm_free(struct spm **spm);
/* Adds the tokens of text, which must be well-formed UTF-8, to ids; with_space puts a space before it.
 * U+2581 in it is a space. NO_MEMORY; BAD_REQUEST for a part over MERGING_SYMBOLS_MAX characters
 * inside which no place is sure to lie between two tokens. */
enum status spm_encode(const struct spm *spm, struct merging *merging, struct slice text,
                       bool with_space, struct token_ids *ids, struct why *ret_why) MUST_USE;

#endif
