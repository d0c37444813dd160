/* listen_address.c: numbers and paths only, so that start-up never waits for a name service. */
// SPDX-License-Identifier: Apache-2.0
#include "server/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

static const char unix_scheme[] = "unix:";

static enum status refuse(const char *field, const char *text, const char *wanted,
                          struct why *ret_why)
{
    return why_set(ret_why, STATUS_BAD_OPTION, field, "%s is '%.200s': %s", field, text, wanted);
}

/* 0 to 65535 in one to five digits. */
static bool parse_port(const char *text, uint16_t *ret_port)
{
    size_t len = strspn(text, "0123456789");
    if (len == 0 || len > 5 || text[len] != '\0')
        return false;
    unsigned long port = strtoul(text, NULL, 10);
    *ret_port = (uint16_t)port;
    return port <= UINT16_MAX;
}

static bool parse_v4(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret_address;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4->sin_addr) ==
           1;
}

static bool parse_v6(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_address;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static enum status parse_unix(const char *field, const char *text,
                              struct sockaddr_storage *ret_address, struct why *ret_why)
{
    struct sockaddr_un *local = (struct sockaddr_un *)ret_address;
    const char *path = text + strlen(unix_scheme);
    size_t len = strlen(path);
    if (len == 0)
        return refuse(field, text, "a path is needed behind 'unix:'", ret_why);
    if (len >= sizeof local->sun_path)
        return refuse(field, text, "a socket's path has at most 107 bytes", ret_why);
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path, len + 1);
    return OK;
}

enum status listen_address_parse(const char *field, const char *text,
                                 struct sockaddr_storage *ret_address, struct why *ret_why)
{
    static const char form[] = "HOST:PORT, [IPV6]:PORT or unix:PATH is needed, with a number or "
                               "'localhost' as HOST";
    char host[64];
    uint16_t port;
    const char *colon = strrchr(text, ':');
    bool is_v6 = text[0] == '[';
    memset(ret_address, 0, sizeof *ret_address);
    if (strncmp(text, unix_scheme, strlen(unix_scheme)) == 0)
        return parse_unix(field, text, ret_address, ret_why);
    if (colon == NULL || colon == text || (is_v6 && colon[-1] != ']'))
        return refuse(field, text, form, ret_why);
    if (!parse_port(colon + 1, &port))
        return refuse(field, text, "the port must be 0 to 65535", ret_why);
    const char *start = text + is_v6;
    size_t len = (size_t)(colon - start) - is_v6;
    if (len >= sizeof host)
        return refuse(field, text, form, ret_why);
    memcpy(host, start, len);
    host[len] = '\0';
    bool is_good = is_v6 ? parse_v6(host, port, ret_address) : parse_v4(host, port, ret_address);
    return is_good ? OK : refuse(field, text, form, ret_why);
}

void listen_address_print(const struct sockaddr_storage *address,
                          char ret_text[LISTEN_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->ss_family == AF_UNIX) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)address;
        snprintf(ret_text, LISTEN_ADDRESS_TEXT, "%s%s", unix_scheme, local->sun_path);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(ret_text, LISTEN_ADDRESS_TEXT, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(ret_text, LISTEN_ADDRESS_TEXT, "%s:%u", host, ntohs(v4->sin_port));
    }
}

bool listen_address_is_local(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    return address->ss_family == AF_UNIX || ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}
