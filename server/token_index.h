/* token_index.h: from a token's spelling to its id, while a vocabulary is being read. Its spellings
 * point into the gguf, which must outlive it. One thread while it is made; then read-only. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKEN_INDEX_H
#define FOLDKV_SERVER_TOKEN_INDEX_H

#include "config/gguf.h"

enum { TOKEN_BYTES_MAX = 4096, TOKEN_COUNT_MAX = 1 << 24, TOKEN_NONE = -1, TOKEN_FIND_MAX = 64 };

struct token_index;

/* Reads tokenizer.ggml.tokens. BAD_FILE names the token that is empty, too long, not UTF-8 or there
 * twice. */
enum status token_index_new(const struct gguf *gguf, struct token_index **ret_index,
                            struct why *ret_why) MUST_USE;
void token_index_free(struct token_index **index);
uint32_t token_index_count(const struct token_index *index);
/* The spelling of token id (which must be below the count), as the file has it. */
struct slice token_index_text(const struct token_index *index, uint32_t id);
/* The id of the token that is spelt so, or TOKEN_NONE. */
int64_t token_index_find(const struct token_index *index, struct slice text);
/* The same for n texts, at most TOKEN_FIND_MAX, in the time that memory gives them side by side. */
void token_index_find_all(const struct token_index *index, const struct slice *texts, size_t n,
                          int64_t *ret_ids);
/* The id of the token that is spelt left, then right, or TOKEN_NONE. guess, any number, is looked
 * at first. */
int64_t token_index_find_joined(const struct token_index *index, struct slice left,
                                struct slice right, int64_t guess);

#endif
