/* json_text.c: jansson at the edge of a reply.
 *
 * HOW     jansson prints through a callback into a buffer of ours, so that the text can be handed
 *         on without knowing whose allocator made it.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/json_text.h"

#include "server/byte_buffer.h"
#include "server/text_hold.h"

enum { FLOAT_DIGITS = 9, REPLY_BYTES_MAX = INT32_MAX };

static json_t *replaced(struct slice bytes)
{
    struct byte_buffer text;
    struct text_hold hold = {.len = 0};
    byte_buffer_init(&text, REPLY_BYTES_MAX);
    text_hold_push(&hold, bytes.bytes, bytes.len, &text);
    text_hold_flush(&hold, &text);
    json_t *string = text.failed ? NULL : json_stringn(text.bytes, text.len);
    byte_buffer_release(&text);
    return string;
}

json_t *json_text_string(struct slice bytes)
{
    if (!unicode_is_valid(bytes))
        return replaced(bytes);
    return json_stringn_nocheck(bytes.len > 0 ? bytes.bytes : "", bytes.len);
}

static int append(const char *bytes, size_t len, void *user)
{
    struct byte_buffer *text = user;
    byte_buffer_append(text, bytes, len);
    return text->failed ? -1 : 0;
}

enum status json_text_print(json_t **value, char **ret_text, size_t *ret_len)
{
    *ret_text = NULL;
    *ret_len = 0;
    if (*value == NULL)
        return STATUS_NO_MEMORY;
    struct byte_buffer text;
    byte_buffer_init(&text, REPLY_BYTES_MAX);
    int failed =
        json_dump_callback(*value, append, &text, JSON_COMPACT | JSON_REAL_PRECISION(FLOAT_DIGITS));
    byte_buffer_append(&text, "", 1);
    json_decref(*value);
    *value = NULL;
    if (failed != 0 || text.failed) {
        byte_buffer_release(&text);
        return STATUS_NO_MEMORY;
    }
    *ret_text = text.bytes;
    *ret_len = text.len - 1;
    return OK;
}
