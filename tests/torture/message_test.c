/* message_test.c: bodies that are too large, too short, in pieces, pipelined, and errors before and after the first byte. */
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

static struct daemon *victim;
static int descriptors;

static void begin(void)
{
    victim = victim_start(NULL);
    descriptors = daemon_descriptors(victim);
}

static void end(void)
{
    victim_require_service(victim);
    victim_require_rest(victim);
    victim_stop(&victim, descriptors);
}

#define POST "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

/* Sends head, then n bytes of nothing much, and expects an error status although not all may have been sent. */
static void expect_refusal(const char *head, size_t n, int status)
{
    struct peer *p = peer_connect(daemon_port(victim));
    char *bytes = mem_alloc(n);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, ' ', n);
    ck_assert(peer_say(p, head));
    (void)peer_send(p, bytes, n); /* the server may stop reading */
    struct reply r = peer_reply(p, 20, false);
    ck_assert_msg(r.status == status, "%d instead of %d", r.status, status);
    reply_release(&r);
    mem_free(bytes);
    peer_free(&p);
}

START_TEST(nine_mebibytes_are_413)
{
    begin();
    expect_refusal(POST "Content-Length: 9437184\r\n\r\n", 9437184, 413);
    expect_refusal(POST "Transfer-Encoding: chunked\r\n\r\n900000\r\n", 9437184, 413);
    expect_refusal(POST "Content-Length: 9437184\r\nExpect: 100-continue\r\n\r\n", 0, 413);
    expect_refusal(POST "Content-Length: 99999999999999999\r\n\r\n", 10, 413);
    end();
}
END_TEST

START_TEST(eight_mebibytes_are_read)
{
    enum { N = 8 << 20 };
    begin();
    char *body = mem_alloc(N);
    ck_assert_ptr_nonnull(body);
    memset(body, 'a', N);
    for (size_t i = 20; i < N; i += 7)
        body[i] = ' ';
    memcpy(body, "{\"prompt\":\"", 11);
    memcpy(body + N - 2, "\"}", 2);
    struct peer *p = peer_connect(daemon_port(victim));
    char head[256];
    snprintf(head, sizeof head, POST "Content-Length: %d\r\n\r\n", N);
    ck_assert(peer_say(p, head));
    ck_assert(peer_send(p, body, N));
    victim_require_service(victim); /* while a worker is at it */
    struct reply r = peer_reply(p, 30, false);
    ck_assert_msg(r.status == 400, "%d %s", r.status,
                  r.body); /* over the context, and said so with both numbers */
    ck_assert_ptr_nonnull(strstr(r.body, "context_length_exceeded"));
    ck_assert_ptr_nonnull(strstr(r.body, "8192"));
    reply_release(&r);
    mem_free(body);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(client_leaves_while_its_body_is_worked_on)
{
    enum { N = 4 << 20 };
    begin();
    char *body = mem_alloc(N);
    ck_assert_ptr_nonnull(body);
    memset(body, 'a', N);
    memcpy(body, "{\"prompt\":\"", 11);
    memcpy(body + N - 2, "\"}", 2);
    for (size_t i = 40; i < N - 10; i += 13)
        body[i] = ' ';
    for (int i = 0; i < 6; i++) {
        struct peer *p = peer_connect(daemon_port(victim));
        char head[256];
        snprintf(head, sizeof head,
                 "POST /%s HTTP/1.1\r\nHost: a\r\nContent-Type: "
                 "application/json\r\nContent-Length: %d\r\n\r\n",
                 i % 2 ? "tokenize" : "v1/completions", N);
        ck_assert(peer_say(p, head));
        ck_assert(peer_send(p, body, N));
        if (i % 3 == 0)
            peer_reset(&p);
        peer_free(&p);
    }
    mem_free(body);
    end();
}
END_TEST

/* Forty clients with 8 MiB each: some are told to come later, none harms the others, and memory comes back. */
START_TEST(all_bodies_together_are_bounded)
{
    enum { N = 40, BYTES = 8388600 };
    begin();
    struct peer *peers[N];
    char *bytes = mem_zalloc(1, BYTES);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, ' ', BYTES);
    int refused = 0;
    for (size_t i = 0; i < N; i++) {
        peers[i] = peer_connect(daemon_port(victim));
        (void)peer_say(peers[i], POST "Content-Length: 8388608\r\n\r\n");
        (void)peer_send(peers[i], bytes, BYTES);
    }
    victim_require_service(victim);
    for (size_t i = 0; i < N; i++) {
        struct reply r = {0};
        if (i >= N - 10)
            r = peer_reply(peers[i], 10, false);
        refused += r.status == 503;
        reply_release(&r);
        peer_free(&peers[i]);
    }
    ck_assert_int_ge(refused, N - 33);
    mem_free(bytes);
    end();
}
END_TEST

START_TEST(lies_about_length)
{
    begin();
    struct peer *p = peer_connect(daemon_port(victim)); /* says more than it sends, then leaves */
    ck_assert(peer_say(p, POST "Content-Length: 100\r\n\r\n{\"prompt\""));
    peer_free(&p);
    p = peer_connect(daemon_port(victim)); /* says less: the rest is no request */
    ck_assert(peer_say(p, POST "Content-Length: 2\r\n\r\n{}{\"prompt\":\"x\"}"));
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 400);
    reply_release(&r);
    r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 400);
    ck_assert(peer_sees_close(p, 10));
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(continue_is_said)
{
    begin();
    struct peer *p = peer_connect(daemon_port(victim));
    ck_assert(peer_say(p, POST "Expect: 100-continue\r\nContent-Length: 32\r\n\r\n"));
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 100);
    reply_release(&r);
    ck_assert(peer_say(p, "{\"prompt\":[1],\"seed\":1, \"user\":1}"));
    r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 400);
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
    enum { N = 50 };
    begin();
    struct peer *p = peer_connect(daemon_port(victim));
    char text[512 * N];
    size_t len = 0;
    for (int i = 0; i < N; i++) {
        if (i % 2 == 0)
            len +=
                (size_t)snprintf(text + len, sizeof text - len,
                                 "GET /livez HTTP/1.1\r\nHost: a\r\nX-Request-Id: n%d\r\n\r\n", i);
        else
            len +=
                (size_t)snprintf(text + len, sizeof text - len,
                                 POST "X-Request-Id: n%d\r\nContent-Length: "
                                      "42\r\n\r\n{\"prompt\":[1,2,3],\"seed\":1,\"max_tokens\":2}",
                                 i);
    }
    ck_assert(peer_send(p, text, len));
    for (int i = 0; i < N; i++) {
        char id[64], wanted[64];
        struct reply r = peer_reply(p, 10, false);
        ck_assert_msg(r.status == 200, "%d: %d %s", i, r.status, r.body);
        ck_assert(reply_header(&r, "x-request-id", id, sizeof id));
        snprintf(wanted, sizeof wanted, "n%d", i);
        ck_assert_str_eq(id, wanted);
        reply_release(&r);
    }
    peer_free(&p);
    end();
}
END_TEST

/* Requests without end and without reading an answer: the server stops reading, and drops the client in time. */
START_TEST(pipelining_flood_is_bounded)
{
    victim = victim_start((const char *const[]){"--server-stall-timeout-ms", "1000", NULL});
    descriptors = daemon_descriptors(victim);
    uint64_t resident = daemon_resident_bytes(victim);
    struct peer *p = peer_connect(daemon_port(victim));
    static const char one[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    size_t sent = 0;
    for (; sent < 2000000 && peer_send(p, one, sizeof one - 1); sent++)
        ;
    ck_assert_uint_lt(sent, 2000000); /* it was dropped */
    ck_assert_uint_lt(daemon_resident_bytes(victim), resident + (32 << 20));
    peer_free(&p);
    end();
}
END_TEST

START_TEST(errors_before_and_after_the_first_byte)
{
    begin();
    struct peer *p = peer_connect(daemon_port(victim));
    victim_ask(p, FAKE_FAIL_FIRST, 10, ",\"stream\":true");
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 500);
    ck_assert_ptr_nonnull(strstr(r.body, "numeric_error"));
    reply_release(&r);
    victim_ask(p, FAKE_FAIL_LATER, 10, "");
    r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 500);
    reply_release(&r);
    victim_ask(p, FAKE_FAIL_LATER, 10, ",\"stream\":true");
    r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(r.is_whole);
    ck_assert_ptr_nonnull(strstr(r.body, "data: {\"error\":{"));
    ck_assert_ptr_null(strstr(r.body, "[DONE]"));
    reply_release(&r);
    peer_free(&p);
    ck_assert_double_eq(peer_metric(daemon_port(victim), "foldkv_requests_failed_total"), 3);
    end();
}
END_TEST

START_TEST(old_clients_get_a_stream_to_the_close)
{
    begin();
    struct peer *p = peer_connect(daemon_port(victim));
    ck_assert(
        peer_say(p, "POST /v1/completions HTTP/1.0\r\nContent-Type: "
                    "application/json\r\nConnection: keep-alive\r\nContent-Length: "
                    "56\r\n\r\n{\"prompt\":[1,2,3],\"seed\":1,\"max_tokens\":2,\"stream\":true}"));
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 200);
    char value[64];
    ck_assert(!reply_header(&r, "transfer-encoding", value, sizeof value));
    ck_assert_ptr_nonnull(strstr(r.body, "data: [DONE]\n\n"));
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tcase = tcase_create("message");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_test(tcase, continue_is_said);
    tcase_add_test(tcase, pipelined_requests_are_answered_in_order);
    tcase_add_test(tcase, old_clients_get_a_stream_to_the_close);
    tcase_add_test(tcase, errors_before_and_after_the_first_byte);
    tcase_add_test(tcase, lies_about_length);
    tcase_add_test(tcase, nine_mebibytes_are_413);
    tcase_add_test(tcase, all_bodies_together_are_bounded);
    tcase_add_test(tcase, eight_mebibytes_are_read);
    tcase_add_test(tcase, client_leaves_while_its_body_is_worked_on);
    tcase_add_test(tcase, pipelining_flood_is_bounded);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
