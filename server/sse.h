/* sse.h: server-sent events on a stream answer. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SSE_H
#define FOLDKV_SERVER_SSE_H

#include "server/connection.h"

void sse_begin(struct connection *c);
/* One event: "data: " + text, which is one line, + an empty line. */
void sse_event(struct connection *c, const char *text, size_t len);
/* data: [DONE], and the request's end. */
void sse_done(struct connection *c);
/* An error after the first byte: its event, and the request's end without [DONE]. The connection is not kept. */
void sse_error(struct connection *c, enum status status, const struct why *why);

#endif
