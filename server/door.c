/* door.c: bind, listen, accept; over TCP or a Unix socket, which differ here and nowhere behind.
 *
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/door.h"

#include <unistd.h>

#include "server/log.h"

enum { BACKLOG = 1024 };

static enum status from_uv(const struct door *door, int error, const char *address,
                           struct why *ret_why)
{
    return why_set(ret_why, error == UV_ENOMEM ? STATUS_NO_MEMORY : STATUS_IO, door->terms.field,
                   "%s is '%.200s': %s", door->terms.field, address, uv_strerror(error));
}

static enum status bind_tcp(struct door *door, uv_loop_t *uv, const char *text, struct why *ret_why)
{
    int len = sizeof door->address;
    int error = uv_tcp_init(uv, &door->listener.tcp);
    door->is_open = error == 0;
    if (error == 0)
        error = uv_tcp_bind(&door->listener.tcp, (const struct sockaddr *)&door->address, 0);
    if (error == 0)
        error = uv_tcp_getsockname(&door->listener.tcp, (struct sockaddr *)&door->address,
                                   &len); /* a taken port shows here */
    return error == 0 ? OK : from_uv(door, error, text, ret_why);
}

static enum status bind_unix(struct door *door, uv_loop_t *uv, const char *text,
                             struct why *ret_why)
{
    int fd = -1;
    TRY(unix_socket_bind((const struct sockaddr_un *)&door->address, door->terms.mask,
                         door->terms.field, &door->file, &fd, ret_why));
    int error = uv_pipe_init(uv, &door->listener.pipe, 0);
    door->is_open = error == 0;
    if (error == 0)
        error = uv_pipe_open(&door->listener.pipe, fd);
    if (error == 0)
        return OK;
    close(fd);
    return from_uv(door, error, text, ret_why);
}

enum status door_bind(struct door *door, struct service *service, const char *address,
                      const struct door_terms *terms, struct why *ret_why)
{
    char text[LISTEN_ADDRESS_TEXT];
    door->terms = *terms;
    TRY(listen_address_parse(terms->field, address, &door->address, ret_why));
    bool is_unix = door->address.ss_family == AF_UNIX;
    TRY(is_unix ? bind_unix(door, service->uv, address, ret_why)
                : bind_tcp(door, service->uv, address, ret_why));
    door->listener.handle.data = door;
    listen_address_print(&door->address, text);
    snprintf(door->url, sizeof door->url, "%s%s", is_unix ? "" : "http://", text);
    if (connection_set_new(service, &terms->connections, &door->connections) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for connections");
    return OK;
}

static void on_client(uv_stream_t *listener, int status)
{
    struct door *door = listener->data;
    if (status != 0) {
        log_event(LOG_LEVEL_WARN, "accept", "%s", uv_strerror(status));
        return;
    }
    uv_update_time(listener->loop);
    connection_set_accept(door->connections, listener);
    door->terms.on_client(door->terms.user);
}

enum status door_listen(struct door *door, struct why *ret_why)
{
    int error = uv_listen(&door->listener.stream, BACKLOG, on_client);
    return error == 0 ? OK : from_uv(door, error, door->url, ret_why);
}

void door_close(struct door *door)
{
    if (door->is_open && !uv_is_closing(&door->listener.handle))
        uv_close(&door->listener.handle, NULL);
    door->is_open = false;
    unix_socket_remove(&door->file);
}

void door_free(struct door *door)
{
    ASSERT(!door->is_open);
    connection_set_free(&door->connections);
}

uint32_t door_count(const struct door *door)
{
    return door->connections != NULL ? connection_set_count(door->connections) : 0;
}
