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
    w->n_parts = 0;
    return s;
}

static struct why_part *add(struct why *w, const char *key)
{
    ASSERT(w->n_parts < WHY_PARTS_MAX);
    struct why_part *part = &w->parts[w->n_parts++];
    *part = (struct why_part){0};
    snprintf(part->key, sizeof part->key, "%s", key);
    return part;
}

void why_add_text(struct why *w, const char *key, const char *text)
{
    if (w == NULL)
        return;
    struct why_part *part = add(w, key);
    snprintf(part->text, sizeof part->text, "%s", text);
    make_printable(part->text);
}

void why_add_number(struct why *w, const char *key, uint64_t number)
{
    if (w == NULL)
        return;
    struct why_part *part = add(w, key);
    part->is_number = true;
    part->number = number;
}

void why_add_both(struct why *w, const char *left, const char *left_value, const char *right,
                  const char *right_value)
{
    if (w == NULL)
        return;
    why_add_text(w, "field", w->field);
    why_add_text(w, left, left_value != NULL ? left_value : "none");
    why_add_text(w, right, right_value != NULL ? right_value : "none");
}

enum status why_in_file(struct why *w, enum status s, const char *path)
{
    enum { SHOWN = 120 };
    size_t len = strlen(path);
    const char *tail = len > SHOWN ? path + len - SHOWN : path;
    if (w == NULL || s == OK || strstr(w->text, tail) != NULL)
        return s;
    struct why before = *w;
    (void)why_set(w, s, before.field, "%s%s: %.250s", tail == path ? "" : "..", tail, before.text);
    w->n_parts = before.n_parts;
    memcpy(w->parts, before.parts, sizeof w->parts);
    return s;
}
