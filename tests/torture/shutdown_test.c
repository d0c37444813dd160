/* shutdown_test.c: SIGTERM in every situation: idle, streaming, waiting, twice, with a delay, with clients that do not listen. */
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

static struct peer *stream_of(struct daemon *victim, enum fake_pace pace, uint32_t max_tokens)
{
    struct peer *p = peer_connect(daemon_port(victim));
    char line[2048];
    victim_ask(p, pace, max_tokens, ",\"stream\":true");
    struct reply r = peer_reply_head(p, 10);
    ck_assert_int_eq(r.status, 200);
    ck_assert(peer_body_line(p, 10, line, sizeof line));
    reply_release(&r);
    return p;
}

/* The last line of the stream that is not empty. */
static void last_line(struct peer *p, char *last, size_t size)
{
    char line[2048];
    last[0] = '\0';
    while (peer_body_line(p, 20, line, sizeof line))
        if (line[0] != '\0')
            snprintf(last, size, "%s", line);
}

START_TEST(idle_clients_do_not_delay_the_end)
{
    struct daemon *victim = victim_start(NULL);
    struct peer *idle = peer_connect(daemon_port(victim)),
                *asking = peer_connect(daemon_port(victim));
    ck_assert(peer_say(asking, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Le"));
    ck_assert(peer_say(idle, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"));
    struct reply r = peer_reply(idle, 10, false);
    daemon_signal(victim, SIGTERM);
    ck_assert_int_eq(daemon_wait(victim, 5), 0);
    daemon_free(&victim);
    reply_release(&r);
    peer_free(&idle);
    peer_free(&asking);
}
END_TEST

START_TEST(streams_are_finished)
{
    struct daemon *victim = victim_start(NULL);
    struct peer *p = stream_of(victim, FAKE_SLOW, 20);
    struct peer *whole = peer_connect(daemon_port(victim));
    victim_ask(whole, FAKE_SLOW, 10, "");
    while (peer_metric(daemon_port(victim), "foldkv_requests_running") < 2)
        usleep(1000);
    daemon_signal(victim, SIGTERM);
    char last[2048], value[32];
    last_line(p, last, sizeof last);
    ck_assert_str_eq(last, "data: [DONE]");
    struct reply r = peer_reply(whole, 10, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert(reply_header(&r, "connection", value, sizeof value));
    ck_assert_str_eq(value, "close");
    ck_assert_int_eq(daemon_wait(victim, 10), 0);
    daemon_free(&victim);
    reply_release(&r);
    peer_free(&p);
    peer_free(&whole);
}
END_TEST

START_TEST(streams_are_cancelled_after_the_drain_time)
{
    struct daemon *victim =
        victim_start((const char *const[]){"--server-drain-timeout-ms", "300", NULL});
    struct peer *p = stream_of(victim, FAKE_SLOW, 5000);
    struct peer *whole = peer_connect(daemon_port(victim));
    victim_ask(whole, FAKE_NEVER, 10, "");
    while (peer_metric(daemon_port(victim), "foldkv_requests_running") < 2)
        usleep(1000);
    daemon_signal(victim, SIGTERM);
    char last[2048];
    last_line(p, last, sizeof last);
    ck_assert_ptr_nonnull(strstr(last, "\"code\":\"draining\""));
    struct reply r = peer_reply(whole, 10, false);
    ck_assert_int_eq(r.status, 503);
    ck_assert_int_eq(daemon_wait(victim, 10), 0);
    daemon_free(&victim);
    reply_release(&r);
    peer_free(&p);
    peer_free(&whole);
}
END_TEST

START_TEST(second_signal_cancels_at_once)
{
    struct daemon *victim = victim_start(NULL);
    struct peer *p = stream_of(victim, FAKE_SLOW, 5000);
    daemon_signal(victim, SIGTERM);
    usleep(200000);
    daemon_signal(victim, SIGTERM);
    char last[2048];
    last_line(p, last, sizeof last);
    ck_assert_ptr_nonnull(strstr(last, "\"code\":\"draining\""));
    ck_assert_int_eq(daemon_wait(victim, 5), 0);
    daemon_free(&victim);
    peer_free(&p);
}
END_TEST

START_TEST(unready_at_once_but_serving_for_the_delay)
{
    struct daemon *victim =
        victim_start((const char *const[]){"--server-drain-delay-ms", "1500", NULL});
    struct reply r = peer_get(daemon_port(victim), "/readyz");
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    daemon_signal(victim, SIGTERM);
    usleep(100000);
    r = peer_get(daemon_port(victim), "/readyz?verbose");
    ck_assert_int_eq(r.status, 503);
    ck_assert_ptr_nonnull(strstr(r.body, "accepting requests: no"));
    reply_release(&r);
    r = peer_get(daemon_port(victim), "/livez");
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    victim_require_service(victim);
    ck_assert_int_eq(daemon_wait(victim, 10), 0);
    daemon_free(&victim);
}
END_TEST

START_TEST(clients_that_do_not_listen_do_not_hold_it)
{
    struct daemon *victim =
        victim_start((const char *const[]){"--server-drain-timeout-ms", "200", NULL});
    struct peer *p = peer_connect(daemon_port(victim));
    victim_ask(p, FAKE_FAST, 8000, ",\"stream\":true,\"logprobs\":0");
    while (peer_metric(daemon_port(victim), "foldkv_requests_finished_total") < 1)
        usleep(1000);
    daemon_signal(victim, SIGTERM);
    ck_assert_int_eq(daemon_wait(victim, 20), 0);
    daemon_free(&victim);
    peer_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shutdown");
    TCase *tcase = tcase_create("shutdown");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_test(tcase, idle_clients_do_not_delay_the_end);
    tcase_add_test(tcase, streams_are_finished);
    tcase_add_test(tcase, streams_are_cancelled_after_the_drain_time);
    tcase_add_test(tcase, second_signal_cancels_at_once);
    tcase_add_test(tcase, unready_at_once_but_serving_for_the_delay);
    tcase_add_test(tcase, clients_that_do_not_listen_do_not_hold_it);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
