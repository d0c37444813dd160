/* http_parse.h: HTTP/1.x requests off a stream of bytes, strictly: llhttp plus the rules that llhttp cannot see.
 *
 * Feed it bytes; it stops after a request's head and after its body, so that the caller can refuse before a body is read and
 * answer one request before it looks at the next. Embedded in its connection; loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_HTTP_PARSE_H
#define FOLDKV_SERVER_HTTP_PARSE_H

#include <llhttp/llhttp.h>

#include "config/why.h"
#include "server/byte_buffer.h"

enum {
    HTTP_TARGET_MAX =
        1024, /* bytes of a request target that are kept; a longer one matches no route */
    HTTP_LINE_MAX = 8192,  /* the request line, and each header line */
    HTTP_HEAD_MAX = 32768, /* request line, headers and trailers together */
    HTTP_HEADERS_MAX = 100
};

/* A header value; has is false if it was absent. */
#define HEADER(member, name, size, twice)                                                          \
    struct http_value_##member {                                                                   \
        bool has, is_long;                                                                         \
        char text[size];                                                                           \
    };
#include "server/http_head.def"
#undef HEADER

struct http_head {
    const char *method; /* "GET"; a static string */
    char target[HTTP_TARGET_MAX];
    bool is_target_long;
    char *path;  /* into target: no query, no scheme and authority */
    char *query; /* into target, behind the '?'; "" if none */
    uint8_t minor_version;
    bool keep_alive;
    bool is_chunked;
    bool expects_continue;
    uint64_t content_length; /* 0 if not given */
#define HEADER(member, name, size, twice) struct http_value_##member member;
#include "server/http_head.def"
#undef HEADER
};

enum http_event {
    HTTP_MORE,    /* every byte is used; more are needed */
    HTTP_HEAD_IN, /* the head is complete; feed on for the body (with no bytes if there are none) */
    HTTP_WHOLE,   /* head and body are complete; http_parse_clear before the next request */
    HTTP_REFUSED /* the stream is of no use any more; status and why say what to answer before closing */
};

enum http_phase {
    PHASE_START,
    PHASE_HEAD,
    PHASE_HEAD_IN,
    PHASE_BODY,
    PHASE_TRAILER,
    PHASE_WHOLE,
    PHASE_REFUSED
};

struct http_parse {
    llhttp_t llhttp;
    enum http_phase phase;
    struct http_head head;
    struct byte_buffer body;
    enum status status; /* with PHASE_REFUSED */
    struct why why;
    /* the rest is the parser's own */
    uint32_t n_leading; /* CR and LF before the request line */
    uint32_t n_headers;
    uint64_t head_bytes;
    uint64_t line_bytes;
    uint64_t framing_bytes; /* of chunks: sizes, extensions, line ends */
    bool is_line_start;     /* the byte before ended a line */
    char last;              /* the byte before */
    size_t name_len;
    char name[24];
    int value_index; /* row of http_head.def that the current header is, or -1 */
    size_t value_len;
};

void http_parse_init(struct http_parse *p, size_t body_bytes_max);
void http_parse_release(struct http_parse *p);
/* Ready for the next request on the same stream. */
void http_parse_clear(struct http_parse *p);
/* Uses up to len bytes, *ret_used of them, and says what has come of it. */
enum http_event http_parse_feed(struct http_parse *p, const char *bytes, size_t len,
                                size_t *ret_used);
/* True between requests: nothing of the next one's request line is here. */
bool http_parse_is_idle(const struct http_parse *p);
/* The body is application/json or anything +json; parameters do not matter. */
bool http_head_is_json(const struct http_head *head);
/* There is one, maybe empty if it comes in chunks. */
bool http_head_has_body(const struct http_head *head);

#endif
