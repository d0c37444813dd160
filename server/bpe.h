/* bpe.h: byte-level byte-pair encoding of one word: its bytes, merged in the order of the file's
 * ranks.
 *
 * Time is n log n in the word's bytes. Read-only once made; any thread, each with its own scratch. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_BPE_H
#define FOLDKV_SERVER_BPE_H

#include "server/merging.h"
#include "server/token_ids.h"
#include "server/vocabulary.h"

struct bpe;

/* Reads tokenizer.ggml.merges. BAD_FILE names the merge that is malformed or speaks of a token that
 * is not there, or the byte of ordinary text that has neither a token nor an unknown token to stand
 * for it. */
enum status bpe_new(const struct gguf *gguf, const struct token_index *index,
                    const struct vocabulary *vocabulary, struct bpe **ret_bpe,
                    struct why *ret_why) MUST_USE;
void bpe_free(struct bpe **bpe);
/* Adds the word's tokens to ids. NO_MEMORY; BAD_REQUEST for a word over MERGING_SYMBOLS_MAX bytes or
 * with a byte that has no token. */
enum status bpe_encode(const struct bpe *bpe, struct merging *merging, struct slice word,
                       struct token_ids *ids, struct why *ret_why) MUST_USE;

#endif
