/* response.c: status lines, headers, lengths and chunks.
 *
 * HOW     Headers are formatted straight into the connection's buffer. The date is made once a second.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/response.h"

#include "server/error_reply.h"
#include "server/log.h"
#include "server/retry_after.h"

enum { HEAD_BYTES = 1024, ALLOW_BYTES = 96, DETAIL_BYTES_MAX = 1 << 20 };

static const char *http_date(void)
{
    static char text[40];
    static time_t made = -1;
    time_t now = time(NULL);
    struct tm utc;
    if (now != made && gmtime_r(&now, &utc) != NULL) {
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
        made = now;
    }
    return text;
}

static const char *reason(int http_status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {HTTP_STATUS_OK, "OK"},
        {HTTP_STATUS_CREATED, "Created"},
        {HTTP_STATUS_ACCEPTED, "Accepted"},
        {HTTP_STATUS_BAD_REQUEST, "Bad Request"},
        {HTTP_STATUS_UNAUTHORIZED, "Unauthorized"},
        {HTTP_STATUS_FORBIDDEN, "Forbidden"},
        {HTTP_STATUS_NOT_FOUND, "Not Found"},
        {HTTP_STATUS_METHOD_NOT_ALLOWED, "Method Not Allowed"},
        {HTTP_STATUS_REQUEST_TIMEOUT, "Request Timeout"},
        {HTTP_STATUS_CONFLICT, "Conflict"},
        {HTTP_STATUS_PRECONDITION_FAILED, "Precondition Failed"},
        {HTTP_STATUS_PRECONDITION_REQUIRED, "Precondition Required"},
        {HTTP_STATUS_PAYLOAD_TOO_LARGE, "Content Too Large"},
        {HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type"},
        {HTTP_STATUS_EXPECTATION_FAILED, "Expectation Failed"},
        {HTTP_STATUS_UNPROCESSABLE_ENTITY, "Unprocessable Content"},
        {HTTP_STATUS_TOO_MANY_REQUESTS, "Too Many Requests"},
        {HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE, "Request Header Fields Too Large"},
        {HTTP_STATUS_CLIENT_CLOSED_REQUEST, "Client Closed Request"},
        {HTTP_STATUS_INTERNAL_SERVER_ERROR, "Internal Server Error"},
        {HTTP_STATUS_SERVICE_UNAVAILABLE, "Service Unavailable"},
        {HTTP_STATUS_HTTP_VERSION_NOT_SUPPORTED, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == http_status)
            return reasons[i].text;
    return "Answer"; /* a reason is a courtesy: clients go by the number */
}

/* Status line and the headers that every answer has. The empty line is the caller's. */
static void write_head(struct connection *c, int http_status, const char *content_type)
{
    const struct http_head *head = connection_head(c);
    const char *arm, *generation = connection_generation(c, &arm);
    char text[HEAD_BYTES];
    bool is_kept = connection_is_kept(c);
    const char *connection = !is_kept                   ? "Connection: close\r\n"
                             : head->minor_version == 0 ? "Connection: keep-alive\r\n"
                                                        : "";
    int n = snprintf(text, sizeof text, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n%s",
                     http_status, reason(http_status), http_date(), content_type, connection);
    if (connection_request_id(c)[0] != '\0')
        n += snprintf(text + n, sizeof text - (size_t)n, "x-request-id: %s\r\n",
                      connection_request_id(c));
    if (generation[0] != '\0')
        n += snprintf(text + n, sizeof text - (size_t)n, "x-foldkv-generation: %s\r\n",
                      generation);
    if (arm != NULL)
        n += snprintf(text + n, sizeof text - (size_t)n, "x-foldkv-arm: %s\r\n", arm);
    ASSERT(n > 0 && (size_t)n < sizeof text);
    connection_write(c, text, (size_t)n);
}

static void write_text(struct connection *c, const char *text)
{
    connection_write(c, text, strlen(text));
}

static bool is_head_request(const struct connection *c)
{
    const char *method = connection_head(c)->method;
    return method != NULL && strcmp(method, "HEAD") == 0;
}

static void log_answer(struct connection *c, int http_status)
{
    const struct http_head *head = connection_head(c);
    if (log_is_on(LOG_LEVEL_DEBUG))
        log_event(LOG_LEVEL_DEBUG, "answer", "%s %s %s %d", connection_request_id(c),
                  head->method != NULL ? head->method : "-", head->path != NULL ? head->path : "-",
                  http_status);
}

static void finish(struct connection *c, int http_status, const void *body, size_t len)
{
    char length[64];
    snprintf(length, sizeof length, "Content-Length: %zu\r\n\r\n", len);
    write_text(c, length);
    if (!is_head_request(c))
        connection_write(c, body, len);
    log_answer(c, http_status);
    connection_end(c);
}

void response_headed(struct connection *c, int http_status, const char *content_type,
                     const char *headers, const void *body, size_t len)
{
    connection_begin(c, http_status);
    write_head(c, http_status, content_type);
    write_text(c, headers);
    finish(c, http_status, body, len);
}

void response_whole(struct connection *c, int http_status, const char *content_type,
                    const void *body, size_t len)
{
    response_headed(c, http_status, content_type, "", body, len);
}

void response_json(struct connection *c, const char *json, size_t len)
{
    response_whole(c, HTTP_STATUS_OK, "application/json", json, len);
}

/* What a status asks for beside its body. */
static void write_error_headers(struct connection *c, enum status status)
{
    char header[ALLOW_BYTES];
    if (status_is_retryable(status)) {
        snprintf(header, sizeof header, "Retry-After: %u\r\n",
                 retry_after_s(connection_service(c)));
        write_text(c, header);
    }
    if (status == STATUS_METHOD_NOT_ALLOWED) {
        snprintf(header, sizeof header, "Allow: %s\r\n", connection_allowed(c));
        write_text(c, header);
    }
    if (status == STATUS_UNAUTHENTICATED)
        write_text(c, "WWW-Authenticate: Bearer\r\n");
}

void response_error_detailed(struct connection *c, enum status status, const struct why *why,
                             const char *headers, const char *detail)
{
    char json[ERROR_REPLY_BYTES];
    size_t len = error_reply(status, why, json);
    struct byte_buffer body;
    byte_buffer_init(&body, DETAIL_BYTES_MAX);
    if (detail != NULL) { /* before the two braces that end the error */
        byte_buffer_append(&body, json, len - 2);
        byte_buffer_text(&body, ",\"detail\":");
        byte_buffer_text(&body, detail);
        byte_buffer_text(&body, "}}");
    }
    bool has_detail = body.len > len && !body.failed;
    connection_begin(c, status_http(status));
    write_head(c, status_http(status), "application/json");
    write_error_headers(c, status);
    write_text(c, headers);
    finish(c, status_http(status), has_detail ? body.bytes : json, has_detail ? body.len : len);
    byte_buffer_release(&body);
}

void response_error(struct connection *c, enum status status, const struct why *why)
{
    response_error_detailed(c, status, why, "", NULL);
}

void response_stream_begin(struct connection *c, const char *content_type)
{
    bool is_chunked = connection_head(c)->minor_version == 1;
    if (!is_chunked)
        connection_set_not_kept(c);
    connection_begin(c, HTTP_STATUS_OK);
    write_head(c, HTTP_STATUS_OK, content_type);
    write_text(c, is_chunked ? "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
                             : "Cache-Control: no-cache\r\n\r\n");
    log_answer(c, HTTP_STATUS_OK);
}

void response_piece_begin(struct connection *c, size_t len)
{
    char size[32];
    ASSERT(len > 0); /* an empty chunk would end the body */
    if (connection_head(c)->minor_version == 1) {
        snprintf(size, sizeof size, "%zx\r\n", len);
        write_text(c, size);
    }
}

void response_piece_end(struct connection *c)
{
    if (connection_head(c)->minor_version == 1)
        write_text(c, "\r\n");
}

void response_stream_end(struct connection *c)
{
    if (connection_head(c)->minor_version == 1)
        write_text(c, "0\r\n\r\n");
    connection_end(c);
}
