/* response.h: answers: a whole one, an error, or the head of a stream and its pieces.
 *
 * Each whole answer ends the request (connection_end). Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_RESPONSE_H
#define FOLDKV_SERVER_RESPONSE_H

#include "server/connection.h"

/* The whole answer; the body is copied. */
void response_whole(struct connection *c, int http_status, const char *content_type,
                    const void *body, size_t len);
/* The same with further headers, each ending in CRLF. */
void response_headed(struct connection *c, int http_status, const char *content_type,
                     const char *headers, const void *body, size_t len);
void response_json(struct connection *c, const char *json, size_t len);
/* {"error": ...} with the status's HTTP code; Retry-After where trying again may help, in seconds from the engine's queue. why may
 * be NULL. */
void response_error(struct connection *c, enum status status, const struct why *why);
/* The same with further headers, and with a JSON value as error.detail if it is not NULL. */
void response_error_detailed(struct connection *c, enum status status, const struct why *why,
                             const char *headers, const char *detail);
/* The head of an answer whose length is not known: chunks on HTTP/1.1, to the close on 1.0. */
void response_stream_begin(struct connection *c, const char *content_type);
/* Around connection_writes that come to len bytes, which is not 0. */
void response_piece_begin(struct connection *c, size_t len);
void response_piece_end(struct connection *c);
/* The last chunk, and the request's end. */
void response_stream_end(struct connection *c);

#endif
