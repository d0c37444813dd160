/* http_parse.c: llhttp in strict mode, stopped at each border, with its gaps closed.
 *
 * WHY     Two parsers that disagree on where a request ends let one client speak in another's name. So whatever RFC 9112 forbids
 *         or leaves open is refused, and the connection closed.
 * HOW     llhttp is paused at headers-complete, at the last chunk's header and at message-complete, so the bytes it used in
 *         between are exactly the header block, the body and the trailers. The header block and the trailers are scanned for
 *         folded lines (CRLF, then SP or HT) and bare LF, which llhttp 8 lets pass, and for the limits. CR and LF before the request line
 *         are eaten here, one pair at most. Host, Transfer-Encoding, Expect and the version are judged when the head is in.
 * ALWAYS  (1) A body byte is never scanned as a header, nor a header byte left unscanned.    feed_llhttp
 *         (2) A body never grows past its maximum, nor do its chunks' frames.                on_body, on_chunk_header
 *         (3) After a refusal no byte is used.                                               http_parse_feed
 * THREAD  loop
 * NOT     Decoding: a target is kept as it came.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/http_parse.h"

#include <strings.h>

enum twice { TWICE_REFUSED, TWICE_IGNORED };

struct header_row {
    const char *name;
    size_t value_offset; /* of text in struct http_head */
    size_t has_offset, is_long_offset;
    size_t size;
    enum twice twice;
};

static const struct header_row header_rows[] = {
#define HEADER(member, name, size, twice)                                                          \
    {name,                                                                                         \
     offsetof(struct http_head, member.text),                                                      \
     offsetof(struct http_head, member.has),                                                       \
     offsetof(struct http_head, member.is_long),                                                   \
     size,                                                                                         \
     twice},
#include "server/http_head.def"
#undef HEADER
};

/* Records the refusal; what llhttp then says of its own does not matter. */
static int refuse(struct http_parse *p, enum status status, const char *field, const char *text)
{
    if (p->phase != PHASE_REFUSED) {
        p->status = why_set(&p->why, status, field, "%s", text);
        p->phase = PHASE_REFUSED;
    }
    return HPE_USER;
}

static int refuse_size(struct http_parse *p, uint64_t bytes)
{
    char text[96];
    snprintf(text, sizeof text, "the body has %llu bytes or more; at most %zu are taken",
             (unsigned long long)bytes, p->body.max);
    return refuse(p, STATUS_TOO_LARGE, "body", text);
}

static int on_target(llhttp_t *llhttp, const char *bytes, size_t len)
{
    struct http_parse *p = llhttp->data;
    size_t held = strlen(p->head.target);
    if (p->head.is_target_long || len >= sizeof p->head.target - held) {
        p->head.is_target_long = true;
        p->head.target[0] = '\0';
        return 0;
    }
    memcpy(p->head.target + held, bytes, len); /* the rest is zero: a target holds no NUL */
    return 0;
}

static int on_version_complete(llhttp_t *llhttp)
{
    if (llhttp->http_major == 1 && llhttp->http_minor <= 1)
        return 0;
    return refuse(llhttp->data, STATUS_HTTP_VERSION, "version",
                  "only HTTP/1.0 and HTTP/1.1 are served");
}

static int on_field(llhttp_t *llhttp, const char *bytes, size_t len)
{
    struct http_parse *p = llhttp->data;
    size_t room = sizeof p->name - 1 - p->name_len;
    size_t kept = len < room ? len : room;
    memcpy(p->name + p->name_len, bytes, kept);
    p->name_len += kept;
    p->name[p->name_len] = '\0';
    return 0;
}

static char *head_at(struct http_parse *p, size_t offset)
{
    return (char *)&p->head + offset;
}

static int on_field_complete(llhttp_t *llhttp)
{
    struct http_parse *p = llhttp->data;
    p->value_index = -1;
    p->value_len = 0;
    if (p->name_len == 0)
        return refuse(p, STATUS_BAD_REQUEST, "headers", "a header line without a name");
    if (++p->n_headers > HTTP_HEADERS_MAX)
        return refuse(p, STATUS_HEADER_TOO_LARGE, "headers", "more than 100 header lines");
    for (size_t i = 0; i < ARRAY_LEN(header_rows) && p->phase == PHASE_HEAD; i++) {
        const struct header_row *row = &header_rows[i];
        if (strcasecmp(p->name, row->name) != 0)
            continue;
        bool *has = (bool *)(void *)head_at(p, row->has_offset);
        if (*has && row->twice == TWICE_REFUSED)
            return refuse(p, STATUS_BAD_REQUEST, row->name,
                          "a header that may come once came twice");
        p->value_index = *has ? -1 : (int)i;
        *has = true;
    }
    p->name_len = 0;
    return 0;
}

static int on_value(llhttp_t *llhttp, const char *bytes, size_t len)
{
    struct http_parse *p = llhttp->data;
    if (p->value_index < 0)
        return 0;
    const struct header_row *row = &header_rows[p->value_index];
    if (len >= row->size - p->value_len) {
        *(bool *)(void *)head_at(p, row->is_long_offset) = true;
        *head_at(p, row->value_offset) = '\0'; /* a part of it would depend on how it arrived */
        p->value_index = -1;
        return 0;
    }
    memcpy(head_at(p, row->value_offset) + p->value_len, bytes, len);
    p->value_len += len;
    return 0;
}

/* Optional white space behind a value is not part of it (RFC 9112 5.1). */
static int on_value_complete(llhttp_t *llhttp)
{
    struct http_parse *p = llhttp->data;
    if (p->value_index < 0)
        return 0;
    char *text = head_at(p, header_rows[p->value_index].value_offset);
    while (p->value_len > 0 && (text[p->value_len - 1] == ' ' || text[p->value_len - 1] == '\t'))
        text[--p->value_len] = '\0';
    p->value_index = -1;
    return 0;
}

static int on_head_complete(llhttp_t *llhttp)
{
    if (llhttp->method != HTTP_CONNECT)
        llhttp->upgrade = 0; /* an Upgrade that is not taken is ignored (RFC 9110 7.8) */
    return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *llhttp)
{
    struct http_parse *p = llhttp->data;
    if (llhttp->content_length > p->body.max - p->body.len)
        return refuse_size(p, p->body.len + llhttp->content_length);
    return llhttp->content_length == 0 ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *llhttp, const char *bytes, size_t len)
{
    struct http_parse *p = llhttp->data;
    if (len > p->body.max - p->body.len)
        return refuse_size(p, p->body.len + len);
    byte_buffer_append(&p->body, bytes, len);
    if (p->body.failed)
        return refuse(p, STATUS_NO_MEMORY, "body", "no memory for the body");
    p->framing_bytes -= len; /* feed_llhttp adds every byte of its run; until then this may wrap */
    return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_url = on_target,
    .on_version_complete = on_version_complete,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void http_parse_init(struct http_parse *p, size_t body_bytes_max)
{
    memset(p, 0, sizeof *p);
    byte_buffer_init(&p->body, body_bytes_max);
    http_parse_clear(p);
}

void http_parse_release(struct http_parse *p)
{
    byte_buffer_release(&p->body);
}

void http_parse_clear(struct http_parse *p)
{
    struct byte_buffer body = p->body;
    memset(p, 0, sizeof *p);
    p->body = body;
    byte_buffer_release(&p->body);
    p->value_index = -1;
    llhttp_init(&p->llhttp, HTTP_REQUEST, &callbacks);
    p->llhttp.data = p;
}

bool http_parse_is_idle(const struct http_parse *p)
{
    return p->phase == PHASE_START;
}

/* Eats the one CRLF that may precede a request line; false if there is more of it, or half of it. */
static bool eat_leading(struct http_parse *p, const char *bytes, size_t len, size_t *used)
{
    while (*used < len && (bytes[*used] == '\r' || bytes[*used] == '\n')) {
        if (p->n_leading >= 2 || bytes[*used] != "\r\n"[p->n_leading])
            return false;
        p->n_leading++;
        (*used)++;
    }
    if (*used == len)
        return true;
    p->phase = PHASE_HEAD;
    return p->n_leading != 1;
}

/* Folded lines and limits in n bytes of a header block or of trailers. */
static void scan_lines(struct http_parse *p, const char *bytes, size_t n)
{
    p->head_bytes += n;
    if (p->head_bytes > HTTP_HEAD_MAX)
        refuse(p, STATUS_HEADER_TOO_LARGE, "headers", "request line and headers are over 32 KiB");
    for (size_t i = 0; i < n; i++) {
        bool is_blank = bytes[i] == ' ' || bytes[i] == '\t';
        if (is_blank && p->is_line_start)
            refuse(p, STATUS_BAD_REQUEST, "headers", "a folded header line");
        p->line_bytes = bytes[i] == '\n' ? 0 : p->line_bytes + 1;
        if (p->line_bytes > HTTP_LINE_MAX + 1) /* its CR is not counted */
            refuse(p, STATUS_HEADER_TOO_LARGE, "headers", "a line of the head is over 8 KiB");
        if (bytes[i] == '\n' && p->last != '\r')
            refuse(p, STATUS_BAD_REQUEST, "headers", "a line that ends in LF alone");
        p->is_line_start = bytes[i] == '\n';
        p->last = bytes[i];
    }
}

static bool is_host_text(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+"
                        ",;=:[]%") == strlen(text);
}

/* path and query; an absolute target loses scheme and authority. */
static void split_target(struct http_head *head)
{
    char *path = head->target;
    char *scheme = strstr(path, "://");
    if (path[0] != '/' && path[0] != '*' && scheme != NULL) {
        char *slash = strchr(scheme + 3, '/');
        path = slash != NULL ? slash : head->target + strlen(head->target);
    }
    char *mark = strchr(path, '?');
    head->path = path;
    head->query = mark != NULL ? mark + 1 : head->target + strlen(head->target);
    if (mark != NULL)
        *mark = '\0';
}

static void judge_version_and_host(struct http_parse *p)
{
    struct http_head *h = &p->head;
    (void)on_version_complete(&p->llhttp); /* a request line without a version has no such event */
    if (h->minor_version == 1 && !h->host.has)
        refuse(p, STATUS_BAD_REQUEST, "host", "HTTP/1.1 needs one Host header");
    if (h->host.is_long || !is_host_text(h->host.text))
        refuse(p, STATUS_BAD_REQUEST, "host", "the Host header is not a host");
}

static void judge_body_framing(struct http_parse *p)
{
    struct http_head *h = &p->head;
    if (h->transfer_encoding.has && h->minor_version == 0)
        refuse(p, STATUS_BAD_REQUEST, "transfer-encoding",
               "Transfer-Encoding is not part of HTTP/1.0");
    if (h->transfer_encoding.has &&
        (h->transfer_encoding.is_long || strcasecmp(h->transfer_encoding.text, "chunked") != 0))
        refuse(p, STATUS_BAD_REQUEST, "transfer-encoding",
               "the only transfer coding served is chunked");
    if (h->transfer_encoding.has && (p->llhttp.flags & F_CONTENT_LENGTH) != 0)
        refuse(p, STATUS_BAD_REQUEST, "content-length", "Content-Length beside Transfer-Encoding");
    if (h->content_length > p->body.max)
        refuse_size(p, h->content_length);
}

static void judge_expect(struct http_parse *p)
{
    struct http_head *h = &p->head;
    if (!h->expect.has || h->minor_version == 0)
        return;
    if (h->expect.is_long || strcasecmp(h->expect.text, "100-continue") != 0)
        refuse(p, STATUS_EXPECTATION_FAILED, "expect",
               "the only expectation served is 100-continue");
    h->expects_continue = true;
}

static enum http_event head_is_in(struct http_parse *p)
{
    struct http_head *h = &p->head;
    h->method = llhttp_method_name((llhttp_method_t)p->llhttp.method);
    h->minor_version = p->llhttp.http_minor;
    h->keep_alive = llhttp_should_keep_alive(&p->llhttp);
    h->is_chunked = (p->llhttp.flags & F_CHUNKED) != 0;
    h->content_length = (p->llhttp.flags & F_CONTENT_LENGTH) != 0 ? p->llhttp.content_length : 0;
    split_target(h);
    judge_version_and_host(p);
    judge_body_framing(p);
    judge_expect(p);
    if (p->phase == PHASE_REFUSED)
        return HTTP_REFUSED;
    p->phase = PHASE_HEAD_IN;
    return HTTP_HEAD_IN;
}

/* What an error of llhttp itself is to the client. */
static void refuse_for(struct http_parse *p, llhttp_errno_t error)
{
    enum status status = error == HPE_INVALID_VERSION ? STATUS_HTTP_VERSION : STATUS_BAD_REQUEST;
    const char *reason = llhttp_get_error_reason(&p->llhttp);
    refuse(p, status, "",
           reason != NULL && reason[0] != '\0' ? reason : "the request is not HTTP/1.1");
}

/* A run of llhttp came to a border; what it is depends on where we were. */
static enum http_event at_border(struct http_parse *p)
{
    if (p->phase == PHASE_HEAD)
        return head_is_in(p);
    bool is_last_chunk = p->phase == PHASE_BODY && p->head.is_chunked;
    p->phase = is_last_chunk ? PHASE_TRAILER : PHASE_WHOLE;
    p->is_line_start = is_last_chunk; /* a trailer may not begin with a blank either */
    return is_last_chunk ? HTTP_MORE : HTTP_WHOLE;
}

/* One run of llhttp over the bytes from *used on. HTTP_MORE with bytes left: run again. */
static enum http_event feed_llhttp(struct http_parse *p, const char *bytes, size_t len,
                                   size_t *used)
{
    const char *start = bytes + *used;
    llhttp_resume(&p->llhttp);
    llhttp_errno_t error = llhttp_execute(&p->llhttp, start, len - *used);
    size_t n = error == HPE_OK ? len - *used : (size_t)(llhttp_get_error_pos(&p->llhttp) - start);
    *used += n;
    if (p->phase == PHASE_HEAD || p->phase == PHASE_TRAILER)
        scan_lines(p, start, n);
    else
        p->framing_bytes += n;
    if (p->phase == PHASE_BODY && p->framing_bytes > p->body.max)
        refuse(p, STATUS_TOO_LARGE, "body", "the chunks' frames are over the body limit");
    if (error != HPE_OK && error != HPE_PAUSED && error != HPE_PAUSED_UPGRADE)
        refuse_for(p, error);
    if (p->phase == PHASE_REFUSED)
        return HTTP_REFUSED;
    return error == HPE_OK ? HTTP_MORE : at_border(p);
}

enum http_event http_parse_feed(struct http_parse *p, const char *bytes, size_t len,
                                size_t *ret_used)
{
    size_t used = 0;
    enum http_event event = HTTP_MORE;
    ASSERT(p->phase != PHASE_WHOLE);
    if (p->phase == PHASE_START && !eat_leading(p, bytes, len, &used))
        refuse(p, STATUS_BAD_REQUEST, "", "more than one empty line before the request line");
    if (p->phase == PHASE_HEAD_IN) {
        p->phase = PHASE_BODY;
        event = feed_llhttp(p, bytes, len,
                            &used); /* also with no bytes: a request without a body ends here */
    }
    while (event == HTTP_MORE && used < len && p->phase != PHASE_REFUSED)
        event = feed_llhttp(p, bytes, len, &used);
    *ret_used = used;
    return p->phase == PHASE_REFUSED ? HTTP_REFUSED : event;
}

bool http_head_is_json(const struct http_head *head)
{
    const char *text = head->content_type.text;
    size_t len = strcspn(text, "; \t");
    if (head->content_type.is_long)
        return false;
    return (len == 16 && strncasecmp(text, "application/json", 16) == 0) ||
           (len > 5 && strncasecmp(text + len - 5, "+json", 5) == 0);
}

bool http_head_has_body(const struct http_head *head)
{
    return head->is_chunked || head->content_length > 0;
}
