/* unicode.h: whole characters in UTF-8 bytes. Pure functions; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_UNICODE_H
#define FOLDKV_SERVER_UNICODE_H

#include "config/base.h"

enum { UNICODE_BYTES_MAX = 4 };

/* Bytes of the whole, well-formed character at text (1 to 4) and its code point; 0 if there is none: the bytes are malformed,
 * cut short, a surrogate or over U+10FFFF. ret_code may be NULL. */
size_t unicode_char(const char *text, size_t len, uint32_t *ret_code);
/* True if the bytes are malformed whatever follows; false if text is empty, whole, or a character cut short. */
bool unicode_is_broken(const char *text, size_t len);
/* Bytes at the start of broken text that make one replacement character (the longest part that could begin a character). */
size_t unicode_broken_bytes(const char *text, size_t len);
/* Offset of the first byte that does not belong to a whole character; len if all is well-formed. */
size_t unicode_valid_bytes(struct slice text);
bool unicode_is_valid(struct slice text);
/* Characters of well-formed text. */
size_t unicode_count(struct slice text);
/* Writes the character as 1 to 4 bytes and returns their number. */
size_t unicode_put(uint32_t code, char ret_bytes[UNICODE_BYTES_MAX]);

#endif
