/* victim.c: starting, asking and judging the server under torture. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/victim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 40, POLLS = 400, POLL_US = 25000 };

struct daemon *victim_start(const char *const flags[])
{
    const char *fake = getenv("FOLDKV_TEST_FAKE");
    ck_assert_msg(fake != NULL && access(fake, X_OK) == 0, "FOLDKV_TEST_FAKE names no program");
    char path[96];
    snprintf(path, sizeof path, "unix:/tmp/foldkv-victim-%d", (int)getpid());
    const char *transport = getenv("FOLDKV_TEST_TRANSPORT");
    bool is_unix = transport != NULL && strcmp(transport, "unix") == 0;
    const char *arguments[ARGUMENTS_MAX] = {fake, "serve", daemon_model(), "--listen",
                                            is_unix ? path : "127.0.0.1:0"};
    size_t n = 5;
    for (size_t i = 0; flags != NULL && flags[i] != NULL; i++) {
        ck_assert_uint_lt(n + 1, ARRAY_LEN(arguments));
        arguments[n++] = flags[i];
    }
    return daemon_start_program(arguments);
}

size_t victim_request(enum fake_pace pace, uint32_t max_tokens, const char *more, char *text,
                      size_t size)
{
    char body[512];
    int len = snprintf(body, sizeof body, "{\"prompt\":[1,2,3],\"seed\":%d,\"max_tokens\":%u%s}",
                       (int)pace, max_tokens, more);
    ck_assert_int_lt(len, (int)sizeof body);
    int n =
        snprintf(text, size,
                 "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                 "Content-Length: %d\r\n\r\n%s",
                 len, body);
    ck_assert_int_lt(n, (int)size);
    return (size_t)n;
}

void victim_ask(struct peer *peer, enum fake_pace pace, uint32_t max_tokens, const char *more)
{
    char text[1024];
    size_t len = victim_request(pace, max_tokens, more, text, sizeof text);
    ck_assert(peer_send(peer, text, len));
}

void victim_require_service(struct daemon *daemon)
{
    struct peer *p = peer_connect(daemon_port(daemon));
    victim_ask(p, FAKE_FAST, 5, "");
    struct reply r = peer_reply(p, 10, false);
    ck_assert_msg(r.status == 200 && r.is_whole, "status %d: %s", r.status,
                  r.body != NULL ? r.body : "");
    ck_assert_ptr_nonnull(strstr(r.body, "\"completion_tokens\":5"));
    reply_release(&r);
    peer_free(&p);
}

static bool is_at_rest(int port)
{
    return peer_metric(port, "foldkv_requests_running") == 0 &&
           peer_metric(port, "foldkv_requests_waiting") == 0 &&
           peer_metric(port, "foldkv_connections_open") <= 1;
}

void victim_require_rest(struct daemon *daemon)
{
    int port = daemon_port(daemon), polls = 0;
    while (!is_at_rest(port)) {
        ck_assert_msg(polls++ < daemon_seconds(POLLS), "running %g, waiting %g, connections %g",
                      peer_metric(port, "foldkv_requests_running"),
                      peer_metric(port, "foldkv_requests_waiting"),
                      peer_metric(port, "foldkv_connections_open"));
        usleep(POLL_US);
    }
    double admitted = peer_metric(port, "foldkv_requests_admitted_total");
    double ended = peer_metric(port, "foldkv_requests_finished_total") +
                   peer_metric(port, "foldkv_requests_aborted_total") +
                   peer_metric(port, "foldkv_requests_failed_total");
    ck_assert_msg(admitted == ended, "admitted %g, ended %g", admitted, ended);
}

void victim_stop(struct daemon **daemon, int descriptors)
{
    int polls = 0;
    while (daemon_descriptors(*daemon) > descriptors) {
        ck_assert_msg(polls++ < daemon_seconds(POLLS), "%d descriptors, %d at the start",
                      daemon_descriptors(*daemon), descriptors);
        usleep(POLL_US);
    }
    daemon_stop(daemon);
}
