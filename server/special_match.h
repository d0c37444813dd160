/* special_match.h: finds the spellings of special tokens inside a text. Needs the vocabulary it was
 * made from. Read-only once made; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SPECIAL_MATCH_H
#define FOLDKV_SERVER_SPECIAL_MATCH_H

#include "server/vocabulary.h"

struct special_match;

enum status special_match_new(const struct vocabulary *vocabulary,
                              struct special_match **ret_match) MUST_USE;
void special_match_free(struct special_match **match);
/* The first place at or after `from` where a special token is spelt, the longest there; false if
 * there is none. User-defined tokens are always looked for, control tokens only if with_control. */
bool special_match_find(const struct special_match *match, struct slice text, size_t from,
                        bool with_control, size_t *ret_start, uint32_t *ret_id);

#endif
