/* why.c: formats a failure's explanation into its fixed buffer.
 *
 * WHY     The text quotes bytes that a file or a client chose; it must stay one printable line.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/why.h"

#include <stdarg.h>

#include "config/unicode.h"

static void make_printable(char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = unicode_length(text + i, len - i);
        bool is_control = (unsigned char)text[i] < 0x20 || text[i] == 0x7f;
        if (n == 0 || is_control)
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
