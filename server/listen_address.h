/* listen_address.h: HOST:PORT and [IPV6]:PORT as socket addresses, and back. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LISTEN_ADDRESS_H
#define FOLDKV_SERVER_LISTEN_ADDRESS_H

#include <sys/socket.h>

#include "config/why.h"

enum { LISTEN_ADDRESS_TEXT = 80 };

/* HOST is an IPv4 number, "localhost", or in brackets an IPv6 number. BAD_OPTION, field server.listen. */
enum status listen_address_parse(const char *text, struct sockaddr_storage *ret_address,
                                 struct why *ret_why) MUST_USE;
/* "127.0.0.1:8080" or "[::1]:8080". */
void listen_address_print(const struct sockaddr_storage *address,
                          char ret_text[LISTEN_ADDRESS_TEXT]);

#endif
