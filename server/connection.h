/* connection.h: one client and its requests, one after the other: read, parse, hand to a route, write.
 *
 * A route gets the connection with the whole request in it and answers by response.h, at once or later. If later, it holds the
 * connection: it is told when the client leaves (after which the connection must not be touched) and, while it streams, when there is
 * room for more. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_CONNECTION_H
#define FOLDKV_SERVER_CONNECTION_H

#include <uv.h>

#include "server/http_parse.h"
#include "server/service.h"

struct connection;
struct connection_set;
struct router;

/* What is behind a listener. */
struct connection_terms {
    const struct router *router;
    uint32_t count_max;
    uint64_t body_bytes_max;
    const char *count_text; /* what a client hears that is one too many */
};

enum {
    CONNECTION_ROOM_BYTES = 65536, /* a stream waits while more than this is unsent */
    CONNECTION_ID_MAX = 128,
    CONNECTION_SERIAL_ROOM = 33
};

enum connection_state {
#define STATE(name, text, moves) CONNECTION_##name,
#include "server/connection.def"
#undef STATE
    CONNECTION_STATE_COUNT
};
const char *connection_state_name(enum connection_state state);
bool connection_state_may(enum connection_state from, enum connection_state to);

/* What a route that answers later wants to hear. Neither is called before the route has returned. */
struct connection_holder {
    void *user;
    void (*on_leave)(
        void *user); /* the client is gone; called at most once, and not after connection_end */
    void (*on_room)(void *user); /* connection_has_room has become true again */
};

/* The set owns every connection of a listener. */
enum status connection_set_new(struct service *service, const struct connection_terms *terms,
                               struct connection_set **ret_set) MUST_USE;
/* Closes everything at once. The set is freed by connection_set_free after the loop has run its close callbacks. */
void connection_set_close(struct connection_set *set);
void connection_set_free(struct connection_set **set);
/* Takes the connection that waits at the listener: libuv's connection callback. */
void connection_set_accept(struct connection_set *set, uv_stream_t *listener);
/* Closes every connection that is idle or still asking; the rest closes after its answer (service->is_closing is set). */
void connection_set_retire(struct connection_set *set);
/* Enforces every timeout; called some times a second. */
void connection_set_sweep(struct connection_set *set);
uint32_t connection_set_count(const struct connection_set *set);

/* The request. Valid from the route's call to connection_end. */
const struct http_head *connection_head(const struct connection *c);
/* The body becomes the caller's, who frees it with byte_buffer_release. */
void connection_take_body(struct connection *c, struct byte_buffer *ret_body);
struct service *connection_service(const struct connection *c);
/* The client's x-request-id if it is well-formed, else one of ours. */
const char *connection_request_id(const struct connection *c);
/* The same for every request of a connection, and no other connection's. */
const char *connection_serial(const struct connection *c);
/* What x-foldkv-generation and x-foldkv-arm of this answer say; arm is a static text, or NULL. Before connection_begin. */
void connection_set_generation(struct connection *c, const char *generation, const char *arm);
const char *connection_generation(const struct connection *c, const char **ret_arm);
/* uv_hrtime when the request was whole. */
uint64_t connection_request_ns(const struct connection *c);
bool connection_is_kept(const struct connection *c);
/* The methods of the path, for a 405. */
const char *connection_allowed(const struct connection *c);
/* The user at the other end of a Unix socket; false for TCP. */
bool connection_peer(const struct connection *c, uid_t *ret_uid) MUST_USE;

void connection_hold(struct connection *c, struct connection_holder holder);
/* Used by response.c. begin marks the answer as begun; write queues bytes; flush sends what can be sent; end finishes the answer: the
 * connection goes on to the next request or closes, and must not be touched any more by the route. */
void connection_begin(struct connection *c, int http_status);
void connection_write(struct connection *c, const void *bytes, size_t len);
void connection_flush(struct connection *c);
void connection_end(struct connection *c);
/* The connection is not kept after this answer. */
void connection_set_not_kept(struct connection *c);
bool connection_has_room(const struct connection *c);

#endif
