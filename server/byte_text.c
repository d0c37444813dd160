/* byte_text.c: bytes spelt as printable characters.
 *
 * WHY     A byte-level vocabulary must spell any byte in a text file, so GPT-2 gave each byte a
 *         visible character.
 * HOW     The printable bytes of Latin-1 (21-7E, A1-AC, AE-FF) stand for themselves; the 68 others
 *         take U+0100 upwards in the order of the bytes: 00-20 first, then 7F-A0, then AD.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/byte_text.h"

#include "server/character.h"

enum { SHIFTED = 0x100, LOW = 0x21, MIDDLE = 0xa1 - 0x7f, N_SHIFTED = LOW + MIDDLE + 1 };

uint32_t byte_text_char(uint8_t byte)
{
    if (byte < LOW)
        return SHIFTED + byte;
    if (byte >= 0x7f && byte < 0xa1)
        return SHIFTED + LOW + (byte - 0x7fu);
    if (byte == 0xad)
        return SHIFTED + LOW + MIDDLE;
    return byte;
}

int byte_text_byte(uint32_t code)
{
    if (code < SHIFTED)
        return byte_text_char((uint8_t)code) == code ? (int)code : -1;
    uint32_t n = code - SHIFTED;
    if (n < LOW)
        return (int)n;
    if (n < LOW + MIDDLE)
        return (int)(0x7f + (n - LOW));
    return n < N_SHIFTED ? 0xad : -1;
}

bool byte_text_decode(struct slice text, char *ret_bytes, size_t *ret_len)
{
    size_t n_bytes = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t code = (uint8_t)text.bytes[at];
        size_t n = code < 0x80 ? 1 : character_read(text.bytes + at, text.len - at, &code);
        int byte = n == 0 ? -1 : byte_text_byte(code);
        if (byte < 0)
            return false;
        ret_bytes[n_bytes++] = (char)byte;
        at += n;
    }
    *ret_len = n_bytes;
    return true;
}
