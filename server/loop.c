/* loop.c: everything that happens to the server happens in a callback here.
 *
 * WHY     Ending well is most of the work: who is answered, who is turned away, and when to stop waiting.
 * HOW
 *      SERVING --SIGTERM--> LEAVING --drain_delay--> CLOSING --drain_timeout or a second signal--> CANCELLING --5 s--> closed by force
 *                 unready      still accepting          |  no new client; streams go on               |  every stream ends with an error
 *                                                       '---- all answered ---------------------------'----> loop_run returns
 *
 *         Other threads wake the loop by an event counter, not by libuv's own call: that one lets the loop spin until the
 *         waker has come back from it, and on a busy system the loop runs in the waker's place.
 * ALWAYS  (1) libuv's arrays are as large as they will ever be before the first client.   reserve_descriptors
 *         (2) loop_run returns only when no connection and no completion is left, or when waiting has proved useless.
 * OWNS    The uv loop and its handles, the doors.
 * THREAD  loop, but for loop_wake
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/loop.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <fcntl.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/release/releases.h"
#include "server/admin.h"
#include "server/completion.h"
#include "server/door.h"
#include "server/log.h"
#include "server/reload.h"
#include "server/router.h"
#include "server/service_notify.h"
#include "server/thread_slice.h"

enum {
    SWEEP_MS = 100,
    FORCE_MS = 5000, /* after a cancel, the time to tell the clients */
    DESCRIPTORS_BESIDE =
        256 /* files, the admin side's clients, epoll, pipes, and clients that are being turned away */
};

enum door_name { DOOR_INFERENCE, DOOR_ADMIN, DOOR_COUNT };
enum phase { SERVING, LEAVING, CLOSING, CANCELLING, FORCED, GIVEN_UP };

struct loop {
    uv_loop_t uv;
    struct service *service;
    struct door doors[DOOR_COUNT];
    int wake_fd; /* an event counter: other threads add to it */
    uv_poll_t wake;
    uv_signal_t on_term, on_int, on_hup;
    uv_timer_t sweep; /* runs while there are connections, and while ending */
    uv_timer_t stage; /* when the present phase is over */
    enum phase phase;
};

static enum status from_uv(int error, const char *what, struct why *ret_why)
{
    return why_set(ret_why, error == UV_ENOMEM ? STATUS_NO_MEMORY : STATUS_IO, "", "%s: %s", what,
                   uv_strerror(error));
}

/* ---- the end ---- */

static void on_sweep(uv_timer_t *timer);
static void enter(struct loop *loop, enum phase phase);

static void on_stage(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    if (loop->phase < GIVEN_UP)
        enter(loop, (enum phase)(loop->phase + 1));
}

static void start_timer(uv_timer_t *timer, uv_timer_cb callback, uint64_t ms, uint64_t repeat_ms)
{
    int started = uv_timer_start(timer, callback, ms, repeat_ms);
    ASSERT(started == 0); /* it fails only for a closing handle */
}

static uint32_t count_clients(const struct loop *loop)
{
    uint32_t n = 0;
    for (size_t i = 0; i < DOOR_COUNT; i++)
        n += door_count(&loop->doors[i]);
    return n;
}

/* For each door that was bound. */
static void each_set(struct loop *loop, void (*act)(struct connection_set *set))
{
    for (size_t i = 0; i < DOOR_COUNT; i++)
        if (loop->doors[i].connections != NULL)
            act(loop->doors[i].connections);
}

static void stop_if_over(struct loop *loop)
{
    bool is_over = loop->service->completions == NULL && count_clients(loop) == 0;
    if (loop->phase >= CLOSING && is_over)
        uv_stop(&loop->uv);
}

static void close_doors(struct loop *loop)
{
    loop->service->is_closing = true;
    engine_drain(loop->service->engine);
    for (size_t i = 0; i < DOOR_COUNT; i++)
        door_close(&loop->doors[i]);
    each_set(loop, connection_set_retire);
    start_timer(&loop->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
}

static void enter(struct loop *loop, enum phase phase)
{
    const struct options *o = &loop->service->options;
    bool was_open = loop->phase < CLOSING;
    loop->phase = phase;
    if (phase == LEAVING) {
        loop->service->is_ready = false;
        start_timer(&loop->stage, on_stage, o->server_drain_delay_ms, 0);
        return;
    }
    if (was_open)
        close_doors(loop);
    if (phase == CLOSING) {
        log_event(LOG_LEVEL_INFO, "draining", "no new clients; %u requests go on",
                  engine_active(loop->service->engine));
        start_timer(&loop->stage, on_stage, o->server_drain_timeout_ms, 0);
    } else if (phase == CANCELLING) {
        log_event(LOG_LEVEL_INFO, "cancelling", "%u requests",
                  engine_active(loop->service->engine));
        completion_cancel_all(loop->service);
        admin_cancel_all(loop->service->admin);
        start_timer(&loop->stage, on_stage, FORCE_MS, FORCE_MS);
    } else {
        each_set(loop, connection_set_close);
    }
    if (phase == GIVEN_UP)
        uv_stop(&loop->uv); /* the engine does not let go: nothing is left to wait for */
    stop_if_over(loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop *loop = handle->data;
    log_event(LOG_LEVEL_INFO, "signal", "%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    loop->service->is_ready = false;
    if (loop->phase == SERVING) {
        (void)service_notify("STOPPING=1"); /* a manager that cannot be told finds out by our end */
        enter(loop, LEAVING);
    } else if (loop->phase < CANCELLING) {
        enter(loop, CANCELLING);
    }
}

static void on_hangup(uv_signal_t *handle, int number)
{
    (void)number;
    struct loop *loop = handle->data;
    if (loop->phase == SERVING)
        reload(loop->service);
}

/* ---- what happens ---- */

static void on_sweep(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    each_set(loop, connection_set_sweep);
    if (count_clients(loop) == 0 && loop->phase < CLOSING)
        uv_timer_stop(timer);
    stop_if_over(loop);
}

static void on_client(void *user)
{
    struct loop *loop = user;
    if (!uv_is_active((uv_handle_t *)&loop->sweep))
        start_timer(&loop->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
}

/* Admin calls that were answered, and the newest route. */
static void loop_follow(struct service *service)
{
    releases_turn(service->releases);
    struct lane *stable = releases_stable(service->releases);
    if (stable != NULL && stable != service->lane)
        service_follow(service, stable);
}

static void on_wake(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct loop *loop = poll->data;
    eventfd_t n_rings;
    (void)eventfd_read(loop->wake_fd, &n_rings); /* nothing there: there may be news all the same */
    loop_follow(loop->service);
    for (struct request *r; (r = engine_next_ready(loop->service->port)) != NULL;)
        completion_on_ready(r);
    stop_if_over(loop);
}

void loop_drain(void *user)
{
    struct loop *loop = user;
    loop->service->is_ready = false;
    if (loop->phase == SERVING)
        enter(loop, LEAVING);
}

void loop_wake(void *user)
{
    struct loop *loop = user;
    (void)eventfd_write(loop->wake_fd, 1); /* refused only where 2^64 rings are not heard yet */
}

bool loop_run(struct loop *loop)
{
    thread_slice_shorten();
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    return loop->phase != GIVEN_UP;
}

/* ---- beginning ---- */

/* The most descriptors that may be open, raised as far as the system lets us. */
static enum status raise_limit(uint32_t needed, struct why *ret_why)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return why_set(ret_why, STATUS_IO, "", "the descriptor limit cannot be read");
    if (limit.rlim_cur < needed && limit.rlim_max >= needed) {
        limit.rlim_cur = needed;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* judged by reading it again */
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed)
        return OK;
    return why_set(ret_why, STATUS_BAD_OPTION, "server.connections_max",
                   "server.connections_max needs %u descriptors and the system allows %llu: lower "
                   "it or raise the limit",
                   needed, (unsigned long long)limit.rlim_max);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events; /* never readable */
}

/* libuv aborts when it cannot grow its array of watchers, which is indexed by descriptor: so it grows here, once, by watching the
 * highest descriptor there will be. */
static enum status reserve_descriptors(struct loop *loop, struct why *ret_why)
{
    uint32_t needed = loop->service->options.server_connections_max + DESCRIPTORS_BESIDE;
    TRY(raise_limit(needed, ret_why));
    int low = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int high = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, (int)needed - 1) : -1;
    uv_poll_t poll;
    int error = high >= 0 ? uv_poll_init(&loop->uv, &poll, high) : UV_EMFILE;
    if (error == 0) {
        error = uv_poll_start(&poll, UV_READABLE, on_poll);
        uv_close((uv_handle_t *)&poll, NULL);
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    if (high >= 0)
        close(high);
    if (low >= 0)
        close(low);
    return error == 0 ? OK : from_uv(error, "reserving descriptors", ret_why);
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void on_nothing_done(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

/* libuv makes its worker threads at the first use and aborts if it cannot: so they are made here. */
static enum status start_workers(struct loop *loop, struct why *ret_why)
{
    uv_work_t work;
    if (getenv("UV_THREADPOOL_SIZE") == NULL)
        setenv("UV_THREADPOOL_SIZE", "2",
               1); /* they parse and tokenise large bodies; the cores are the engine's */
    int error = uv_queue_work(&loop->uv, &work, do_nothing, on_nothing_done);
    if (error == 0)
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    return error == 0 ? OK : from_uv(error, "starting worker threads", ret_why);
}

static int init_handles(struct loop *loop)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&loop->wake, (uv_handle_t *)&loop->on_term,
                              (uv_handle_t *)&loop->on_int, (uv_handle_t *)&loop->on_hup,
                              (uv_handle_t *)&loop->sweep,
                              (uv_handle_t *)&loop->stage};
    int errors[] = {uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd),
                    uv_signal_init(&loop->uv, &loop->on_term),
                    uv_signal_init(&loop->uv, &loop->on_int),
                    uv_signal_init(&loop->uv, &loop->on_hup),
                    uv_timer_init(&loop->uv, &loop->sweep), uv_timer_init(&loop->uv, &loop->stage)};
    for (size_t i = 0; i < ARRAY_LEN(handles); i++)
        handles[i]->data = loop;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (errors[i] != 0)
            return errors[i];
    int error = uv_poll_start(&loop->wake, UV_READABLE, on_wake);
    error = error != 0 ? error : uv_signal_start(&loop->on_term, on_signal, SIGTERM);
    error = error != 0 ? error : uv_signal_start(&loop->on_int, on_signal, SIGINT);
    return error != 0 ? error : uv_signal_start(&loop->on_hup, on_hangup, SIGHUP);
}

enum status loop_new(struct service *service, struct loop **ret_loop, struct why *ret_why)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct loop *loop = mem_zalloc(1, sizeof *loop);
    *ret_loop = NULL;
    if (loop == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the loop");
    int error = uv_loop_init(&loop->uv);
    if (error != 0) {
        mem_free(loop);
        return from_uv(error, "starting the loop", ret_why);
    }
    sigaction(SIGPIPE, &ignore, NULL); /* a client that left is an error code, not a signal */
    loop->service = service;
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    service->uv = &loop->uv;
    enum status s = start_workers(loop, ret_why);
    if (s == OK)
        s = reserve_descriptors(loop, ret_why);
    error = s != OK ? 0 : loop->wake_fd < 0 ? UV_EMFILE : init_handles(loop);
    if (error != 0)
        s = from_uv(error, "starting the loop", ret_why);
    *ret_loop = loop;
    if (s != OK)
        loop_free(ret_loop);
    return s;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_free(struct loop **loop)
{
    struct loop *l = *loop;
    if (l == NULL)
        return;
    *loop = NULL;
    for (size_t i = 0; i < DOOR_COUNT; i++)
        door_close(&l->doors[i]);
    each_set(l, connection_set_close);
    uv_walk(&l->uv, close_handle, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    int closed = uv_loop_close(&l->uv);
    ASSERT(closed == 0);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    for (size_t i = 0; i < DOOR_COUNT; i++)
        door_free(&l->doors[i]);
    mem_free(l);
}

enum status loop_bind(struct loop *loop, const char *address, struct why *ret_why)
{
    struct door_terms terms = {
        .field = "server.listen",
        .connections = {.router = &router_inference,
                        .count_max = loop->service->options.server_connections_max,
                        .body_bytes_max = loop->service->options.server_body_bytes_max,
                        .count_text = "too many connections (server.connections_max)"},
        .on_client = on_client,
        .user = loop};
    return door_bind(&loop->doors[DOOR_INFERENCE], loop->service, address, &terms, ret_why);
}

enum status loop_bind_admin(struct loop *loop, const char *address, struct why *ret_why)
{
    struct door_terms terms = {.field = "admin.listen",
                               .mask = 0177,
                               .connections = {.router = &router_admin,
                                               .count_max = ADMIN_CONNECTIONS_MAX,
                                               .body_bytes_max = ADMIN_BODY_BYTES_MAX,
                                               .count_text = "too many admin connections"},
                               .on_client = on_client,
                               .user = loop};
    return door_bind(&loop->doors[DOOR_ADMIN], loop->service, address, &terms, ret_why);
}

const char *loop_admin_url(const struct loop *loop)
{
    return loop->doors[DOOR_ADMIN].is_open ? loop->doors[DOOR_ADMIN].url : NULL;
}

enum status loop_listen(struct loop *loop, const char **ret_url, struct why *ret_why)
{
    for (size_t i = 0; i < DOOR_COUNT; i++)
        if (loop->doors[i].is_open)
            TRY(door_listen(&loop->doors[i], ret_why));
    loop->service->is_ready = true;
    *ret_url = loop->doors[DOOR_INFERENCE].url;
    return OK;
}
