/* admin_host.c: doors and connections as the daemon has them, behind them a side of our own.
 *
 * HOW     The loop runs on its own thread; what test and loop share is under one lock, and the loop is woken for everything that only
 *         it may do.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/admin_host.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/engine.h"
#include "server/admin.h"
#include "server/door.h"

enum { WAITING_MAX = 16, SWEEP_MS = 20 };

static struct {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t sweep;
    struct service service;
    struct server_stats stats;
    struct door door;
    pthread_t thread;
    int port;
    char keys_path[64];
    pthread_mutex_t lock; /* of what follows */
    struct admin_call *waiting[WAITING_MAX];
    uint32_t n_waiting, n_asked, n_connections;
    struct admin_call last;
    char last_body[4096];
    struct admin_reply reply;
    enum status refusal;
    bool is_holding, is_cancelling, is_stopping;
} host;

/* The loop has no engine here; a Retry-After asks how long its queue is. */
void engine_stats_copy(struct engine *engine, struct engine_stats *ret_stats)
{
    (void)engine;
    *ret_stats = (struct engine_stats){0};
}

static enum status ask(void *user, struct admin_call *call)
{
    (void)user;
    pthread_mutex_lock(&host.lock);
    enum status s = host.refusal;
    if (s == OK) {
        char *body = call->body.json != NULL ? record_print(&call->body) : NULL;
        host.last = *call;
        snprintf(host.last_body, sizeof host.last_body, "%s", body != NULL ? body : "");
        mem_free(body);
        host.n_asked++;
        ASSERT(host.n_waiting < WAITING_MAX);
        host.waiting[host.n_waiting++] = call;
        uv_async_send(&host.wake);
    }
    pthread_mutex_unlock(&host.lock);
    return s;
}

static void answer(struct admin_call *call, const struct admin_reply *reply)
{
    call->status = reply->status;
    call->result = reply->result;
    call->epoch = reply->epoch;
    call->is_repeat = reply->is_repeat;
    if (reply->status != OK)
        (void)why_set(&call->why, reply->status, "", "%s", reply->why);
    if (reply->text != NULL)
        call->text = mem_dup(reply->text, strlen(reply->text));
    call->on_done(call->user, call);
}

static struct admin_call *take_waiting(struct admin_reply *ret_reply)
{
    pthread_mutex_lock(&host.lock);
    struct admin_call *call = NULL;
    if (!host.is_holding && host.n_waiting > 0)
        call = host.waiting[--host.n_waiting];
    *ret_reply = host.reply;
    pthread_mutex_unlock(&host.lock);
    return call;
}

static void end(void)
{
    uv_close((uv_handle_t *)&host.wake, NULL);
    uv_close((uv_handle_t *)&host.sweep, NULL);
    door_close(&host.door);
    connection_set_close(host.door.connections);
}

static void on_wake(uv_async_t *async)
{
    (void)async;
    struct admin_reply reply;
    for (struct admin_call *call; (call = take_waiting(&reply)) != NULL;)
        answer(call, &reply);
    pthread_mutex_lock(&host.lock);
    bool is_cancelling = host.is_cancelling, is_stopping = host.is_stopping;
    host.is_cancelling = false;
    pthread_mutex_unlock(&host.lock);
    if (is_cancelling)
        admin_cancel_all(host.service.admin);
    if (is_stopping)
        end();
}

static void on_sweep(uv_timer_t *timer)
{
    (void)timer;
    connection_set_sweep(host.door.connections);
    pthread_mutex_lock(&host.lock);
    host.n_connections = door_count(&host.door);
    pthread_mutex_unlock(&host.lock);
}

static void on_client(void *user)
{
    (void)user;
}

static void *run(void *arg)
{
    uv_run(&host.uv, UV_RUN_DEFAULT);
    return arg;
}

void admin_host_set_keys(const char *keys)
{
    char made[96];
    snprintf(made, sizeof made, "%s.new", host.keys_path);
    int fd = open(made, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, keys, strlen(keys)), (ssize_t)strlen(keys));
    close(fd);
    ck_assert_int_eq(rename(made, host.keys_path), 0);
}

static void read_keys(const char *text)
{
    struct why why = {0};
    snprintf(host.keys_path, sizeof host.keys_path, "/tmp/foldkv-host-keys-%d", (int)getpid());
    if (text != NULL)
        admin_host_set_keys(text);
    enum status s = admin_new(text != NULL ? host.keys_path : NULL, (struct admin_side){.ask = ask},
                              &host.service.admin, &why);
    ck_assert_msg(s == OK, "%s", why.text);
}

static void open_door(bool is_unix)
{
    struct why why = {0};
    char address[64] = "127.0.0.1:0";
    struct door_terms terms = {.field = "admin.listen",
                               .mask = 0177,
                               .connections = {.router = &router_admin,
                                               .count_max = ADMIN_CONNECTIONS_MAX,
                                               .body_bytes_max = ADMIN_BODY_BYTES_MAX,
                                               .count_text = "too many admin connections"},
                               .on_client = on_client};
    if (is_unix)
        snprintf(address, sizeof address, "unix:/tmp/foldkv-host-%d", (int)getpid());
    enum status s = door_bind(&host.door, &host.service, address, &terms, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    ck_assert_int_eq(door_listen(&host.door, &why), OK);
    if (is_unix)
        peer_use_path(host.door.url + strlen("unix:"));
    else
        ck_assert_int_eq(sscanf(host.door.url, "http://127.0.0.1:%d", &host.port), 1);
}

void admin_host_start(const char *keys)
{
    pthread_mutex_init(&host.lock, NULL);
    options_defaults(&host.service.options);
    host.service.stats = &host.stats;
    ck_assert_int_eq(uv_loop_init(&host.uv), 0);
    host.service.uv = &host.uv;
    ck_assert_int_eq(uv_async_init(&host.uv, &host.wake, on_wake), 0);
    ck_assert_int_eq(uv_timer_init(&host.uv, &host.sweep), 0);
    ck_assert_int_eq(uv_timer_start(&host.sweep, on_sweep, SWEEP_MS, SWEEP_MS), 0);
    read_keys(keys);
    open_door(keys == NULL);
    admin_host_reply(&(struct admin_reply){.text = "{}"});
    ck_assert_int_eq(pthread_create(&host.thread, NULL, run, NULL), 0);
}

void admin_host_stop(void)
{
    pthread_mutex_lock(&host.lock);
    host.is_holding = false;
    host.is_stopping = true;
    pthread_mutex_unlock(&host.lock);
    uv_async_send(&host.wake);
    pthread_join(host.thread, NULL);
    ck_assert_int_eq(uv_loop_close(&host.uv), 0);
    door_free(&host.door);
    admin_free(&host.service.admin);
    (void)unlink(host.keys_path);
}

void admin_host_reply(const struct admin_reply *reply)
{
    pthread_mutex_lock(&host.lock);
    host.reply = *reply;
    pthread_mutex_unlock(&host.lock);
}

void admin_host_hold(bool is_holding)
{
    pthread_mutex_lock(&host.lock);
    host.is_holding = is_holding;
    pthread_mutex_unlock(&host.lock);
    uv_async_send(&host.wake);
}

void admin_host_refuse(enum status status)
{
    pthread_mutex_lock(&host.lock);
    host.refusal = status;
    pthread_mutex_unlock(&host.lock);
}

void admin_host_cancel(void)
{
    pthread_mutex_lock(&host.lock);
    host.is_cancelling = true;
    pthread_mutex_unlock(&host.lock);
    uv_async_send(&host.wake);
}

uint32_t admin_host_asked(struct admin_call *ret_call, char *ret_body, size_t room)
{
    pthread_mutex_lock(&host.lock);
    uint32_t n = host.n_asked;
    *ret_call = host.last;
    snprintf(ret_body, room, "%s", host.last_body);
    pthread_mutex_unlock(&host.lock);
    return n;
}

static uint32_t read_count(const uint32_t *count)
{
    pthread_mutex_lock(&host.lock);
    uint32_t n = *count;
    pthread_mutex_unlock(&host.lock);
    return n;
}

uint32_t admin_host_waiting(void)
{
    return read_count(&host.n_waiting);
}

uint32_t admin_host_connections(void)
{
    return read_count(&host.n_connections);
}

struct peer *admin_host_connect(void)
{
    return peer_connect(host.port);
}

struct reply admin_host_ask(const char *method, const char *path, const char *headers,
                            const char *body)
{
    char text[4096], length[96] = "";
    if (body != NULL)
        snprintf(length, sizeof length, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                 strlen(body));
    int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: admin\r\n%s%s\r\n", method, path,
                     headers, length);
    ck_assert_int_lt(n, (int)sizeof text);
    struct peer *p = admin_host_connect();
    ck_assert(peer_say(p, text));
    if (body != NULL)
        (void)peer_say(p, body); /* it may be refused before its end */
    struct reply r = peer_reply(p, 20, strcmp(method, "HEAD") == 0);
    peer_free(&p);
    return r;
}
