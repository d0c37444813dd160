/* peer.h: one raw TCP client of the daemon: it sends exactly the bytes a test wants, badly if need be, and reads replies.
 *
 * Blocking, with a deadline on every read. Calls fail the Check test on a system error unless they say otherwise. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_PEER_H
#define FOLDKV_TESTS_PEER_H

#include "config/base.h"

struct peer;

struct reply {
    int status; /* 0: the connection ended, or stayed silent, before a whole head came */
    char *head; /* status line and header lines, NUL-terminated */
    char *body; /* decoded from chunks, NUL-terminated */
    size_t body_len;
    bool is_whole; /* the body came to its declared end */
};

/* port 0: the Unix socket that peer_use_path named last. */
struct peer *peer_connect(int port);
void peer_use_path(const char *path);
/* Takes NULL; a plain close. */
void peer_free(struct peer **peer);
/* Closes so that the other side sees a reset. */
void peer_reset(struct peer **peer);
int peer_descriptor(const struct peer *peer);
/* Sends all; false if the other side has closed. */
bool peer_send(struct peer *peer, const void *bytes, size_t len);
bool peer_say(struct peer *peer, const char *text);
/* No more will be sent; reading goes on. */
void peer_half_close(struct peer *peer);
/* The next reply on the connection, at most seconds (multiplied as daemon_seconds does) from now. A reply to HEAD: is_head. */
struct reply peer_reply(struct peer *peer, int seconds, bool is_head);
/* Only its head (for streams); the body stays unread. */
struct reply peer_reply_head(struct peer *peer, int seconds);
/* One line of a chunked or plain body after peer_reply_head, chunk framing removed; false at the end. For SSE. */
bool peer_body_line(struct peer *peer, int seconds, char *line, size_t size);
/* True if the other side closes within seconds, whatever it sends before. */
bool peer_sees_close(struct peer *peer, int seconds);
void reply_release(struct reply *reply);
/* The value of a header into value[size]; false if absent. Case does not matter. */
bool reply_header(const struct reply *reply, const char *name, char *value, size_t size);

/* One request on a connection of its own. body NULL: none. */
struct reply peer_get(int port, const char *path);
struct reply peer_post(int port, const char *path, const char *body);
/* The value of one line of /metrics ("foldkv_requests_running" or with its labels); fails the test if absent. */
double peer_metric(int port, const char *name);

#endif
