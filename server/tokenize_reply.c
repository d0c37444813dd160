/* tokenize_reply.c: two small answers.
 *
 * HOW     Ids are printed straight into the buffer: a million JSON integers would take a hundred
 *         times the text's memory.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize_reply.h"

#include "server/byte_buffer.h"
#include "server/json_text.h"

enum status tokenize_reply(const uint32_t *ids, size_t n_ids, uint32_t context, char **ret_json,
                           size_t *ret_len)
{
    struct byte_buffer text;
    byte_buffer_init(&text, INT32_MAX);
    byte_buffer_text(&text, "{\"tokens\":[");
    for (size_t i = 0; i < n_ids; i++)
        byte_buffer_format(&text, "%s%u", i > 0 ? "," : "", ids[i]);
    byte_buffer_format(&text, "],\"count\":%zu,\"max_model_len\":%u}", n_ids, context);
    byte_buffer_append(&text, "", 1);
    *ret_json = NULL;
    *ret_len = 0;
    if (text.failed) {
        byte_buffer_release(&text);
        return STATUS_NO_MEMORY;
    }
    *ret_json = text.bytes;
    *ret_len = text.len - 1;
    return OK;
}

enum status detokenize_reply(struct slice text, char **ret_json, size_t *ret_len)
{
    json_t *reply = json_pack("{s:o}", "prompt", json_text_string(text));
    return json_text_print(&reply, ret_json, ret_len);
}
