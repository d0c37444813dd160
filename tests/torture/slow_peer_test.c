/* slow_peer_test.c: peers that send a byte at a time, stop half way, never read or shut down half: each costs a bounded time. */
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

static struct daemon *victim;
static int descriptors;

static void begin(const char *const flags[])
{
    victim = victim_start(flags);
    descriptors = daemon_descriptors(victim);
}

static void end(void)
{
    victim_require_service(victim);
    victim_require_rest(victim);
    victim_stop(&victim, descriptors);
}

START_TEST(a_byte_at_a_time_is_served)
{
    begin(NULL);
    char text[1024];
    size_t len = victim_request(FAKE_FAST, 3, "", text, sizeof text);
    struct peer *p = peer_connect(daemon_port(victim));
    for (size_t i = 0; i < len; i++) {
        ck_assert(peer_send(p, text + i, 1));
        if (i % 16 == 0)
            usleep(2000);
    }
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(r.is_whole);
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(slow_headers_are_408)
{
    begin((const char *const[]){"--server-header-timeout-ms", "300", NULL});
    struct peer *p = peer_connect(daemon_port(victim));
    ck_assert(peer_say(p, "GET /livez HTTP/1.1\r\nHost:"));
    victim_require_service(victim);
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 408);
    ck_assert(peer_sees_close(p, 10));
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(silent_client_is_closed)
{
    begin((const char *const[]){"--server-header-timeout-ms", "300",
                                "--server-keepalive-timeout-ms", "500", NULL});
    struct peer *silent = peer_connect(daemon_port(victim)),
                *idle = peer_connect(daemon_port(victim));
    ck_assert(peer_say(idle, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"));
    struct reply r = peer_reply(idle, 10, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(peer_sees_close(silent, 10));
    ck_assert(peer_sees_close(idle, 10));
    reply_release(&r);
    peer_free(&silent);
    peer_free(&idle);
    ck_assert_double_eq(peer_metric(daemon_port(victim), "foldkv_connections_timed_out_total"), 2);
    end();
}
END_TEST

/* The rate is measured after five seconds, so this one takes as long. */
START_TEST(slow_body_is_408)
{
    begin((const char *const[]){"--server-body-rate-min", "1000", NULL});
    struct peer *p = peer_connect(daemon_port(victim));
    ck_assert(peer_say(p, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: "
                          "application/json\r\nContent-Length: 9000\r\n\r\n{"));
    struct reply r = {0};
    for (int i = 0; i < 100 && r.status == 0; i++) {
        (void)peer_send(p, " ", 1);
        usleep(100000);
        if (i > 50)
            r = peer_reply(p, 1, false);
    }
    ck_assert_int_eq(r.status, 408);
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(client_that_never_reads_is_dropped)
{
    begin((const char *const[]){"--server-stall-timeout-ms", "700", NULL});
    struct peer *p = peer_connect(daemon_port(victim));
    victim_ask(p, FAKE_FAST, 8000,
               ",\"stream\":true,\"logprobs\":0"); /* more than the system's buffers hold */
    for (int polls = 0; peer_metric(daemon_port(victim), "foldkv_connections_stalled_total") == 0;
         polls++) {
        ck_assert_int_lt(polls, daemon_seconds(400));
        usleep(25000);
    }
    ck_assert_double_eq(peer_metric(daemon_port(victim), "foldkv_clients_left_total"), 1);
    peer_free(&p);
    end();
}
END_TEST

/* It reads, only slowly: it must get every token. */
START_TEST(slow_reader_gets_everything)
{
    begin((const char *const[]){"--server-stall-timeout-ms", "3000", NULL});
    struct peer *p = peer_connect(daemon_port(victim));
    victim_ask(p, FAKE_FAST, 3000, ",\"stream\":true,\"logprobs\":0");
    usleep(700000);
    struct reply r = peer_reply(p, 60, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(r.is_whole);
    int n = 0;
    for (const char *at = r.body; (at = strstr(at, "\"token_logprobs\":[-")) != NULL; at++)
        n++;
    ck_assert_int_eq(n, 3000);
    ck_assert_ptr_nonnull(strstr(r.body, "data: [DONE]\n\n"));
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(half_closed_client_gets_quick_answers)
{
    begin(NULL);
    struct peer *p = peer_connect(daemon_port(victim));
    ck_assert(peer_say(p, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"));
    peer_half_close(p);
    struct reply r = peer_reply(p, 10, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(peer_sees_close(p, 10));
    reply_release(&r);
    peer_free(&p);
    end();
}
END_TEST

START_TEST(half_closed_client_of_a_long_request_has_left)
{
    begin(NULL);
    struct peer *p = peer_connect(daemon_port(victim));
    victim_ask(p, FAKE_NEVER, 10, "");
    while (peer_metric(daemon_port(victim), "foldkv_requests_running") == 0)
        usleep(1000);
    peer_half_close(p);
    ck_assert(peer_sees_close(p, 10));
    peer_free(&p);
    victim_require_rest(victim);
    ck_assert_double_eq(peer_metric(daemon_port(victim), "foldkv_requests_aborted_total"), 1);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slow_peer");
    TCase *tcase = tcase_create("slow_peer");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_test(tcase, a_byte_at_a_time_is_served);
    tcase_add_test(tcase, slow_headers_are_408);
    tcase_add_test(tcase, silent_client_is_closed);
    tcase_add_test(tcase, slow_body_is_408);
    tcase_add_test(tcase, half_closed_client_gets_quick_answers);
    tcase_add_test(tcase, half_closed_client_of_a_long_request_has_left);
    tcase_add_test(tcase, slow_reader_gets_everything);
    tcase_add_test(tcase, client_that_never_reads_is_dropped);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
