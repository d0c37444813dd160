/* connection_read.c: bytes in, requests out, one at a time.
 *
 * WHY     Pipelined requests wait their turn; a client's end must be seen also while it waits for an answer.
 * HOW     Reads go into the set's one buffer and are parsed on the spot; what is behind the request in hand is kept, up to a limit
 *         past which reading stops. The route is chosen when the head is in, so that a body nobody wants is not awaited.
 * ALWAYS  (1) No byte of the next request is parsed before the answer to this one has ended.   may_parse
 * THREAD  loop
 * NOT     Half-closed clients: an end of input while an answer is in the making is a client that left.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/connection_priv.h"

#include "server/log.h"
#include "server/request_id.h"
#include "server/response.h"

static bool may_parse(const struct connection *c)
{
    bool wants =
        c->state == CONNECTION_IDLE || c->state == CONNECTION_HEAD || c->state == CONNECTION_BODY;
    return wants && connection_has_room(c);
}

static void answer_refusal(struct connection *c)
{
    if (c->refusal == STATUS_METHOD_NOT_ALLOWED)
        (void)why_set(&c->parse.why, c->refusal, "", "%s takes %s", c->parse.head.path,
                      connection_allowed(c));
    else if (c->refusal == STATUS_NOT_FOUND && c->parse.why.text[0] == '\0')
        (void)why_set(&c->parse.why, c->refusal, "", "there is no path %.200s",
                      c->parse.head.is_target_long ? "of this length" : c->parse.head.path);
    else if (c->refusal == STATUS_UNSUPPORTED_MEDIA)
        (void)why_set(&c->parse.why, c->refusal, "",
                      "Content-Type is \"%.80s\"; application/json is needed",
                      c->parse.head.content_type.text);
    response_error(c, c->refusal, &c->parse.why);
}

/* The head is in: choose the route; refuse at once what has a body that nobody wants. */
static void on_head(struct connection *c)
{
    struct http_head *head = &c->parse.head;
    bool has_body = http_head_has_body(head);
    request_id_choose(head, c->set->service->seed, &c->set->n_ids, c->request_id);
    c->is_kept = head->keep_alive;
    connection_set_generation(c, "", NULL);
    c->refusal = c->set->terms.router->find(c, &c->route, &c->parse.why);
    if (c->refusal == OK && c->route->takes_json && !http_head_is_json(head))
        c->refusal = STATUS_UNSUPPORTED_MEDIA;
    if (!has_body)
        return;
    connection_set_state(c, CONNECTION_BODY);
    if (c->refusal != OK) {
        c->is_kept = false;
        answer_refusal(c);
    } else if (head->expects_continue && c->parse.body.len == 0) {
        connection_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        connection_flush(c);
    }
}

static void on_request(struct connection *c)
{
    c->request_ns = uv_hrtime();
    c->n_requests++;
    connection_set_state(c, CONNECTION_WORKING);
    if (c->refusal != OK)
        answer_refusal(c);
    else
        c->route->answer(c);
}

static void on_refused(struct connection *c)
{
    c->set->service->stats->http_malformed++;
    c->is_kept = false;
    request_id_choose(&c->parse.head, c->set->service->seed, &c->set->n_ids, c->request_id);
    log_event(LOG_LEVEL_DEBUG, "malformed", "%s: %s", c->request_id, c->parse.why.text);
    response_error(c, c->parse.status, &c->parse.why);
}

void connection_uncount_body(struct connection *c)
{
    c->set->body_bytes -= c->body_counted;
    c->body_counted = 0;
}

/* Counts what the body has grown. False if all bodies together are too much; this one is then refused,
 * unless it is small: large ones shall not shut others out. */
static bool count_body(struct connection *c)
{
    struct why why = {0};
    uint64_t most = CONNECTION_BODIES_MAX * c->set->terms.body_bytes_max;
    if (c->parse.body.room <= c->body_counted)
        return true;
    c->set->body_bytes += c->parse.body.room - c->body_counted;
    c->body_counted = c->parse.body.room;
    if (c->set->body_bytes <= most || c->parse.body.room <= CONNECTION_BODY_SMALL)
        return true;
    c->is_kept = false;
    (void)why_set(&why, STATUS_UNAVAILABLE, "", "too many large bodies at one time");
    response_error(c, STATUS_UNAVAILABLE, &why);
    return false;
}

/* Parses what it may of bytes; the number used. */
static size_t parse(struct connection *c, const char *bytes, size_t len)
{
    size_t used = 0;
    bool has_more = len > 0;
    c->is_parsing = true;
    while (has_more && may_parse(c)) {
        size_t n = 0;
        enum http_event event = http_parse_feed(&c->parse, bytes + used, len - used, &n);
        used += n;
        if (c->state == CONNECTION_IDLE && !http_parse_is_idle(&c->parse))
            connection_set_state(c, CONNECTION_HEAD);
        has_more = used < len;
        if (c->state == CONNECTION_BODY && !count_body(c))
            break;
        if (event == HTTP_HEAD_IN) {
            on_head(c);
            has_more = true; /* a request without a body is whole without another byte */
        } else if (event == HTTP_WHOLE) {
            on_request(c);
        } else if (event == HTTP_REFUSED) {
            on_refused(c);
        }
    }
    c->is_parsing = false;
    return used;
}

void connection_parse_pending(struct connection *c)
{
    if (c->is_parsing)
        return;
    if (c->pending.len > 0 && may_parse(c)) {
        struct byte_buffer bytes;
        byte_buffer_init(&bytes, c->pending.max);
        byte_buffer_swap(&bytes, &c->pending);
        size_t used = parse(c, bytes.bytes, bytes.len);
        byte_buffer_drop(&bytes, used);
        byte_buffer_swap(&bytes, &c->pending);
        byte_buffer_release(&bytes);
    }
    if (c->pending.len < CONNECTION_PENDING_BYTES && !c->is_reading && !c->has_ended &&
        connection_is_open(c))
        connection_read_start(c);
}

static void take_bytes(struct connection *c, const char *bytes, size_t len)
{
    size_t used = c->pending.len == 0 ? parse(c, bytes, len) : 0;
    if (!connection_is_open(c) || c->state == CONNECTION_LINGERING)
        return;
    byte_buffer_append(&c->pending, bytes + used, len - used);
    if (c->pending.failed) {
        connection_close(c);
    } else if (c->pending.len >= CONNECTION_PENDING_BYTES) {
        uv_read_stop(&c->link.stream);
        c->is_reading = false;
    }
}

/* After our side is shut, what still comes is thrown away; a client that sends on and on is cut off. */
static void discard(struct connection *c, size_t len)
{
    c->discarded += len;
    if (c->discarded > CONNECTION_DISCARD_MAX)
        connection_close(c);
}

static void on_end(struct connection *c, ssize_t error)
{
    bool is_answered = c->state == CONNECTION_IDLE || c->state == CONNECTION_LINGERING;
    if (error != UV_EOF || !is_answered || connection_unsent(c) == 0) {
        connection_close(c);
        return;
    }
    c->has_ended = true; /* it reads what is on its way; then connection_shut_if_done closes */
    c->is_kept = false;
    uv_read_stop(&c->link.stream);
    c->is_reading = false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct connection *c = handle->data;
    (void)suggested;
    *ret_buf = uv_buf_init(c->set->read_buffer, CONNECTION_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct connection *c = stream->data;
    ASSERT(c->magic == CONNECTION_MAGIC);
    if (n < 0)
        on_end(c, n);
    else if (n > 0 && c->state == CONNECTION_LINGERING)
        discard(c, (size_t)n);
    else if (n > 0)
        take_bytes(c, buf->base, (size_t)n);
}

void connection_read_start(struct connection *c)
{
    if (uv_read_start(&c->link.stream, on_alloc, on_read) != 0)
        connection_close(c);
    else
        c->is_reading = true;
}
