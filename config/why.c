/* why.c: formats a failure's explanation into its fixed buffer.
 *
 * WHY     The text quotes bytes that a file or a client chose; it must stay one printable line.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/why.h"

#include <stdarg.h>

/* Length of the whole UTF-8 character at p, or 0 if it is malformed, cut short or a control byte. */
static size_t printable_len(const unsigned char *p, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : (p[0] >> 5) == 6 ? 2 : (p[0] >> 4) == 14 ? 3 : (p[0] >> 3) == 30 ? 4 : 0;
    if (n == 0 || n > left || p[0] < 0x20 || p[0] == 0x7f)
        return 0;
    uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[n] || code > 0x10ffff || surrogate ? 0 : n;
}

static void make_printable(char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = printable_len((const unsigned char *)text + i, len - i);
        if (n == 0)
            text[i] = '?';
        i += n == 0 ? 1 : n;
    }
}

enum status why_set(struct why *w, enum status s, const char *field, const char *format, ...)
{
    if (w == NULL)
        return s;
    va_list args;
    va_start(args, format);
    vsnprintf(w->text, sizeof w->text, format, args);
    va_end(args);
    snprintf(w->field, sizeof w->field, "%s", field);
    make_printable(w->text);
    make_printable(w->field);
    return s;
}
