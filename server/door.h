/* door.h: one listener and the clients that came in by it. Embedded, since libuv points into it. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_DOOR_H
#define FOLDKV_SERVER_DOOR_H

#include "server/connection.h"
#include "server/listen_address.h"
#include "server/stream_handle.h"
#include "server/unix_socket.h"

struct door_terms {
    const char *field; /* the option that the address is from */
    mode_t mask;       /* of a Unix socket's file: unix_socket_bind */
    struct connection_terms connections;
    void (*on_client)(void *user); /* behind each client that came in */
    void *user;
};

struct door {
    union stream_handle listener;
    struct door_terms terms;
    struct unix_socket file;
    struct sockaddr_storage address;
    struct connection_set *connections; /* NULL: never bound */
    bool is_open;                       /* the handle is to be closed */
    char url[LISTEN_ADDRESS_TEXT + 8];  /* http://HOST:PORT or unix:PATH, once bound */
};

/* Takes the address without listening. A zeroed door. BAD_OPTION; IO if the address is taken; NO_MEMORY. After a failure the door is
 * closed and freed as after a success. */
enum status door_bind(struct door *door, struct service *service, const char *address,
                      const struct door_terms *terms, struct why *ret_why) MUST_USE;
/* Clients may come. IO. */
enum status door_listen(struct door *door, struct why *ret_why) MUST_USE;
/* No more clients; those inside stay. Takes a closed or a zeroed door. */
void door_close(struct door *door);
/* After the loop has run the close callbacks of listener and connections. */
void door_free(struct door *door);
/* How many are inside; 0 for a door that was never bound. */
uint32_t door_count(const struct door *door);

#endif
