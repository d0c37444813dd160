/* connection_write.c: bytes out, as fast as the client takes them and no faster.
 *
 * HOW     Answers collect in `out`; flush tries to send at once and hands the rest to libuv as `in_flight`, with one write under way
 *         at a time. A stream asks connection_has_room before it makes more, and is called when there is room again: tokens
 *         wait in their request's ring, not here.
 * ALWAYS  (1) Bytes leave in the order in which they were written.                   connection_flush
 *         (2) An answer that could not be stored whole is never continued: the connection is closed.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/connection_priv.h"

size_t connection_unsent(const struct connection *c)
{
    size_t with_libuv = c->is_writing ? uv_stream_get_write_queue_size(&c->link.stream) : 0;
    return c->out.len + with_libuv;
}

bool connection_has_room(const struct connection *c)
{
    return connection_is_open(c) && connection_unsent(c) < CONNECTION_ROOM_BYTES;
}

void connection_write(struct connection *c, const void *bytes, size_t len)
{
    byte_buffer_append(&c->out, bytes, len);
}

static void on_shut(uv_shutdown_t *shutdown, int status)
{
    struct connection *c = shutdown->data;
    ASSERT(c->magic == CONNECTION_MAGIC);
    if (status < 0)
        connection_close(c);
}

void connection_shut_if_done(struct connection *c)
{
    bool is_over = c->state == CONNECTION_IDLE || c->state == CONNECTION_LINGERING;
    if (!is_over || connection_is_kept(c) || connection_unsent(c) > 0 || c->is_shut ||
        !connection_is_open(c))
        return;
    if (c->state == CONNECTION_IDLE)
        connection_set_state(c, CONNECTION_LINGERING);
    c->state_ms =
        uv_now(c->set->service->uv); /* the time to linger counts from the last byte sent */
    c->is_shut = true;
    c->shutdown.data = c;
    byte_buffer_release(&c->pending);
    if (c->has_ended || uv_shutdown(&c->shutdown, &c->link.stream, on_shut) != 0)
        connection_close(c);
    else if (!c->is_reading)
        connection_read_start(c);
}

/* Bytes have left: more requests, more of the stream, or the end. */
static void on_progress(struct connection *c)
{
    c->progress_ms = uv_now(c->set->service->uv);
    if (c->holder.on_room != NULL && connection_has_room(c))
        c->holder.on_room(c->holder.user);
    if (connection_is_open(c))
        connection_shut_if_done(c);
    if (connection_is_open(c))
        connection_parse_pending(c);
}

static void on_written(uv_write_t *write, int status)
{
    struct connection *c = write->data;
    ASSERT(c->magic == CONNECTION_MAGIC);
    c->is_writing = false;
    byte_buffer_release(&c->in_flight);
    if (!connection_is_open(c))
        return;
    if (status < 0) {
        connection_close(c);
        return;
    }
    connection_flush(c);
    if (connection_is_open(c))
        on_progress(c);
}

/* Hands what could not be sent at once to libuv. */
static void queue_rest(struct connection *c)
{
    byte_buffer_swap(&c->out, &c->in_flight);
    uv_buf_t buf = uv_buf_init(c->in_flight.bytes, (unsigned)c->in_flight.len);
    c->write.data = c;
    c->is_writing = true;
    if (uv_write(&c->write, &c->link.stream, &buf, 1, on_written) != 0) {
        c->is_writing = false;
        connection_close(c);
    }
}

void connection_flush(struct connection *c)
{
    if (!connection_is_open(c))
        return;
    if (c->out.failed) {
        connection_close(c);
        return;
    }
    if (c->is_writing || c->out.len == 0)
        return;
    uv_buf_t buf = uv_buf_init(c->out.bytes, (unsigned)c->out.len);
    int sent = uv_try_write(&c->link.stream, &buf, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        connection_close(c);
        return;
    }
    byte_buffer_drop(&c->out, sent > 0 ? (size_t)sent : 0);
    if (sent > 0)
        c->progress_ms = uv_now(c->set->service->uv);
    if (c->out.len > 0)
        queue_rest(c);
}

void connection_begin(struct connection *c, int http_status)
{
    struct server_stats *stats = c->set->service->stats;
    ASSERT(http_status >= SERVER_STATS_CODE_LEAST && http_status <= SERVER_STATS_CODE_MOST);
    stats->http_responses[http_status - SERVER_STATS_CODE_LEAST]++;
    c->answer_status = http_status;
    connection_set_state(c, CONNECTION_ANSWERING);
}

void connection_end(struct connection *c)
{
    if (!connection_is_open(c))
        return;
    c->holder = (struct connection_holder){0};
    connection_set_state(c, connection_is_kept(c) ? CONNECTION_IDLE : CONNECTION_LINGERING);
    http_parse_clear(&c->parse);
    connection_uncount_body(c);
    connection_flush(c);
    if (connection_is_open(c))
        connection_shut_if_done(c);
    if (connection_is_open(c))
        connection_parse_pending(c);
}
