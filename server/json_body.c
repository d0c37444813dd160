/* json_body.c: scan, then jansson, then the top level.
 *
 * HOW     jansson reads the body through a callback that shows it a 0 in place of the one integer
 *         it could not hold.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/json_body.h"

#include "server/json_memory.h"

struct feed {
    struct slice bytes;
    size_t at;
    struct json_big big;
};

static size_t feed_next(void *buffer, size_t room, void *user)
{
    struct feed *feed = user;
    size_t n = feed->bytes.len - feed->at < room ? feed->bytes.len - feed->at : room;
    char *to = buffer;
    if (n > 0)
        memcpy(to, feed->bytes.bytes + feed->at, n);
    for (size_t i = feed->big.from; i < feed->big.to; i++)
        if (i >= feed->at && i < feed->at + n)
            to[i - feed->at] = i == feed->big.from ? '0' : ' ';
    feed->at += n;
    return n;
}

static enum status refuse(const json_error_t *error, struct why *ret_why)
{
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0')
        return why_set(ret_why, STATUS_NO_MEMORY, "", "the body: %s",
                       status_text(STATUS_NO_MEMORY));
    bool is_nul = json_error_code(error) == json_error_null_character ||
                  json_error_code(error) == json_error_null_byte_in_key;
    if (is_nul)
        return why_set(
            ret_why, STATUS_BAD_REQUEST, "",
            "the body has a string with \\u0000 (line %d, column %d); no text here may hold a NUL",
            error->line, error->column);
    return why_set(ret_why, STATUS_BAD_REQUEST, "",
                   "the body is not JSON that is served: %s (line %d, column %d)", error->text,
                   error->line, error->column);
}

enum status json_body_parse(struct slice bytes, const char *big_field, struct json_body *ret_body,
                            struct why *ret_why)
{
    *ret_body = (struct json_body){0};
    struct feed feed = {.bytes = bytes};
    TRY(json_scan(bytes, big_field, &feed.big, ret_why));
    json_error_t error = {.text = ""};
    json_memory_parse_begin();
    json_t *root =
        json_load_callback(feed_next, &feed, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (json_memory_parse_end()) {
        json_decref(root);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "the body: %s",
                       status_text(STATUS_NO_MEMORY));
    }
    if (root == NULL)
        return refuse(&error, ret_why);
    if (!json_is_object(root)) {
        json_decref(root);
        return why_set(ret_why, STATUS_BAD_REQUEST, "", "the body is JSON, but no object");
    }
    *ret_body = (struct json_body){root, feed.big};
    return OK;
}
