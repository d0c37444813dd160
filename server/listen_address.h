/* listen_address.h: HOST:PORT, [IPV6]:PORT and unix:PATH as socket addresses, and back. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LISTEN_ADDRESS_H
#define FOLDKV_SERVER_LISTEN_ADDRESS_H

#include <sys/socket.h>

#include "config/why.h"

enum { LISTEN_ADDRESS_TEXT = 128 };

/* HOST is an IPv4 number, "localhost", or in brackets an IPv6 number. The family of a unix:PATH is AF_UNIX. BAD_OPTION;
 * field is the option that the text is from. */
enum status listen_address_parse(const char *field, const char *text,
                                 struct sockaddr_storage *ret_address,
                                 struct why *ret_why) MUST_USE;
/* "127.0.0.1:8080", "[::1]:8080" or "unix:PATH". */
void listen_address_print(const struct sockaddr_storage *address,
                          char ret_text[LISTEN_ADDRESS_TEXT]);
/* Only this machine can reach it. */
bool listen_address_is_local(const struct sockaddr_storage *address);

#endif
