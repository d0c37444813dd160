/* byte_text.h: the alphabet in which a byte-level vocabulary spells its tokens: one printable
 * character for each byte. Pure functions; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_BYTE_TEXT_H
#define FOLDKV_SERVER_BYTE_TEXT_H

#include "config/base.h"

/* The character that stands for a byte: "A" for 0x41, U+0120 for the space. */
uint32_t byte_text_char(uint8_t byte);
/* The byte that a character stands for, or -1 if it stands for none. */
int byte_text_byte(uint32_t code);
/* Bytes that the spelling stands for, into ret_bytes[text.len]. False if it is not well-formed or
 * leaves the alphabet. */
bool byte_text_decode(struct slice text, char *ret_bytes, size_t *ret_len);

#endif
