/* text_buf.h: text that grows up to a stated limit. One owner; a failed addition sticks and
 * shows when the text is taken. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_TEXT_BUF_H
#define FOLDKV_CONFIG_TEXT_BUF_H

#include "config/base.h"

struct text_buf {
    char *bytes; /* NUL-terminated once anything was added */
    size_t len, room, max;
    bool is_failed;
};

/* Empty; takes no memory yet. max is the most bytes it may ever hold. */
void text_buf_init(struct text_buf *text, size_t max);
void text_buf_release(struct text_buf *text);
void text_buf_add(struct text_buf *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_buf_add_bytes(struct text_buf *text, const char *bytes, size_t len);
/* The text, now the caller's (mem_free), and the buffer empty; NULL if an addition failed for
 * memory or for max. */
char *text_buf_take(struct text_buf *text) MUST_USE;

#endif
