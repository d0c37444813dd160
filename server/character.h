/* character.h: single characters in UTF-8 bytes: whole, begun or broken. Pure functions; any
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_CHARACTER_H
#define FOLDKV_SERVER_CHARACTER_H

#include "config/unicode.h"

enum { CHARACTER_BYTES_MAX = 4 };

/* Bytes of the whole character at text (1 to 4) and its code point; 0 if there is none. */
size_t character_read(const char *text, size_t len, uint32_t *ret_code);
/* Writes the character as 1 to 4 bytes and returns their number. */
size_t character_write(uint32_t code, char ret_bytes[CHARACTER_BYTES_MAX]);
/* True if no whole character begins text whatever follows; false for empty text and for a character
 * cut short. */
bool character_is_broken(const char *text, size_t len);
/* Bytes at the start of broken text that one replacement character stands for: the longest part
 * that could begin a character. */
size_t character_broken_bytes(const char *text, size_t len);
/* Offset of the first byte that does not belong to a whole character; len if there is none. */
size_t character_whole_bytes(struct slice text);
/* Characters of well-formed text. */
size_t character_count(struct slice text);

#endif
