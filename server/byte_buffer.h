/* byte_buffer.h: a growable run of bytes with a maximum; what is sent and what is received passes through one.
 *
 * A failed append (no memory, or over the maximum) sets `failed` and leaves the bytes as they were; further appends do nothing, so
 * a writer may append many times and look once. Loop thread, or one worker at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_BYTE_BUFFER_H
#define FOLDKV_SERVER_BYTE_BUFFER_H

#include "config/status.h"

struct byte_buffer {
    char *bytes; /* [room], mem_alloc'd; NULL while nothing was appended */
    size_t len;
    size_t room;
    size_t max;
    bool failed;
};

void byte_buffer_init(struct byte_buffer *b, size_t max);
/* Frees the bytes; usable again with the same maximum. */
void byte_buffer_release(struct byte_buffer *b);
/* Empties it and keeps the memory. */
void byte_buffer_clear(struct byte_buffer *b);
void byte_buffer_append(struct byte_buffer *b, const void *bytes, size_t len);
void byte_buffer_text(struct byte_buffer *b, const char *text);
void byte_buffer_format(struct byte_buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* Takes away the first n bytes. */
void byte_buffer_drop(struct byte_buffer *b, size_t n);
/* Exchanges contents and maxima. */
void byte_buffer_swap(struct byte_buffer *a, struct byte_buffer *b);

#endif
