/* sse.c: one event is one chunk, so that a reader sees it whole.
 *
 * NOT     Comment lines and retry fields: benchmark clients parse every line that is not blank.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/sse.h"

#include "server/error_reply.h"
#include "server/response.h"

void sse_begin(struct connection *c)
{
    response_stream_begin(c, "text/event-stream");
}

void sse_event(struct connection *c, const char *text, size_t len)
{
    static const char before[] = "data: ", after[] = "\n\n";
    connection_service(c)->stats->stream_events++;
    response_piece_begin(c, sizeof before - 1 + len + sizeof after - 1);
    connection_write(c, before, sizeof before - 1);
    connection_write(c, text, len);
    connection_write(c, after, sizeof after - 1);
    response_piece_end(c);
}

void sse_done(struct connection *c)
{
    sse_event(c, "[DONE]", 6);
    response_stream_end(c);
}

void sse_error(struct connection *c, enum status status, const struct why *why)
{
    char json[ERROR_REPLY_BYTES];
    size_t len = error_reply(status, why, json);
    connection_set_not_kept(c);
    sse_event(c, json, len);
    response_stream_end(c);
}
