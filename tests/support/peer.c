/* peer.c: a buffered socket and just enough HTTP to judge an answer.
 *
 * HOW     Bytes are read one buffer at a time against a deadline; a reply's body is followed by content-length, by chunks or to
 *         the close. The chunk state stays in the peer, so that a stream can be read line by line.
 * NOT     A client library: nothing is retried, and nothing the daemon should not send is forgiven.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/peer.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "tests/support/daemon.h"

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_TO_CLOSE };

struct peer {
    int fd;
    size_t first, end; /* unread bytes of buffer */
    uint64_t deadline_ms;
    enum body_kind kind;
    uint64_t body_left; /* of the body, or of the chunk */
    bool is_body_over;
    char buffer[16384];
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct sockaddr_un unix_address = {.sun_family = AF_UNIX};

void peer_use_path(const char *path)
{
    int n = snprintf(unix_address.sun_path, sizeof unix_address.sun_path, "%s", path);
    ck_assert_int_lt(n, (int)sizeof unix_address.sun_path);
}

struct peer *peer_connect(int port)
{
    struct peer *p = mem_zalloc(1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    p->fd = socket(port != 0 ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(p->fd, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connected = port != 0
                        ? connect(p->fd, (struct sockaddr *)&address, sizeof address)
                        : connect(p->fd, (struct sockaddr *)&unix_address, sizeof unix_address);
    ck_assert_msg(connected == 0, "connect: %s", strerror(errno));
    if (port == 0)
        return p;
    int on = 1;
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return p;
}

void peer_free(struct peer **peer)
{
    if (*peer == NULL)
        return;
    close((*peer)->fd);
    mem_free(*peer);
    *peer = NULL;
}

void peer_reset(struct peer **peer)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt((*peer)->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_free(peer);
}

int peer_descriptor(const struct peer *p)
{
    return p->fd;
}

bool peer_send(struct peer *p, const void *bytes, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(p->fd, (const char *)bytes + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

bool peer_say(struct peer *p, const char *text)
{
    return peer_send(p, text, strlen(text));
}

void peer_half_close(struct peer *p)
{
    shutdown(p->fd, SHUT_WR);
}

/* False at the end of the stream, at a reset and at the deadline. */
static bool fill(struct peer *p)
{
    for (;;) {
        uint64_t now = now_ms();
        if (now >= p->deadline_ms)
            return false;
        struct pollfd readable = {.fd = p->fd, .events = POLLIN};
        int n = poll(&readable, 1, (int)(p->deadline_ms - now));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        ssize_t got = recv(p->fd, p->buffer, sizeof p->buffer, 0);
        p->first = 0;
        p->end = got > 0 ? (size_t)got : 0;
        return got > 0;
    }
}

static bool next_byte(struct peer *p, char *ret)
{
    if (p->first == p->end && !fill(p))
        return false;
    *ret = p->buffer[p->first++];
    return true;
}

static void set_deadline(struct peer *p, int seconds)
{
    p->deadline_ms = now_ms() + (uint64_t)daemon_seconds(seconds) * 1000;
}

bool reply_header(const struct reply *reply, const char *name, char *value, size_t size)
{
    size_t name_len = strlen(name);
    for (const char *line = reply->head; line != NULL && *line != '\0';
         line = strchr(line, '\n'), line += line != NULL) {
        if (strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
            continue;
        const char *start = line + name_len + 1 + strspn(line + name_len + 1, " ");
        snprintf(value, size, "%.*s", (int)strcspn(start, "\r\n"), start);
        return true;
    }
    return false;
}

/* Reads to the empty line; false if it did not come. */
static bool read_head(struct peer *p, struct reply *r)
{
    enum { HEAD_MAX = 32768 };
    r->head = mem_zalloc(1, HEAD_MAX);
    ck_assert_ptr_nonnull(r->head);
    size_t len = 0;
    while (len < 4 || memcmp(r->head + len - 4, "\r\n\r\n", 4) != 0) {
        ck_assert_uint_lt(len + 1, HEAD_MAX);
        if (!next_byte(p, &r->head[len]))
            return false;
        len++;
    }
    ck_assert_msg(sscanf(r->head, "HTTP/1.1 %d ", &r->status) == 1, "bad status line: %s", r->head);
    return true;
}

static void expect_body(struct peer *p, const struct reply *r, bool is_head)
{
    char value[64];
    bool has_length = reply_header(r, "content-length", value, sizeof value);
    p->is_body_over = false;
    p->body_left = 0;
    if (is_head || r->status == 204 || r->status == 304 || r->status / 100 == 1) {
        p->kind = BODY_NONE;
    } else if (has_length) {
        p->kind = BODY_LENGTH;
        p->body_left = strtoull(value, NULL, 10);
    } else {
        p->kind = reply_header(r, "transfer-encoding", value, sizeof value) ? BODY_CHUNKED
                                                                            : BODY_TO_CLOSE;
    }
}

/* The size line of the next chunk (with the CRLF that ends the one before); false if cut short. */
static bool next_chunk(struct peer *p)
{
    char line[64];
    size_t len = 0;
    for (char c; len + 1 < sizeof line;) {
        if (!next_byte(p, &c))
            return false;
        if (c == '\n' && len == 0)
            continue;
        if (c == '\n')
            break;
        if (c != '\r')
            line[len++] = c;
    }
    line[len] = '\0';
    char *rest;
    p->body_left = strtoull(line, &rest, 16);
    ck_assert_msg(rest != line && *rest == '\0', "bad chunk size '%s'", line);
    char cr, lf;
    if (p->body_left == 0) {
        p->is_body_over = next_byte(p, &cr) && next_byte(p, &lf) && cr == '\r' && lf == '\n';
        return false;
    }
    return true;
}

static bool next_body_byte(struct peer *p, char *ret)
{
    if (p->is_body_over || p->kind == BODY_NONE)
        return false;
    if (p->kind == BODY_TO_CLOSE)
        return next_byte(p, ret);
    if (p->body_left == 0 && (p->kind != BODY_CHUNKED || !next_chunk(p)))
        return false;
    if (!next_byte(p, ret))
        return false;
    p->body_left--;
    return true;
}

struct reply peer_reply_head(struct peer *p, int seconds)
{
    struct reply r = {0};
    set_deadline(p, seconds);
    if (!read_head(p, &r))
        r.status = 0;
    else
        expect_body(p, &r, false);
    return r;
}

static void read_body(struct peer *p, struct reply *r)
{
    size_t room = 4096;
    r->body = mem_alloc(room);
    ck_assert_ptr_nonnull(r->body);
    for (char c; next_body_byte(p, &c);) {
        if (r->body_len + 1 == room) {
            char *grown = mem_realloc(r->body, room *= 2);
            ck_assert_ptr_nonnull(grown);
            r->body = grown;
        }
        r->body[r->body_len++] = c;
    }
    r->body[r->body_len] = '\0';
    r->is_whole = p->kind == BODY_CHUNKED ? p->is_body_over : p->body_left == 0;
}

struct reply peer_reply(struct peer *p, int seconds, bool is_head)
{
    struct reply r = peer_reply_head(p, seconds);
    if (r.status == 0)
        return r;
    expect_body(p, &r, is_head);
    read_body(p, &r);
    return r;
}

bool peer_body_line(struct peer *p, int seconds, char *line, size_t size)
{
    set_deadline(p, seconds);
    size_t len = 0;
    for (char c; next_body_byte(p, &c);) {
        if (c == '\n') {
            line[len] = '\0';
            return true;
        }
        ck_assert_uint_lt(len + 1, size);
        line[len++] = c;
    }
    return false;
}

bool peer_sees_close(struct peer *p, int seconds)
{
    set_deadline(p, seconds);
    while (fill(p))
        p->first = p->end;
    return now_ms() < p->deadline_ms;
}

void reply_release(struct reply *r)
{
    mem_free(r->head);
    mem_free(r->body);
    *r = (struct reply){0};
}

static struct reply ask(int port, const char *text, const char *body)
{
    struct peer *p = peer_connect(port);
    ck_assert(peer_say(p, text));
    if (body != NULL)
        ck_assert(peer_say(p, body));
    struct reply r = peer_reply(p, 60, false);
    peer_free(&p);
    return r;
}

struct reply peer_get(int port, const char *path)
{
    char text[512];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", path);
    return ask(port, text, NULL);
}

struct reply peer_post(int port, const char *path, const char *body)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "POST %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n",
        path, strlen(body));
    return ask(port, text, body);
}

double peer_metric(int port, const char *name)
{
    struct reply r = peer_get(port, "/metrics");
    ck_assert_int_eq(r.status, 200);
    size_t len = strlen(name);
    const char *line = r.body;
    while (line != NULL && !(strncmp(line, name, len) == 0 && line[len] == ' ')) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    ck_assert_msg(line != NULL, "/metrics has no %s", name);
    double value = strtod(line + len + 1, NULL);
    reply_release(&r);
    return value;
}
