/* connection_priv.h: the connection itself, for connection*.c alone. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_CONNECTION_PRIV_H
#define FOLDKV_SERVER_CONNECTION_PRIV_H

#include "server/connection.h"
#include "server/router.h"
#include "server/stream_handle.h"

enum {
    CONNECTION_MAGIC = 0x636f6e6e,
    CONNECTION_READ_BYTES = 65536,    /* one read; the buffer is the set's */
    CONNECTION_PENDING_BYTES = 65536, /* unread requests that are kept while one is answered */
    CONNECTION_OUT_MAX =
        256 << 20, /* a whole answer with every logprob of a long context stays below */
    CONNECTION_SEND_BUFFER =
        131072, /* the kernel's part, so that a client that does not read is noticed */
    CONNECTION_LINGER_MS = 1000,
    CONNECTION_EXTRA = 64,           /* connections over the limit that are being told so */
    CONNECTION_BODY_GRACE_MS = 5000, /* before a body's rate is measured */
    CONNECTION_BODIES_MAX = 32, /* largest bodies that may be held at one time, over all clients */
    CONNECTION_BODY_SMALL = 65536,    /* this much any client may always send */
    CONNECTION_DISCARD_MAX = 16 << 20 /* bytes thrown away while lingering */
};

struct connection {
    uint32_t magic;
    enum connection_state state;
    struct connection_set *set;
    struct connection *previous, *next;
    union stream_handle link;
    uv_write_t write;
    uv_shutdown_t shutdown;

    struct http_parse parse;
    struct byte_buffer pending; /* read, not yet parsed */
    bool is_reading;
    bool has_ended;  /* the client sends no more */
    bool is_parsing; /* connection_parse is on the stack */
    const struct route *route;
    enum status refusal; /* decided at the head, told at the request's end */
    size_t body_counted; /* in the set's body_bytes, until the answer's end */

    struct byte_buffer out;       /* not yet given to libuv */
    struct byte_buffer in_flight; /* libuv has it, with `write` */
    bool is_writing;
    bool is_shut; /* uv_shutdown was called */
    bool is_kept;
    int answer_status;

    struct connection_holder holder;
    char request_id[CONNECTION_ID_MAX + 1];
    char serial[CONNECTION_SERIAL_ROOM]; /* tells connections of all runs apart */
    char generation[17];                 /* that answers this request; "": the served one */
    const char *arm;                     /* NULL: not told */
    uint64_t request_ns;  /* the request was whole */
    uint64_t state_ms;    /* uv_now when the state began */
    uint64_t progress_ms; /* uv_now when bytes last left */
    size_t unsent_seen;   /* in the sweep before */
    uint64_t discarded;   /* bytes, while lingering */
    uint64_t n_requests;
};

struct connection_set {
    struct service *service;
    struct connection_terms terms;
    struct connection *first;
    uint32_t count; /* all, those over the limit included */
    struct connection
        *spare; /* so that a client can be accepted, and told, when memory has run out */
    uv_stream_t *waiting_listener; /* has a client that could not be taken for want of memory */
    uint64_t n_ids;
    uint64_t body_bytes; /* of all requests that are read or answered */
    char read_buffer[CONNECTION_READ_BYTES];
};

void connection_set_state(struct connection *c, enum connection_state state);
/* Starts the close; the memory goes in the close callback. The holder, if any, is told first. */
void connection_close(struct connection *c);
bool connection_is_open(const struct connection *c);

/* connection_read.c */
/* The request's body counts no longer. */
void connection_uncount_body(struct connection *c);
void connection_read_start(struct connection *c);
/* Parses what is pending, as far as it may. */
void connection_parse_pending(struct connection *c);

/* connection_write.c */
size_t connection_unsent(const struct connection *c);
/* All is sent and the connection is not kept: shut our side down. */
void connection_shut_if_done(struct connection *c);

#endif
