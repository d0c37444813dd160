/* unix_socket.c: a socket's file outlives a daemon that was killed; a new one must tell it from one that is in use.
 *
 * HOW     Whoever listens accepts a connection; a file without a listener refuses it, and only such a file is removed.
 * THREAD  loop, before the engine's threads
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/unix_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static enum status refuse(const struct sockaddr_un *address, const char *field, const char *text,
                          struct why *ret_why)
{
    return why_set(ret_why, STATUS_IO, field, "%s is 'unix:%s': %s", field, address->sun_path,
                   text);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* 0 if somebody listens (or may: his queue is full), else errno. */
static int knock(const struct sockaddr_un *address)
{
    int fd = open_socket();
    if (fd < 0)
        return errno;
    int error = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : errno;
    close(fd);
    return error == EAGAIN ? 0 : error;
}

static enum status remove_stale(const struct sockaddr_un *address, const char *field,
                                struct why *ret_why)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0)
        return errno == ENOENT ? OK : refuse(address, field, strerror(errno), ret_why);
    if (!S_ISSOCK(file.st_mode))
        return refuse(address, field, "there is a file that is no socket", ret_why);
    int error = knock(address);
    if (error == 0)
        return refuse(address, field, "another process listens there", ret_why);
    if (error != ECONNREFUSED && error != ENOENT)
        return refuse(address, field, strerror(error), ret_why);
    if (unlink(address->sun_path) != 0 && errno != ENOENT)
        return refuse(address, field, strerror(errno), ret_why);
    return OK;
}

enum status unix_socket_bind(const struct sockaddr_un *address, mode_t mask, const char *field,
                             struct unix_socket *ret_socket, int *ret_descriptor,
                             struct why *ret_why)
{
    struct stat file;
    *ret_descriptor = -1;
    ret_socket->path[0] = '\0';
    TRY(remove_stale(address, field, ret_why));
    int fd = open_socket();
    if (fd < 0)
        return refuse(address, field, strerror(errno), ret_why);
    mode_t before = umask(0777);
    umask(before | mask);
    int bound = bind(fd, (const struct sockaddr *)address, sizeof *address);
    int error = errno;
    umask(before);
    if (bound != 0 || lstat(address->sun_path, &file) != 0) {
        error = bound != 0 ? error : errno;
        close(fd);
        return refuse(address, field, strerror(error), ret_why);
    }
    snprintf(ret_socket->path, sizeof ret_socket->path, "%s", address->sun_path);
    ret_socket->device = file.st_dev;
    ret_socket->inode = file.st_ino;
    *ret_descriptor = fd;
    return OK;
}

void unix_socket_remove(struct unix_socket *s)
{
    struct stat file;
    if (s->path[0] != '\0' && lstat(s->path, &file) == 0 && file.st_dev == s->device &&
        file.st_ino == s->inode)
        (void)unlink(s->path); /* what cannot be removed is taken for stale by the next start */
    s->path[0] = '\0';
}

bool unix_socket_peer(int descriptor, uid_t *ret_uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || len != sizeof peer)
        return false;
    *ret_uid = peer.uid;
    return true;
}
