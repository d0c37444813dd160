/* error_reply.c: the one shape of every refusal.
 *
 * WHY     It must be possible to say that memory has run out, so nothing here allocates.
 * HOW     A struct why is one printable line of UTF-8; only quotes and backslashes need escaping.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/error_reply.h"

#include "config/unicode.h"

enum { ESCAPED_BYTES = 2 * sizeof((struct why){0}.text) + 1 };

static const char *type_of(int http)
{
    if (http == 401)
        return "authentication_error";
    if (http == 403)
        return "permission_error";
    if (http == 429)
        return "rate_limit_error";
    return http >= 500 ? "server_error" : "invalid_request_error";
}

static const char *escape(const char *text, char ret_text[ESCAPED_BYTES])
{
    ASSERT(unicode_is_printable((struct slice){text, strlen(text)}));
    size_t n = 0;
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            ret_text[n++] = '\\';
        ret_text[n++] = *text;
    }
    ret_text[n] = '\0';
    return ret_text;
}

size_t error_reply(enum status s, const struct why *why, char ret_json[ERROR_REPLY_BYTES])
{
    ASSERT(s != OK);
    char message[ESCAPED_BYTES], field[ESCAPED_BYTES];
    bool has_text = why != NULL && why->text[0] != '\0',
         has_field = has_text && why->field[0] != '\0';
    const char *quote = has_field ? "\"" : "";
    int n = snprintf(
        ret_json, ERROR_REPLY_BYTES,
        "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":%s%s%s,\"code\":\"%s\"}}",
        escape(has_text ? why->text : status_text(s), message), type_of(status_http(s)), quote,
        has_field ? escape(why->field, field) : "null", quote, status_code(s));
    ASSERT(n > 0 && n < ERROR_REPLY_BYTES);
    return (size_t)n;
}
