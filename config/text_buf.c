/* text_buf.c: growing text with a maximum.
 *
 * WHY     Help, dumps and reports are built piece by piece; checking each piece would hide what is
 *         written.
 * HOW     Room doubles; the first failure is remembered and every later addition does nothing.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/text_buf.h"

#include <stdarg.h>

#include "config/mem.h"

enum { ROOM_LEAST = 256 };

void text_buf_init(struct text_buf *text, size_t max)
{
    *text = (struct text_buf){.max = max};
}

void text_buf_release(struct text_buf *text)
{
    mem_free(text->bytes);
    *text = (struct text_buf){0};
}

/* Makes room for len bytes and a NUL more. */
static bool reserve(struct text_buf *text, size_t len)
{
    if (text->is_failed || len > text->max || text->len > text->max - len)
        return false;
    size_t needed = text->len + len + 1;
    if (needed <= text->room)
        return true;
    size_t room = text->room != 0 ? text->room : ROOM_LEAST;
    while (room < needed)
        room *= 2;
    char *grown = mem_realloc(text->bytes, room);
    if (grown == NULL)
        return false;
    text->bytes = grown;
    text->room = room;
    return true;
}

void text_buf_add_bytes(struct text_buf *text, const char *bytes, size_t len)
{
    if (!reserve(text, len)) {
        text->is_failed = true;
        return;
    }
    if (len > 0)
        memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

void text_buf_add(struct text_buf *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || !reserve(text, (size_t)len)) {
        text->is_failed = true;
    } else {
        vsnprintf(text->bytes + text->len, (size_t)len + 1, format, again);
        text->len += (size_t)len;
    }
    va_end(again);
}

char *text_buf_take(struct text_buf *text)
{
    text_buf_add_bytes(text, "", 0);
    if (text->is_failed) {
        text_buf_release(text);
        return NULL;
    }
    char *bytes = text->bytes;
    text_buf_init(text, text->max);
    return bytes;
}
