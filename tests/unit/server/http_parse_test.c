/* http_parse_test.c: what must be refused is refused however the bytes are cut; what must pass gives the same parts.
 *
 * HOW     Each case runs whole, byte by byte, and cut in two at every place.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/http_parse.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { BODY_MAX = 1000 };

/* What a stream of bytes came to. */
struct outcome {
    int n_whole;        /* requests that were complete */
    enum status status; /* OK, or the refusal that ended the stream */
    char seen[2048];    /* "METHOD path?query [body]" of each, one a line */
};

static void note_request(struct outcome *o, const struct http_parse *p)
{
    size_t len = strlen(o->seen);
    snprintf(o->seen + len, sizeof o->seen - len, "%s %s?%s [%.*s]\n", p->head.method, p->head.path,
             p->head.query, (int)p->body.len, p->body.len > 0 ? p->body.bytes : "");
    o->n_whole++;
}

static void feed(struct http_parse *p, const char *bytes, size_t len, struct outcome *o)
{
    size_t used = 0;
    while (o->status == OK) {
        size_t n = 0;
        enum http_event event = http_parse_feed(p, bytes + used, len - used, &n);
        used += n;
        ck_assert_uint_le(used, len);
        if (event == HTTP_REFUSED)
            o->status = p->status;
        if (event == HTTP_WHOLE) {
            note_request(o, p);
            http_parse_clear(p);
        }
        if (event == HTTP_MORE) {
            ck_assert_uint_eq(used, len);
            return;
        }
    }
}

/* Runs bytes with a cut at each of the two places. */
static struct outcome run_cut(const char *bytes, size_t len, size_t step, size_t cut)
{
    struct http_parse p;
    struct outcome o = {0};
    http_parse_init(&p, BODY_MAX);
    if (step > 0) {
        for (size_t i = 0; i < len && o.status == OK; i += step)
            feed(&p, bytes + i, len - i < step ? len - i : step, &o);
    } else {
        feed(&p, bytes, cut, &o);
        if (o.status == OK)
            feed(&p, bytes + cut, len - cut, &o);
    }
    http_parse_release(&p);
    return o;
}

static struct outcome run_all_cuts(const char *bytes, size_t len)
{
    struct outcome whole = run_cut(bytes, len, 0, len);
    struct outcome bytewise = run_cut(bytes, len, 1, 0);
    ck_assert_str_eq(whole.seen, bytewise.seen);
    ck_assert_msg(whole.status == bytewise.status, "%s, bytewise %s: %s", status_code(whole.status),
                  status_code(bytewise.status), bytes);
    for (size_t cut = 0; cut <= len; cut++) {
        struct outcome o = run_cut(bytes, len, 0, cut);
        ck_assert_int_eq(o.status, whole.status);
        ck_assert_str_eq(o.seen, whole.seen);
    }
    return whole;
}

#define HOST "Host: a\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST

static const struct refusal {
    const char *what, *bytes;
    enum status status;
} refusals[] = {
    {"CR LF CR X ends headers", "GET / HTTP/1.1\r\n" HOST "\r\n\rX", STATUS_BAD_REQUEST},
    {"chunk data without CRLF", POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"8-bit byte in the target", "GET /\xff HTTP/1.1\r\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"folded value", "GET / HTTP/1.1\r\n" HOST "X: y\r\n z\r\n\r\n", STATUS_BAD_REQUEST},
    {"folded by a tab", "GET / HTTP/1.1\r\n" HOST "X: y\r\n\tz\r\n\r\n", STATUS_BAD_REQUEST},
    {"folded Transfer-Encoding", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"blank before the first header", "GET / HTTP/1.1\r\n " HOST "\r\n", STATUS_BAD_REQUEST},
    {"folded trailer", POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"trailer that begins blank", POST "Transfer-Encoding: chunked\r\n\r\n0\r\n X: y\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"no Host", "GET / HTTP/1.1\r\n\r\n", STATUS_BAD_REQUEST},
    {"two Hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", STATUS_BAD_REQUEST},
    {"two Hosts on 1.0", "GET / HTTP/1.0\r\n" HOST HOST "\r\n", STATUS_BAD_REQUEST},
    {"Host with a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", STATUS_BAD_REQUEST},
    {"Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", STATUS_BAD_REQUEST},
    {"Transfer-Encoding on 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"HTTP/2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", STATUS_HTTP_VERSION},
    {"HTTP/0.9", "GET / HTTP/0.9\r\n" HOST "\r\n", STATUS_HTTP_VERSION},
    {"no version", "GET /\r\n" HOST "\r\n", STATUS_HTTP_VERSION},
    {"HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", STATUS_HTTP_VERSION},
    {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", STATUS_HTTP_VERSION},
    {"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"LF first", "\nGET / HTTP/1.1\r\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"CR alone first", "\rGET / HTTP/1.1\r\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"bare LF", "GET / HTTP/1.1\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"bare LF ends the headers", "GET / HTTP/1.1\r\n" HOST "\n", STATUS_BAD_REQUEST},
    {"bare LF ends a trailer", POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
     STATUS_BAD_REQUEST},
    {"bare LF ends a chunk size", POST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"bare LF behind a header", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", STATUS_BAD_REQUEST},
    {"bare CR", "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", STATUS_BAD_REQUEST},
    {"length and chunks", POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"chunks and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"two lengths", POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", STATUS_BAD_REQUEST},
    {"list of lengths", POST "Content-Length: 3, 3\r\n\r\nabc", STATUS_BAD_REQUEST},
    {"signed length", POST "Content-Length: +3\r\n\r\nabc", STATUS_BAD_REQUEST},
    {"negative length", POST "Content-Length: -3\r\n\r\nabc", STATUS_BAD_REQUEST},
    {"hexadecimal length", POST "Content-Length: 0x3\r\n\r\nabc", STATUS_BAD_REQUEST},
    {"length over 64 bits", POST "Content-Length: 99999999999999999999\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", STATUS_BAD_REQUEST},
    {"chunked twice",
     POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"gzip and chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"identity", POST "Transfer-Encoding: identity\r\n\r\n", STATUS_BAD_REQUEST},
    {"chunk size 0x3", POST "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"chunk size +3", POST "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
     STATUS_BAD_REQUEST},
    {"chunk size over 64 bits", POST "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
     STATUS_BAD_REQUEST},
    {"NUL in a value", NULL,
     STATUS_BAD_REQUEST}, /* its bytes are below: a string literal would end there */
    {"space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", STATUS_BAD_REQUEST},
    {"header without a name", "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", STATUS_BAD_REQUEST},
    {"lower-case method", "get / HTTP/1.1\r\n" HOST "\r\n", STATUS_BAD_REQUEST},
    {"a TLS hello", "\x16\x03\x01\x02", STATUS_BAD_REQUEST},
    {"length over the limit", POST "Content-Length: 1001\r\n\r\n", STATUS_TOO_LARGE},
    {"chunk over the limit", POST "Transfer-Encoding: chunked\r\n\r\n3e9\r\n", STATUS_TOO_LARGE},
    {"unknown expectation", POST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n",
     STATUS_EXPECTATION_FAILED},
};

START_TEST(refuses)
{
    static const char with_nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    const struct refusal *r = &refusals[_i];
    const char *bytes = r->bytes != NULL ? r->bytes : with_nul;
    size_t len = r->bytes != NULL ? strlen(r->bytes) : sizeof with_nul - 1;
    struct outcome o = run_all_cuts(bytes, len);
    ck_assert_msg(o.status == r->status, "%s: %s instead of %s", r->what, status_code(o.status),
                  status_code(r->status));
}
END_TEST

static const struct passing {
    const char *what, *bytes, *seen;
} passing[] = {
    {"plain", "GET /a?b=c HTTP/1.1\r\n" HOST "\r\n", "GET /a?b=c []\n"},
    {"one empty line first", "\r\nGET /a HTTP/1.1\r\n" HOST "\r\n", "GET /a? []\n"},
    {"1.0 without Host", "GET /a HTTP/1.0\r\n\r\n", "GET /a? []\n"},
    {"absolute target", "GET http://h:1/a/b?c HTTP/1.1\r\n" HOST "\r\n", "GET /a/b?c []\n"},
    {"body by length", POST "Content-Length: 5\r\n\r\n a\r\n ", "POST /? [ a\r\n ]\n"},
    {"body of a blank line and a blank", POST "Content-Length: 5\r\n\r\n\r\n \r\n",
     "POST /? [\r\n \r\n]\n"},
    {"body by chunks",
     POST "Transfer-Encoding: chunked\r\n\r\n3\r\n a\r\r\n2;x=y\r\n\n \r\n0\r\n\r\n",
     "POST /? [ a\r\n ]\n"},
    {"trailers", POST "Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
     "POST /? [a]\n"},
    {"pipelined",
     "GET /1 HTTP/1.1\r\n" HOST "\r\n" POST "Content-Length: 2\r\n\r\nhiGET /2 HTTP/1.1\r\n" HOST
     "\r\n",
     "GET /1? []\nPOST /? [hi]\nGET /2? []\n"},
    {"pipelined behind chunks",
     POST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n",
     "POST /? [a]\nGET /2? []\n"},
    {"behind a close",
     "GET /1 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n",
     "GET /1? []\nGET /2? []\n"},
    {"an upgrade that is not taken",
     "GET /1 HTTP/1.1\r\n" HOST
     "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n",
     "GET /1? []\nGET /2? []\n"},
    {"empty header value", "GET /1 HTTP/1.1\r\n" HOST "X:\r\nY: \r\n\r\n", "GET /1? []\n"},
};

START_TEST(passes)
{
    struct outcome o = run_all_cuts(passing[_i].bytes, strlen(passing[_i].bytes));
    ck_assert_msg(o.status == OK, "%s: %s", passing[_i].what, status_code(o.status));
    ck_assert_str_eq(o.seen, passing[_i].seen);
}
END_TEST

START_TEST(keeps_the_headers_it_needs)
{
    const char *text = "POST /v1 HTTP/1.1\r\nhOST: [::1]:80 \r\nContent-Type: application/json; "
                       "charset=utf-8\t\r\nX-Request-Id: one\r\n"
                       "X-Request-Id: two\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n{}";
    struct http_parse p;
    size_t used;
    http_parse_init(&p, BODY_MAX);
    ck_assert_int_eq(http_parse_feed(&p, text, strlen(text), &used), HTTP_HEAD_IN);
    ck_assert_uint_eq(used, strlen(text) - 2);
    ck_assert_str_eq(p.head.host.text, "[::1]:80");
    ck_assert_str_eq(p.head.content_type.text, "application/json; charset=utf-8");
    ck_assert_str_eq(p.head.request_id.text, "one");
    ck_assert(p.head.expects_continue && p.head.keep_alive && !p.head.is_chunked);
    ck_assert_uint_eq(p.head.content_length, 2);
    ck_assert_int_eq(http_parse_feed(&p, text + used, 2, &used), HTTP_WHOLE);
    ck_assert_uint_eq(p.body.len, 2);
    http_parse_release(&p);
}
END_TEST

START_TEST(keep_alive_follows_version_and_header)
{
    static const struct {
        const char *text;
        bool keep_alive;
    } cases[] = {{"GET / HTTP/1.1\r\n" HOST "\r\n", true},
                 {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_parse p;
        size_t used;
        http_parse_init(&p, BODY_MAX);
        ck_assert_int_eq(http_parse_feed(&p, cases[i].text, strlen(cases[i].text), &used),
                         HTTP_HEAD_IN);
        ck_assert_int_eq(p.head.keep_alive, cases[i].keep_alive);
        http_parse_release(&p);
    }
}
END_TEST

/* A head of a request line padded by n bytes and m header lines of h bytes each. */
static enum status status_of_head(size_t target, size_t n_headers, size_t header)
{
    char *text = mem_zalloc(1, target + n_headers * (header + 8) + 256);
    ck_assert_ptr_nonnull(text);
    size_t len = (size_t)snprintf(text, 64, "GET /");
    memset(text + len, 'a', target);
    len += target;
    len += (size_t)snprintf(text + len, 64, " HTTP/1.1\r\n" HOST);
    for (size_t i = 0; i < n_headers; i++) {
        memcpy(text + len, "X: ", 3);
        memset(text + len + 3, 'b', header - 3);
        memcpy(text + len + header, "\r\n", 2);
        len += header + 2;
    }
    memcpy(text + len, "\r\n", 2);
    struct outcome o = run_cut(text, len + 2, 4096, 0);
    mem_free(text);
    return o.status;
}

START_TEST(limits_hold_at_their_edges)
{
    const size_t line = strlen("GET / HTTP/1.1");
    ck_assert_int_eq(status_of_head(HTTP_LINE_MAX - line, 0, 0), OK);
    ck_assert_int_eq(status_of_head(HTTP_LINE_MAX - line + 1, 0, 0), STATUS_HEADER_TOO_LARGE);
    ck_assert_int_eq(status_of_head(0, 1, HTTP_LINE_MAX), OK);
    ck_assert_int_eq(status_of_head(0, 1, HTTP_LINE_MAX + 1), STATUS_HEADER_TOO_LARGE);
    ck_assert_int_eq(status_of_head(0, HTTP_HEADERS_MAX - 1, 10), OK); /* and Host */
    ck_assert_int_eq(status_of_head(0, HTTP_HEADERS_MAX, 10), STATUS_HEADER_TOO_LARGE);
    ck_assert_int_eq(status_of_head(0, 4, 8000), OK);
    ck_assert_int_eq(status_of_head(0, 5, 8000), STATUS_HEADER_TOO_LARGE);
}
END_TEST

START_TEST(long_values_are_marked)
{
    char text[2048];
    struct http_parse p;
    size_t used;
    http_parse_init(&p, BODY_MAX);
    memset(text, 'a', sizeof text);
    int n = snprintf(text, sizeof text,
                     "GET /%01100d HTTP/1.1\r\n" HOST "X-Request-Id: %0129d\r\n\r\n", 0, 0);
    ck_assert_int_eq(http_parse_feed(&p, text, (size_t)n, &used), HTTP_HEAD_IN);
    ck_assert(p.head.is_target_long);
    ck_assert(p.head.request_id.has && p.head.request_id.is_long);
    http_parse_release(&p);
}
END_TEST

START_TEST(body_limits_hold)
{
    char text[8192];
    int n =
        snprintf(text, sizeof text, POST "Content-Length: %d\r\n\r\n%0*d", BODY_MAX, BODY_MAX, 0);
    ck_assert_int_eq(run_cut(text, (size_t)n, 7, 0).n_whole, 1);
    size_t len = (size_t)snprintf(text, sizeof text, POST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < BODY_MAX / 2; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "1;abc\r\na\r\n");
    struct outcome o = run_cut(text, len, 100, 0); /* half the body, but five times as much frame */
    ck_assert_int_eq(o.status, STATUS_TOO_LARGE);
}
END_TEST

START_TEST(no_memory_for_a_body_is_a_refusal)
{
    const char *text = POST "Content-Length: 3\r\n\r\nabc";
    mem_fail_nth(1);
    struct outcome o = run_cut(text, strlen(text), 0, 0);
    ck_assert(mem_failure_struck());
    mem_fail_nth(0);
    ck_assert_int_eq(o.status, STATUS_NO_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_parse");
    TCase *tcase = tcase_create("http_parse");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, keeps_the_headers_it_needs);
    tcase_add_test(tcase, keep_alive_follows_version_and_header);
    tcase_add_loop_test(tcase, passes, 0, (int)ARRAY_LEN(passing));
    tcase_add_loop_test(tcase, refuses, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(tcase, limits_hold_at_their_edges);
    tcase_add_test(tcase, long_values_are_marked);
    tcase_add_test(tcase, body_limits_hold);
    tcase_add_test(tcase, no_memory_for_a_body_is_a_refusal);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
