/* text_hold.h: makes text of token bytes: holds the head of a character back until it is whole, and
 * turns bytes that can never be text into U+FFFD. A plain value; one thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TEXT_HOLD_H
#define FOLDKV_SERVER_TEXT_HOLD_H

#include "server/byte_buffer.h"
#include "server/character.h"

/* The bytes of a character that is not whole yet. Zeroed is empty. */
struct text_hold {
    char bytes[CHARACTER_BYTES_MAX];
    uint8_t len;
};

/* Appends to out the text that held and new bytes make; keeps what may still become a character.
 * out->failed tells a failure. */
void text_hold_push(struct text_hold *hold, const char *bytes, size_t len, struct byte_buffer *out);
/* The end: what is still held becomes U+FFFD. */
void text_hold_flush(struct text_hold *hold, struct byte_buffer *out);

#endif
