/* smuggling_test.c: requests that two parsers could read differently are refused on the wire, and the connection closed.
 *
 * The parser's own cases are in http_parse_test; here the bytes go through sockets, and a request hidden behind each must get no answer. */
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

#define HOST "Host: a\r\n"
#define POST "POST /tokenize HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
#define HIDDEN "GET /livez HTTP/1.1\r\n" HOST "\r\n"

static const struct {
    const char *what, *bytes;
    int status;
} cases[] = {
    {"CR LF CR X", "GET /livez HTTP/1.1\r\n" HOST "\r\n\rX" HIDDEN,
     200}, /* the first is whole; what follows is refused */
    {"chunk data without CRLF", POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n" HIDDEN,
     400},
    {"8-bit byte in the target", "GET /\xe9 HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400},
    {"folded header", "GET /livez HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n" HIDDEN, 400},
    {"folded Transfer-Encoding", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" HIDDEN,
     400},
    {"folded trailer", POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\r\n\tb\r\n\r\n" HIDDEN,
     400},
    {"no Host", "GET /livez HTTP/1.1\r\n\r\n" HIDDEN, 400},
    {"two Hosts", "GET /livez HTTP/1.1\r\n" HOST HOST "\r\n" HIDDEN, 400},
    {"Transfer-Encoding on 1.0",
     "POST /tokenize HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400},
    {"HTTP/2.0", "GET /livez HTTP/2.0\r\n" HOST "\r\n" HIDDEN, 505},
    {"two empty lines first", "\r\n\r\n" HIDDEN, 400},
    {"bare LF", "GET /livez HTTP/1.1\n" HOST "\n" HIDDEN, 400},
    {"bare CR", "GET /livez HTTP/1.1\r\nHost: a\rX: b\r\n\r\n" HIDDEN, 400},
    {"length and chunks",
     POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400},
    {"two lengths", POST "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" HIDDEN, 400},
    {"list of lengths", POST "Content-Length: 2, 2\r\n\r\n{}" HIDDEN, 400},
    {"signed length", POST "Content-Length: +2\r\n\r\n{}" HIDDEN, 400},
    {"xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" HIDDEN, 400},
    {"chunk size 0x2", POST "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" HIDDEN, 400},
    {"space before the colon", POST "Content-Length : 2\r\n\r\n{}" HIDDEN, 400},
    {"body that no route takes",
     "POST /livez HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}" HIDDEN, 405},
    {"unknown expectation", POST "Expect: miracles\r\nContent-Length: 2\r\n\r\n{}" HIDDEN, 417},
    {"CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 404},
};

START_TEST(refused_on_the_wire)
{
    struct daemon *daemon = victim_start(NULL);
    int descriptors = daemon_descriptors(daemon);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct peer *p = peer_connect(daemon_port(daemon));
        ck_assert(peer_say(p, cases[i].bytes));
        struct reply r = peer_reply(p, 10, false);
        ck_assert_msg(r.status == cases[i].status, "%s: %d instead of %d", cases[i].what, r.status,
                      cases[i].status);
        if (cases[i].status / 100 == 2) {
            reply_release(&r);
            r = peer_reply(p, 10, false);
            ck_assert_msg(r.status == 400, "%s: second answer %d", cases[i].what, r.status);
        }
        reply_release(&r);
        if (strcmp(cases[i].what, "CONNECT") != 0) {
            r = peer_reply(p, 10, false);
            ck_assert_msg(r.status == 0, "%s: the hidden request was answered %d", cases[i].what,
                          r.status);
            reply_release(&r);
        }
        peer_free(&p);
    }
    ck_assert(peer_metric(daemon_port(daemon), "foldkv_http_malformed_total") >= 18);
    victim_require_service(daemon);
    victim_require_rest(daemon);
    victim_stop(&daemon, descriptors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("smuggling");
    TCase *tcase = tcase_create("smuggling");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_test(tcase, refused_on_the_wire);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
