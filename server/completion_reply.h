/* completion_reply.h: completion objects, stream chunks and usage as JSON text.
 *
 * Outputs are mem_alloc'd, NUL-terminated, on one line, and freed with mem_free. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMPLETION_REPLY_H
#define FOLDKV_SERVER_COMPLETION_REPLY_H

#include "config/base.h"
#include "sched/request.h"

struct json_t;

struct reply_head {
    const char *id; /* "cmpl-..." */
    const char *model;
    int64_t created_s;
};

struct reply_usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
};

struct reply_choice {
    struct slice text; /* bytes that are not UTF-8 become U+FFFD */
    /* NONE prints null; STOP and LENGTH their names; others are not for a choice. */
    enum finish_reason finish_reason;
    struct json_t *scores; /* token_scores_take's, taken by the call, OK or not; NULL prints null */
};

/* {"id","object":"text_completion","created","model","choices":[choice],"usage"}. NO_MEMORY. */
enum status completion_reply_whole(const struct reply_head *head, struct reply_choice *choice,
                                   const struct reply_usage *usage, char **ret_json,
                                   size_t *ret_len) MUST_USE;
/* One stream chunk (without "data: "). choice NULL: "choices":[] (the usage chunk). usage NULL: no
 * usage, or "usage":null if with_usage (the stream will end with a usage chunk). NO_MEMORY. */
enum status completion_reply_chunk(const struct reply_head *head, struct reply_choice *choice,
                                   const struct reply_usage *usage, bool with_usage,
                                   char **ret_json, size_t *ret_len) MUST_USE;

#endif
