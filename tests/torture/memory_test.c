/* memory_test.c: every allocation of the running server fails once: a clean refusal or a closed connection, and service goes on.
 *
 * HOW     The fake engine fails the allocation that a signal names (fake_engine.h). A scenario is run with the n-th allocation failing
 *         for n = 1, 2, ...; it is over when a run goes through with the failure still ahead.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite_run.h"
#include "tests/torture/victim.h"

enum { ALLOCATIONS_MAX = 2000, COUNTED_RUNS = 5, FAR_AWAY = 1 << 30 };

static void fail_allocation(struct daemon *victim, int n)
{
    ck_assert_int_eq(sigqueue(daemon_pid(victim), SIGUSR1, (union sigval){.sival_int = n}), 0);
}

/* Allocations since start, by the fake engine's steps counter. */
static double allocations(struct daemon *victim)
{
    return peer_metric(daemon_port(victim), "foldkv_steps_total");
}

static const struct scenario {
    const char *name, *path, *body;
} scenarios[] = {
    {"a whole answer", "/v1/completions",
     "{\"prompt\":\"One, two, "
     "three\",\"seed\":1,\"max_tokens\":4,\"logprobs\":2,\"echo\":true,\"stop\":[\"zzz\"],\"cache_"
     "salt\":\"s\"}"},
    {"a stream", "/v1/completions",
     "{\"prompt\":[1,2,3],\"seed\":1,\"max_tokens\":4,\"stream\":true,\"logprobs\":1,\"stream_"
     "options\":{\"include_usage\":true}}"},
    {"tokens", "/tokenize", "{\"prompt\":\"One, two, three <|im_end|>\"}"},
    {"text", "/detokenize", "{\"tokens\":[100,101,102]}"},
    {"models", "/v1/models", NULL},
    {"metrics", "/metrics", NULL},
};

/* What came back: the status, 0 for a closed connection or a stream that broke, 503 also for a stream that ended with an error. */
struct outcome {
    int status;
    size_t body_len;
};

static struct outcome run(struct daemon *victim, const struct scenario *s)
{
    struct peer *p = peer_connect(daemon_port(victim));
    char text[1024];
    if (s->body != NULL)
        snprintf(text, sizeof text,
                 "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
                 "%zu\r\n\r\n%s",
                 s->path, strlen(s->body), s->body);
    else
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", s->path);
    (void)peer_say(p, text);
    struct reply r = peer_reply(p, 10, false);
    struct outcome o = {.status = r.status, .body_len = r.body_len};
    if (r.status == 200 && !r.is_whole)
        o.status = 0;
    else if (r.status == 200 && strstr(r.body, "\"error\":{") != NULL)
        o.status = 503;
    reply_release(&r);
    peer_free(&p);
    return o;
}

/* How many allocations the scenario takes, beside those of the scrape that counts them. Others of the process allocate now and then,
 * so either count is the least of some. */
static int allocations_of(struct daemon *victim, const struct scenario *s)
{
    double scrape = INFINITY, both = INFINITY;
    for (int i = 0; i < COUNTED_RUNS; i++) {
        double before = allocations(victim), idle = allocations(victim);
        ck_assert_int_eq(run(victim, s).status, 200);
        scrape = fmin(scrape, idle - before);
        both = fmin(both, allocations(victim) - idle);
    }
    return (int)(both - scrape);
}

START_TEST(every_allocation_fails_once)
{
    const struct scenario *s = &scenarios[_i];
    struct daemon *victim =
        victim_start((const char *const[]){"--server-log-level", "error", NULL});
    int descriptors = daemon_descriptors(victim);
    struct outcome good = run(victim, s);
    ck_assert_int_eq(good.status, 200);
    int n_allocations = allocations_of(victim, s);
    ck_assert_int_gt(n_allocations, 3);
    ck_assert_int_lt(n_allocations, ALLOCATIONS_MAX);
    int refused = 0;
    for (int n = 1; n <= n_allocations + 2;
         n++) { /* two more: the count of a run may differ a little */
        fail_allocation(victim, n);
        struct outcome o = run(victim, s);
        fail_allocation(victim, FAR_AWAY);
        ck_assert_msg(o.status == 200 || o.status == 503 || o.status == 0,
                      "%s, allocation %d: status %d", s->name, n, o.status);
        ck_assert_msg(
            o.status != 200 || strcmp(s->path, "/metrics") == 0 || o.body_len == good.body_len,
            "%s, allocation %d: %zu bytes instead of %zu", s->name, n, o.body_len, good.body_len);
        refused += o.status != 200;
        ck_assert_msg(run(victim, s).status == 200, "%s, after allocation %d failed", s->name, n);
    }
    ck_assert_msg(refused >= n_allocations / 2, "%s: only %d of %d failures were felt", s->name,
                  refused, n_allocations);
    victim_require_service(victim);
    victim_require_rest(victim);
    victim_stop(&victim, descriptors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, daemon_seconds(60));
    tcase_add_loop_test(tcase, every_allocation_fails_once, 0, (int)ARRAY_LEN(scenarios));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
