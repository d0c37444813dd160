/* unicode.c: one UTF-8 decoder step, and the two questions asked with it.
 *
 * WHY     Options, files and bodies all must be UTF-8; what counts as that is decided once.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/unicode.h"

size_t unicode_length(const char *text, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    if (left == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t n = (p[0] >> 5) == 6 ? 2 : (p[0] >> 4) == 14 ? 3 : (p[0] >> 3) == 30 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    uint32_t code = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[n] || code > 0x10ffff || is_surrogate ? 0 : n;
}

bool unicode_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        size_t n = unicode_length(text.bytes + i, text.len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

bool unicode_is_printable(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return unicode_is_valid(text);
}
