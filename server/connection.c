/* connection.c: the life of a connection, from accept to the last close callback, and the set of them.
 *
 * WHY     A client may stop, lie, flood or leave at any byte; whatever it does costs one slot for a bounded time.
 * HOW     States and moves stand in connection.def. One timer sweeps all connections, so a connection has no timer of its own. A spare
 *         connection is kept, so that a client can be told 503 also when memory has run out.
 * ALWAYS  (1) Only connection_set_state writes the state, and only along a legal move.
 *         (2) The memory goes in on_close and nowhere else.                               on_close
 *         (3) A holder is told of the client's leaving at most once.                      connection_close
 * OWNS    The set owns its connections; a connection owns its buffers and handles.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/connection.h"

#include "config/mem.h"
#include "server/connection_priv.h"
#include "server/log.h"
#include "server/response.h"
#include "server/unix_socket.h"

struct state_row {
    const char *name;
    uint32_t moves; /* bits (1 << state) */
};

#define TO(state) (1u << CONNECTION_##state)
static const struct state_row state_rows[CONNECTION_STATE_COUNT] = {
#define STATE(name, text, moves) {text, moves},
#include "server/connection.def"
#undef STATE
};
#undef TO

const char *connection_state_name(enum connection_state state)
{
    ASSERT(state < CONNECTION_STATE_COUNT);
    return state_rows[state].name;
}

bool connection_state_may(enum connection_state from, enum connection_state to)
{
    ASSERT(from < CONNECTION_STATE_COUNT && to < CONNECTION_STATE_COUNT);
    return (state_rows[from].moves & (1u << to)) != 0;
}

static uint64_t now_ms(const struct connection *c)
{
    return uv_now(c->set->service->uv);
}

void connection_set_state(struct connection *c, enum connection_state state)
{
    ASSERT(c->magic == CONNECTION_MAGIC && connection_state_may(c->state, state));
    c->state = state;
    c->state_ms = now_ms(c);
}

bool connection_is_open(const struct connection *c)
{
    return c->state != CONNECTION_CLOSED;
}

/* ---- end ---- */

static void on_close(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct connection_set *set = c->set;
    ASSERT(c->magic == CONNECTION_MAGIC && c->state == CONNECTION_CLOSED);
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        set->first = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    set->count--;
    set->service->stats->connections_open--;
    http_parse_release(&c->parse);
    byte_buffer_release(&c->pending);
    byte_buffer_release(&c->out);
    byte_buffer_release(&c->in_flight);
    c->magic = 0;
    mem_free(c);
}

void connection_close(struct connection *c)
{
    if (!connection_is_open(c))
        return;
    struct connection_holder holder = c->holder;
    c->holder = (struct connection_holder){0};
    connection_set_state(c, CONNECTION_CLOSED);
    connection_uncount_body(c);
    uv_close(&c->link.handle, on_close);
    if (holder.on_leave != NULL) {
        c->set->service->stats->clients_left++;
        holder.on_leave(holder.user);
    }
}

/* ---- beginning ---- */

static struct connection *connection_make(struct connection_set *set)
{
    struct connection *c = mem_zalloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->magic = CONNECTION_MAGIC;
    c->set = set;
    http_parse_init(&c->parse, set->terms.body_bytes_max);
    byte_buffer_init(&c->pending, CONNECTION_PENDING_BYTES + CONNECTION_READ_BYTES);
    byte_buffer_init(&c->out, CONNECTION_OUT_MAX);
    byte_buffer_init(&c->in_flight, CONNECTION_OUT_MAX);
    return c;
}

static void link_first(struct connection_set *set, struct connection *c)
{
    c->next = set->first;
    if (set->first != NULL)
        set->first->previous = c;
    set->first = c;
    set->count++;
    set->service->stats->connections_accepted++;
    set->service->stats->connections_open++;
}

/* A client that is one too many hears so, and why. */
static void turn_away(struct connection *c, enum status status, const char *text)
{
    struct why why = {0};
    c->set->service->stats->connections_refused++;
    (void)why_set(&why, status, "", "%s", text);
    response_error(c, status, &why);
}

static void welcome(struct connection_set *set, struct connection *c, bool has_memory)
{
    int send_bytes = CONNECTION_SEND_BUFFER;
    if (c->link.handle.type == UV_TCP) /* these two only tune: without them all still works */
        (void)uv_tcp_nodelay(&c->link.tcp, 1);
    (void)uv_send_buffer_size(&c->link.handle, &send_bytes);
    c->state_ms = c->progress_ms = now_ms(c);
    connection_read_start(c);
    if (!connection_is_open(c))
        return;
    if (set->count > set->terms.count_max)
        turn_away(c, STATUS_UNAVAILABLE, set->terms.count_text);
    else if (!has_memory)
        turn_away(c, STATUS_NO_MEMORY, "no memory for another connection");
}

void connection_set_accept(struct connection_set *set, uv_stream_t *listener)
{
    struct connection *c = set->spare;
    if (c == NULL && (c = connection_make(set)) == NULL) {
        set->waiting_listener =
            listener; /* the sweep tries again; libuv accepts no one until then */
        return;
    }
    set->spare = connection_make(set);
    int opened = listener->type == UV_TCP ? uv_tcp_init(set->service->uv, &c->link.tcp)
                                          : uv_pipe_init(set->service->uv, &c->link.pipe, 0);
    ASSERT(opened == 0); /* neither opens anything that could fail */
    c->link.handle.data = c;
    link_first(set, c);
    set->service->next_seed += 0x9e3779b97f4a7c15u; /* the golden ratio: all differ */
    snprintf(c->serial, sizeof c->serial, "%016llx%016llx", (unsigned long long)set->service->seed,
             (unsigned long long)set->service->next_seed);
    if (uv_accept(listener, &c->link.stream) != 0) {
        connection_close(c);
    } else if (set->count > set->terms.count_max + CONNECTION_EXTRA) {
        set->service->stats->connections_refused++;
        connection_close(c);
    } else {
        welcome(set, c, set->spare != NULL);
    }
}

/* ---- the set ---- */

enum status connection_set_new(struct service *service, const struct connection_terms *terms,
                               struct connection_set **ret_set)
{
    *ret_set = mem_zalloc(1, sizeof **ret_set);
    if (*ret_set == NULL)
        return STATUS_NO_MEMORY;
    (*ret_set)->service = service;
    (*ret_set)->terms = *terms;
    (*ret_set)->spare = connection_make(*ret_set);
    if ((*ret_set)->spare != NULL)
        return OK;
    connection_set_free(ret_set);
    return STATUS_NO_MEMORY;
}

void connection_set_free(struct connection_set **set)
{
    if (*set == NULL)
        return;
    ASSERT((*set)->first == NULL);
    mem_free((*set)->spare);
    mem_free(*set);
    *set = NULL;
}

uint32_t connection_set_count(const struct connection_set *set)
{
    return set->count;
}

void connection_set_close(struct connection_set *set)
{
    for (struct connection *c = set->first; c != NULL; c = c->next)
        connection_close(c);
}

void connection_set_retire(struct connection_set *set)
{
    for (struct connection *c = set->first; c != NULL; c = c->next) {
        bool is_asking = c->state == CONNECTION_HEAD || c->state == CONNECTION_BODY;
        bool is_idle = c->state == CONNECTION_IDLE && connection_unsent(c) == 0;
        c->is_kept = false;
        if (is_asking || is_idle)
            connection_close(c);
        else
            connection_shut_if_done(c);
    }
}

/* ---- timeouts ---- */

static void time_out(struct connection *c, const char *text)
{
    struct why why = {0};
    c->set->service->stats->connections_timed_out++;
    connection_set_not_kept(c);
    (void)why_set(&why, STATUS_REQUEST_TIMEOUT, "", "%s", text);
    response_error(c, STATUS_REQUEST_TIMEOUT, &why);
}

/* Bytes wait and none has left for too long. */
static bool is_stalled(struct connection *c, uint64_t now)
{
    size_t unsent = connection_unsent(c);
    if (unsent == 0 || unsent != c->unsent_seen)
        c->progress_ms = now;
    c->unsent_seen = unsent;
    return now - c->progress_ms > c->set->service->options.server_stall_timeout_ms;
}

static bool is_body_slow(const struct connection *c, uint64_t age_ms)
{
    uint64_t least = c->set->service->options.server_body_rate_min * (age_ms / 1000);
    return age_ms > CONNECTION_BODY_GRACE_MS && c->parse.body.len < least;
}

static void sweep_one(struct connection *c, uint64_t now)
{
    const struct options *o = &c->set->service->options;
    uint64_t age = now - c->state_ms;
    uint64_t idle_max =
        c->n_requests > 0 ? o->server_keepalive_timeout_ms : o->server_header_timeout_ms;
    if (is_stalled(c, now)) {
        c->set->service->stats->connections_stalled++;
        log_event(LOG_LEVEL_INFO, "stalled", "%s: the client does not read; dropped",
                  c->request_id);
        connection_close(c);
    } else if (c->state == CONNECTION_IDLE && connection_unsent(c) == 0 && age > idle_max) {
        c->set->service->stats->connections_timed_out++;
        connection_close(c);
    } else if (c->state == CONNECTION_HEAD && age > o->server_header_timeout_ms) {
        time_out(c, "the headers did not arrive in time (server.header_timeout_ms)");
    } else if (c->state == CONNECTION_BODY && is_body_slow(c, age)) {
        time_out(c, "the body arrives too slowly (server.body_rate_min)");
    } else if (c->state == CONNECTION_LINGERING && age > CONNECTION_LINGER_MS &&
               connection_unsent(c) == 0) {
        connection_close(c);
    }
}

void connection_set_sweep(struct connection_set *set)
{
    uint64_t now = uv_now(set->service->uv);
    for (struct connection *c = set->first; c != NULL; c = c->next)
        if (connection_is_open(c))
            sweep_one(c, now);
    uv_stream_t *listener = set->waiting_listener;
    set->waiting_listener = NULL;
    if (listener != NULL && !uv_is_closing((uv_handle_t *)listener))
        connection_set_accept(set, listener);
}

/* ---- what a route asks ---- */

const struct http_head *connection_head(const struct connection *c)
{
    return &c->parse.head;
}

void connection_take_body(struct connection *c, struct byte_buffer *ret_body)
{
    byte_buffer_init(ret_body, c->parse.body.max);
    byte_buffer_swap(ret_body, &c->parse.body);
}

struct service *connection_service(const struct connection *c)
{
    return c->set->service;
}

const char *connection_serial(const struct connection *c)
{
    return c->serial;
}

void connection_set_generation(struct connection *c, const char *generation, const char *arm)
{
    snprintf(c->generation, sizeof c->generation, "%s", generation);
    c->arm = arm;
}

const char *connection_generation(const struct connection *c, const char **ret_arm)
{
    *ret_arm = c->arm;
    return c->generation[0] != '\0' ? c->generation : c->set->service->generation;
}

const char *connection_request_id(const struct connection *c)
{
    return c->request_id;
}

uint64_t connection_request_ns(const struct connection *c)
{
    return c->request_ns;
}

bool connection_is_kept(const struct connection *c)
{
    return c->is_kept && !c->set->service->is_closing;
}

const char *connection_allowed(const struct connection *c)
{
    return c->set->terms.router->allowed(c);
}

bool connection_peer(const struct connection *c, uid_t *ret_uid)
{
    uv_os_fd_t fd;
    return c->link.handle.type == UV_NAMED_PIPE && uv_fileno(&c->link.handle, &fd) == 0 &&
           unix_socket_peer(fd, ret_uid);
}

void connection_set_not_kept(struct connection *c)
{
    c->is_kept = false;
}

void connection_hold(struct connection *c, struct connection_holder holder)
{
    ASSERT(c->state == CONNECTION_WORKING || c->state == CONNECTION_ANSWERING);
    c->holder = holder;
}
