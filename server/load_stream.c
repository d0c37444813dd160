/* load_stream.c: a streamed completion as a client sees it.
 *
 * WHY     To compare servers the same client must drive all of them, and cost next to nothing
 *         beside them.
 * HOW     The request is written as it can be, llhttp takes the response apart, its body is cut
 *         into lines; a data line with text in it is an event. Numbers are found by their keys: an
 *         event is not parsed as JSON. Its time is that at which its bytes reached the socket, as
 *         the system stamped them: on a busy machine this process reads them later.
 * OWNS    Its socket, the request text and the event times.
 * NOT     TLS, other hosts: a load goes to this machine alone.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/load_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <llhttp/llhttp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "config/text_buf.h"

enum { LINE_MAX_BYTES = 1 << 16, REQUEST_MAX_BYTES = 16 << 20, PORT_MAX = 65535 };

struct load_stream {
    const struct load_target *target;
    int fd;
    char *request;
    size_t request_len, sent;
    llhttp_t parser;
    llhttp_settings_t settings;
    char line[LINE_MAX_BYTES];
    size_t line_len;
    bool is_done;
    uint64_t start_ns;
    uint64_t received_ns; /* the last bytes */
    uint64_t *events_ns;
    uint32_t *events_tokens; /* of the answer so far */
    uint32_t n_events, events_max;
    uint32_t completion_tokens, cached_tokens;
};

enum status load_target_parse(const char *url, struct load_target *ret_target, struct why *ret_why)
{
    ret_target->url = url;
    if (strncmp(url, "https://", 8) == 0)
        return why_set(ret_why, STATUS_BAD_OPTION, "url",
                       "--url is \"%s\": no TLS is spoken here; give http://127.0.0.1:PORT", url);
    const char *rest = strncmp(url, "http://", 7) == 0 ? url + 7 : url;
    const char *path = strchr(rest, '/');
    if (path != NULL && path[1] != '\0')
        return why_set(ret_why, STATUS_BAD_OPTION, "url",
                       "--url is \"%s\": a path is not taken (/v1/completions is asked); give "
                       "http://127.0.0.1:PORT",
                       url);
    const char *colon = strchr(rest, ':');
    char *end = NULL;
    long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    bool is_port = colon != NULL && end != colon + 1 && (*end == '\0' || strcmp(end, "/") == 0);
    size_t host_len = colon != NULL ? (size_t)(colon - rest) : 0;
    if (!is_port || port < 1 || port > PORT_MAX || host_len >= sizeof ret_target->host)
        return why_set(ret_why, STATUS_BAD_OPTION, "url",
                       "--url is \"%s\": give http://127.0.0.1:PORT", url);
    snprintf(ret_target->host, sizeof ret_target->host, "%.*s", (int)host_len, rest);
    if (strcmp(ret_target->host, "localhost") == 0)
        snprintf(ret_target->host, sizeof ret_target->host, "127.0.0.1");
    ret_target->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool is_ip = inet_pton(AF_INET, ret_target->host, &ret_target->address.sin_addr) == 1;
    if (!is_ip || (ntohl(ret_target->address.sin_addr.s_addr) >> 24) != 127)
        return why_set(ret_why, STATUS_BAD_OPTION, "url",
                       "--url names host \"%s\": only loopback is loaded, e.g. 127.0.0.1",
                       ret_target->host);
    return OK;
}

/* ---- the response ---- */

/* Where the value behind "key": begins; NULL: the line has none. A quotation mark in a text is escaped, so no text looks like a key. */
static const char *value_of(const struct load_stream *s, const char *key)
{
    size_t key_len = strlen(key);
    const char *found = memmem(s->line, s->line_len, key, key_len);
    return found != NULL ? found + key_len : NULL;
}

/* The line ends with a NUL. */
static uint32_t number_of(const struct load_stream *s, const char *key, uint32_t otherwise)
{
    const char *value = value_of(s, key);
    unsigned long number = value != NULL ? strtoul(value, NULL, 10) : otherwise;
    return number <= UINT32_MAX ? (uint32_t)number : otherwise;
}

/* Not every server tells how many tokens there are so far, or tells what can be: then each event is one. */
static void take_event(struct load_stream *s)
{
    uint32_t i = s->n_events++, told = s->completion_tokens;
    s->events_ns[i] = s->received_ns;
    s->events_tokens[i] = told > 0 && told <= s->events_max ? told : i + 1;
}

static void take_line(struct load_stream *s)
{
    static const char prefix[] = "data: ";
    static const size_t prefix_len = sizeof prefix - 1;
    s->line[s->line_len] = '\0';
    if (s->line_len < prefix_len || memcmp(s->line, prefix, prefix_len) != 0)
        return;
    s->completion_tokens = number_of(s, "\"completion_tokens\":", s->completion_tokens);
    s->cached_tokens = number_of(s, "\"cached_tokens\":", s->cached_tokens);
    bool has_text = value_of(s, "\"text\":") != NULL && value_of(s, "\"text\":\"\"") == NULL;
    if (has_text && s->n_events < s->events_max)
        take_event(s);
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct load_stream *s = parser->data;
    for (size_t i = 0; i < len; i++) {
        if (at[i] == '\n') {
            take_line(s);
            s->line_len = 0;
        } else if (s->line_len < sizeof s->line - 1) {
            s->line[s->line_len++] = at[i];
        }
    }
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct load_stream *s = parser->data;
    take_line(s);
    s->is_done = true;
    return 0;
}

/* ---- life ---- */

enum status load_stream_new(uint32_t events_max, struct load_stream **ret_stream)
{
    struct load_stream *s = mem_zalloc(1, sizeof *s);
    if (s == NULL)
        return STATUS_NO_MEMORY;
    s->fd = -1;
    s->events_max = events_max;
    s->events_ns = mem_zalloc(events_max, sizeof *s->events_ns);
    s->events_tokens = mem_zalloc(events_max, sizeof *s->events_tokens);
    if (s->events_ns == NULL || s->events_tokens == NULL) {
        load_stream_free(&s);
        return STATUS_NO_MEMORY;
    }
    llhttp_settings_init(&s->settings);
    s->settings.on_body = on_body;
    s->settings.on_message_complete = on_message_complete;
    *ret_stream = s;
    return OK;
}

static void close_socket(struct load_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    mem_free(s->request);
    s->request = NULL;
}

void load_stream_free(struct load_stream **stream)
{
    struct load_stream *s = *stream;
    if (s == NULL)
        return;
    close_socket(s);
    mem_free(s->events_tokens);
    mem_free(s->events_ns);
    mem_free(s);
    *stream = NULL;
}

static char *request_text(const struct load_target *target, const uint32_t *ids, uint32_t n_ids,
                          uint32_t max_tokens)
{
    struct text_buf body, whole;
    json_t *name = target->model != NULL ? json_string(target->model) : NULL;
    char *model = name != NULL ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    if (target->model != NULL && model == NULL)
        return NULL;
    text_buf_init(&body, REQUEST_MAX_BYTES);
    text_buf_add(&body, "{");
    if (model != NULL)
        text_buf_add(&body, "\"model\":%s,", model);
    text_buf_add(&body, "\"prompt\":[");
    for (uint32_t i = 0; i < n_ids; i++)
        text_buf_add(&body, i == 0 ? "%u" : ",%u", ids[i]);
    text_buf_add(&body,
                 "],\"max_tokens\":%u,\"temperature\":0,\"ignore_eos\":true,\"stream\":true,"
                 "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}}",
                 max_tokens);
    mem_free(model);
    char *json = text_buf_take(&body);
    text_buf_init(&whole, REQUEST_MAX_BYTES);
    if (json != NULL)
        text_buf_add(
            &whole,
            "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
            target->host, strlen(json), json);
    mem_free(json);
    return text_buf_take(&whole);
}

enum status load_stream_start(struct load_stream *s, const struct load_target *target,
                              const uint32_t *ids, uint32_t n_ids, uint32_t max_tokens,
                              struct why *ret_why)
{
    ASSERT(s->fd < 0);
    s->target = target;
    s->request = request_text(target, ids, n_ids, max_tokens);
    if (s->request == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a request");
    s->request_len = strlen(s->request);
    s->sent = s->line_len = s->n_events = s->completion_tokens = s->cached_tokens = 0;
    s->is_done = false;
    llhttp_init(&s->parser, HTTP_RESPONSE, &s->settings);
    s->parser.data = s;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    bool ok = s->fd >= 0 &&
              setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
              setsockopt(s->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) == 0;
    s->start_ns = clock_now_ns();
    ok = ok &&
         (connect(s->fd, (const struct sockaddr *)&target->address, sizeof target->address) == 0 ||
          errno == EINPROGRESS);
    if (ok)
        return OK;
    int error = errno;
    close_socket(s);
    return why_set(ret_why, STATUS_IO, "url", "%s: no connection: %s", target->url,
                   strerror(error));
}

int load_stream_fd(const struct load_stream *s)
{
    return s->fd;
}

short load_stream_events(const struct load_stream *s)
{
    return s->sent < s->request_len ? POLLIN | POLLOUT : POLLIN;
}

static enum status send_more(struct load_stream *s, struct why *ret_why)
{
    ssize_t n = send(s->fd, s->request + s->sent, s->request_len - s->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
        return why_set(ret_why, STATUS_IO, "url", "%s: %s", s->target->url, strerror(errno));
    s->sent += n > 0 ? (size_t)n : 0;
    return OK;
}

/* How long ago the bytes of a message reached the socket; 0 if the system does not say. */
static uint64_t age_ns(struct msghdr *message)
{
    struct timespec then, now;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&then, CMSG_DATA(c), sizeof then);
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t age = (now.tv_sec - then.tv_sec) * 1000000000 + (now.tv_nsec - then.tv_nsec);
        return age > 0 ? (uint64_t)age : 0;
    }
    return 0;
}

/* recv, which also notes when the bytes came. */
static ssize_t receive(struct load_stream *s, char *bytes, size_t room)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {bytes, room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(s->fd, &message, 0);
    s->received_ns = clock_now_ns() - (n > 0 ? age_ns(&message) : 0);
    return n;
}

static enum status receive_more(struct load_stream *s, struct why *ret_why)
{
    char bytes[LINE_MAX_BYTES];
    ssize_t n = receive(s, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN ? OK
                               : why_set(ret_why, STATUS_IO, "url", "%s: the connection broke: %s",
                                         s->target->url, strerror(errno));
    if (n > 0)
        llhttp_execute(&s->parser, bytes, (size_t)n);
    else
        llhttp_finish(&s->parser);
    if (s->parser.status_code != 0 && s->parser.status_code != 200 && (s->is_done || n == 0))
        return why_set(ret_why, STATUS_INTERNAL, "url", "the server answered %u: %.*s",
                       (unsigned)s->parser.status_code,
                       (int)(s->line_len < 200 ? s->line_len : 200), s->line);
    if (n == 0 && !s->is_done)
        return why_set(ret_why, STATUS_IO, "url",
                       "%s: the server closed the connection after %u events", s->target->url,
                       s->n_events);
    if (s->is_done)
        close_socket(s);
    return OK;
}

enum status load_stream_advance(struct load_stream *s, short revents, struct why *ret_why)
{
    if ((revents & POLLOUT) && s->sent < s->request_len)
        TRY(send_more(s, ret_why));
    if (revents & (POLLIN | POLLHUP | POLLERR))
        TRY(receive_more(s, ret_why));
    return OK;
}

bool load_stream_is_done(const struct load_stream *s)
{
    return s->is_done;
}

uint64_t load_stream_start_ns(const struct load_stream *s)
{
    return s->start_ns;
}

uint32_t load_stream_event_count(const struct load_stream *s)
{
    return s->n_events;
}

uint64_t load_stream_event_ns(const struct load_stream *s, uint32_t i)
{
    ASSERT(i < s->n_events);
    return s->events_ns[i];
}

uint32_t load_stream_event_tokens(const struct load_stream *s, uint32_t i)
{
    ASSERT(i < s->n_events);
    uint32_t before = i > 0 ? s->events_tokens[i - 1] : 0;
    return s->events_tokens[i] > before ? s->events_tokens[i] - before : 1;
}

uint32_t load_stream_completion_tokens(const struct load_stream *s)
{
    return s->completion_tokens;
}

uint32_t load_stream_cached_tokens(const struct load_stream *s)
{
    return s->cached_tokens;
}
