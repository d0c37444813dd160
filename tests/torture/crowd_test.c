/* crowd_test.c: a thousand idle clients, more than are allowed, and clients that leave in crowds. */
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

static void raise_descriptor_limit(rlim_t needed)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_cur < needed ? needed : limit.rlim_cur;
    ck_assert_msg(setrlimit(RLIMIT_NOFILE, &limit) == 0,
                  "the system allows %llu descriptors, %llu are needed",
                  (unsigned long long)limit.rlim_max, (unsigned long long)needed);
}

static struct peer **connect_all(int port, size_t n)
{
    struct peer **peers = mem_zalloc(n, sizeof(struct peer *));
    ck_assert_ptr_nonnull(peers);
    for (size_t i = 0; i < n; i++)
        peers[i] = peer_connect(port);
    return peers;
}

static void free_all(struct peer **peers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        peer_free(&peers[i]);
    mem_free(peers);
}

START_TEST(thousand_idle_clients)
{
    enum { N = 1000 };
    raise_descriptor_limit(N + 100);
    struct daemon *daemon =
        victim_start((const char *const[]){"--server-header-timeout-ms", "60000", NULL});
    int descriptors = daemon_descriptors(daemon);
    uint64_t resident = daemon_resident_bytes(daemon);
    struct peer **peers = connect_all(daemon_port(daemon), N);
    victim_require_service(daemon);
    ck_assert(peer_metric(daemon_port(daemon), "foldkv_connections_open") >= N);
    ck_assert_uint_lt(daemon_resident_bytes(daemon) - resident, 64 << 20);
    for (size_t i = 0; i < N; i += 100) { /* they are idle, not dead */
        ck_assert(peer_say(peers[i], "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"));
        struct reply r = peer_reply(peers[i], 10, false);
        ck_assert_int_eq(r.status, 200);
        reply_release(&r);
    }
    free_all(peers, N);
    victim_require_rest(daemon);
    victim_stop(&daemon, descriptors);
}
END_TEST

START_TEST(one_too_many_is_503)
{
    enum { MOST = 20, MANY = 200 };
    struct daemon *daemon =
        victim_start((const char *const[]){"--server-connections-max", "20", NULL});
    int descriptors = daemon_descriptors(daemon);
    struct peer **peers = connect_all(daemon_port(daemon), MOST);
    usleep(100000);
    struct peer *extra = peer_connect(daemon_port(daemon));
    struct reply r = peer_reply(extra, 10, false);
    ck_assert_int_eq(r.status, 503);
    char value[32];
    ck_assert(reply_header(&r, "retry-after", value, sizeof value));
    ck_assert(peer_sees_close(extra, 10));
    reply_release(&r);
    peer_free(&extra);
    struct peer **flood = connect_all(daemon_port(daemon), MANY);
    for (size_t i = 0; i < MOST; i++) { /* who was there first is served on */
        ck_assert(peer_say(peers[i], "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"));
        r = peer_reply(peers[i], 10, false);
        ck_assert_int_eq(r.status, 200);
        reply_release(&r);
    }
    free_all(flood, MANY);
    free_all(peers, MOST);
    usleep(300000);
    victim_require_service(daemon);
    victim_require_rest(daemon);
    victim_stop(&daemon, descriptors);
}
END_TEST

/* Half of them close, half reset, while they stream, wait for a whole answer, or wait in the queue. */
START_TEST(clients_that_leave_give_all_back)
{
    enum { N = 60 };
    static const char *const ways[] = {",\"stream\":true", "", ",\"stream\":true,\"logprobs\":3"};
    struct daemon *daemon = victim_start((const char *const[]){"--running-max", "8", NULL});
    int descriptors = daemon_descriptors(daemon);
    struct peer **peers = connect_all(daemon_port(daemon), N);
    for (size_t i = 0; i < N; i++)
        victim_ask(peers[i], i % 2 ? FAKE_SLOW : FAKE_NEVER, 1000, ways[i % ARRAY_LEN(ways)]);
    while (peer_metric(daemon_port(daemon), "foldkv_requests_admitted_total") < N)
        usleep(5000);
    ck_assert_double_eq(peer_metric(daemon_port(daemon), "foldkv_requests_running"), 8);
    for (size_t i = 0; i < N; i += 2)
        peer_reset(&peers[i]);
    free_all(peers, N);
    victim_require_rest(daemon);
    ck_assert_double_eq(peer_metric(daemon_port(daemon), "foldkv_requests_aborted_total"), N);
    ck_assert_double_eq(
        peer_metric(daemon_port(daemon), "foldkv_completions_total{outcome=\"cancelled\"}"), N);
    victim_require_service(daemon);
    victim_stop(&daemon, descriptors);
}
END_TEST

START_TEST(full_queue_is_429)
{
    struct daemon *daemon =
        victim_start((const char *const[]){"--running-max", "1", "--engine-queue-max", "2", NULL});
    int descriptors = daemon_descriptors(daemon);
    struct peer **peers = connect_all(daemon_port(daemon), 3);
    for (size_t i = 0; i < 3; i++)
        victim_ask(peers[i], FAKE_NEVER, 10, "");
    while (peer_metric(daemon_port(daemon), "foldkv_requests_admitted_total") < 3)
        usleep(5000);
    struct peer *p = peer_connect(daemon_port(daemon));
    char value[32];
    for (int stream = 0; stream < 2;
         stream++) { /* also a stream gets a plain status, and the connection stays */
        victim_ask(p, FAKE_FAST, 10, stream ? ",\"stream\":true" : "");
        struct reply r = peer_reply(p, 10, false);
        ck_assert_int_eq(r.status, 429);
        ck_assert(reply_header(&r, "retry-after", value, sizeof value));
        ck_assert_ptr_nonnull(strstr(r.body, "\"queue_full\""));
        reply_release(&r);
    }
    free_all(peers, 3);
    peer_free(&p);
    victim_require_rest(daemon);
    victim_require_service(daemon);
    victim_stop(&daemon, descriptors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crowd");
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_test(tcase, full_queue_is_429);
    tcase_add_test(tcase, one_too_many_is_503);
    tcase_add_test(tcase, clients_that_leave_give_all_back);
    tcase_add_test(tcase, thousand_idle_clients);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
