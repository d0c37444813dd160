/* unix_socket.h: a listening place in the file system: taken, and given back. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_UNIX_SOCKET_H
#define FOLDKV_SERVER_UNIX_SOCKET_H

#include <sys/stat.h>
#include <sys/un.h>

#include "config/why.h"

/* The file that is bound, so that nobody else's is removed. */
struct unix_socket {
    char path[sizeof((struct sockaddr_un){0}.sun_path)]; /* "": there is none */
    dev_t device;
    ino_t inode;
};

/* A bound, non-blocking socket whose file has no bit of mask (0177: its owner's alone), from its first moment. A socket that
 * nobody listens to any more is removed first. IO if somebody does, if the file is no socket, or if it cannot be made; field is the
 * option that named it. It changes the process's file mask for a moment: before there are threads that make files. */
enum status unix_socket_bind(const struct sockaddr_un *address, mode_t mask, const char *field,
                             struct unix_socket *ret_socket, int *ret_descriptor,
                             struct why *ret_why) MUST_USE;
/* Removes the file if it is still the one that was bound. */
void unix_socket_remove(struct unix_socket *socket);
/* The user at the other end of a connected socket. */
bool unix_socket_peer(int descriptor, uid_t *ret_uid) MUST_USE;

#endif
