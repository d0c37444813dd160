/* byte_buffer.c: doubling growth under a ceiling.
 *
 * WHY     A buffer without a maximum is a way for a client to take the machine's memory.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/byte_buffer.h"

#include <stdarg.h>

#include "config/mem.h"

enum { ROOM_MIN = 512 };

void byte_buffer_init(struct byte_buffer *b, size_t max)
{
    *b = (struct byte_buffer){.max = max};
}

void byte_buffer_release(struct byte_buffer *b)
{
    mem_free(b->bytes);
    byte_buffer_init(b, b->max);
}

void byte_buffer_clear(struct byte_buffer *b)
{
    b->len = 0;
    b->failed = false;
}

/* True if len more bytes fit, growing as needed. */
static bool reserve(struct byte_buffer *b, size_t len)
{
    if (b->failed || len > b->max - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + len;
    if (need <= b->room)
        return true;
    size_t room = b->room > ROOM_MIN ? b->room : ROOM_MIN;
    while (room < need)
        room = room > b->max / 2 ? b->max : room * 2;
    char *grown = mem_realloc(b->bytes, room);
    if (grown == NULL) {
        b->failed = true;
        return false;
    }
    b->bytes = grown;
    b->room = room;
    return true;
}

void byte_buffer_append(struct byte_buffer *b, const void *bytes, size_t len)
{
    if (len == 0 || !reserve(b, len))
        return;
    memcpy(b->bytes + b->len, bytes, len);
    b->len += len;
}

void byte_buffer_text(struct byte_buffer *b, const char *text)
{
    byte_buffer_append(b, text, strlen(text));
}

void byte_buffer_format(struct byte_buffer *b, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ASSERT(n >= 0 && (size_t)n < sizeof text);
    byte_buffer_append(b, text, (size_t)n);
}

void byte_buffer_drop(struct byte_buffer *b, size_t n)
{
    ASSERT(n <= b->len);
    if (n < b->len)
        memmove(b->bytes, b->bytes + n, b->len - n);
    b->len -= n;
}

void byte_buffer_swap(struct byte_buffer *a, struct byte_buffer *b)
{
    struct byte_buffer held = *a;
    *a = *b;
    *b = held;
}
