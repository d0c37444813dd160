/* load_stream.h: one streamed completion against any OpenAI server, with the time of each event:
 * what `foldkv bench serve` is made of.
 *
 * Non-blocking sockets; the owner polls. One thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LOAD_STREAM_H
#define FOLDKV_SERVER_LOAD_STREAM_H

#include <netinet/in.h>

#include "config/why.h"

struct load_stream;

/* Where the server listens: "http://127.0.0.1:8080" or "127.0.0.1:8080". Loopback only; BAD_OPTION
 * otherwise. url must outlive the target, and the target its streams. */
struct load_target {
    struct sockaddr_in address;
    char host[64];
    const char *url;   /* as it was given; the caller's */
    const char *model; /* of the request; NULL: none is named. Set by the caller */
};
enum status load_target_parse(const char *url, struct load_target *ret_target,
                              struct why *ret_why) MUST_USE;

/* Room for the times of events_max events, at least as many as an answer may have tokens. NO_MEMORY. */
enum status load_stream_new(uint32_t events_max, struct load_stream **ret_stream) MUST_USE;
void load_stream_free(struct load_stream **stream);
/* Connects and will send a completion request for the token ids, greedy, ignoring end tokens. The
 * stream must be idle. IO on failure. */
enum status load_stream_start(struct load_stream *stream, const struct load_target *target,
                              const uint32_t *ids, uint32_t n_ids, uint32_t max_tokens,
                              struct why *ret_why) MUST_USE;
/* What to poll for; -1 when it is idle. */
int load_stream_fd(const struct load_stream *stream);
short load_stream_events(const struct load_stream *stream);
/* Does what poll found. IO or INTERNAL with a why if the server failed it. */
enum status load_stream_advance(struct load_stream *stream, short revents,
                                struct why *ret_why) MUST_USE;
bool load_stream_is_done(const struct load_stream *stream);

/* Of the last or current request. Times are CLOCK_MONOTONIC nanoseconds, of an event when its bytes
 * reached the socket; event 0 is the first token. */
uint64_t load_stream_start_ns(const struct load_stream *stream);
uint32_t load_stream_event_count(const struct load_stream *stream);
uint64_t load_stream_event_ns(const struct load_stream *stream, uint32_t i);
/* How many tokens came with event i: more than one where those before it gave no text (a character is held until it is whole,
 * an end token has none), if the server tells its usage with every event; else 1. */
uint32_t load_stream_event_tokens(const struct load_stream *stream, uint32_t i);
/* From the last usage there was. */
uint32_t load_stream_completion_tokens(const struct load_stream *stream);
uint32_t load_stream_cached_tokens(const struct load_stream *stream);

#endif
