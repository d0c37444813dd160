/* piece_index.h: from bytes to the token that stands for them, over the tokens that text is made of
 * (vocabulary_is_text). Needs the vocabulary it was made from. Read-only once made; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_PIECE_INDEX_H
#define FOLDKV_SERVER_PIECE_INDEX_H

#include "server/vocabulary.h"

struct piece_index;

enum status piece_index_new(const struct vocabulary *vocabulary,
                            struct piece_index **ret_index) MUST_USE;
void piece_index_free(struct piece_index **index);
/* TOKEN_NONE if there is none; of several the least id. */
int64_t piece_index_find(const struct piece_index *index, struct slice bytes);

#endif
