/* service_notify.c: one datagram to the socket that systemd names; its library is not needed for that. */
// SPDX-License-Identifier: Apache-2.0
#include "server/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool service_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || path[0] == '\0')
        return true;
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract name space */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    bool is_sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size) >= 0;
    close(fd);
    return is_sent;
}
