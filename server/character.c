/* character.c: what token bytes need to know of characters beyond whether a text is well-formed.
 *
 * HOW     Some bytes are the head of a character if some rest makes them one. The least and the
 *         greatest continuation byte are enough to try: where the second byte is restricted (after
 *         E0, ED, F0, F4) one of the two is allowed.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/character.h"

size_t character_read(const char *text, size_t len, uint32_t *ret_code)
{
    size_t n = unicode_length(text, len);
    uint32_t code = n == 0 ? 0 : (uint8_t)text[0] & (n == 1 ? 0x7fu : 0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((uint8_t)text[i] & 0x3fu);
    *ret_code = code;
    return n;
}

size_t character_write(uint32_t code, char ret_bytes[CHARACTER_BYTES_MAX])
{
    static const uint32_t most[CHARACTER_BYTES_MAX] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    static const uint8_t lead[CHARACTER_BYTES_MAX] = {0, 0xc0, 0xe0, 0xf0};
    ASSERT(code <= most[3] && !(code >= 0xd800 && code <= 0xdfff));
    size_t n = 0;
    while (code > most[n])
        n++;
    for (size_t i = n; i > 0; i--) {
        ret_bytes[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    ret_bytes[0] = (char)(lead[n] | code);
    return n + 1;
}

/* True if n bytes begin a character that takes more. */
static bool is_head(const char *text, size_t n)
{
    static const int fills[] = {0x80, 0xbf};
    for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
        char whole[CHARACTER_BYTES_MAX];
        memset(whole, fills[i], sizeof whole);
        memcpy(whole, text, n);
        if (unicode_length(whole, sizeof whole) > n)
            return true;
    }
    return false;
}

/* The longest head of a character at text. */
static size_t head_bytes(const char *text, size_t len)
{
    size_t n = len < CHARACTER_BYTES_MAX ? len : CHARACTER_BYTES_MAX - 1;
    while (n > 0 && !is_head(text, n))
        n--;
    return n;
}

bool character_is_broken(const char *text, size_t len)
{
    return len > 0 && unicode_length(text, len) == 0 && head_bytes(text, len) < len;
}

size_t character_broken_bytes(const char *text, size_t len)
{
    size_t n = head_bytes(text, len);
    return n == 0 && len > 0 ? 1 : n;
}

size_t character_whole_bytes(struct slice text)
{
    size_t at = 0;
    while (at < text.len) {
        size_t n =
            (uint8_t)text.bytes[at] < 0x80 ? 1 : unicode_length(text.bytes + at, text.len - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

size_t character_count(struct slice text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.bytes[i] & 0xc0) != 0x80;
    return n;
}
