/* admin_client.h: the admin API seen from a terminal: one question, one answer, over a Unix socket or HTTP.
 *
 * A question that changes something carries a fresh Idempotency-Key and the release epoch that it expects; where the
 * connection breaks after the question was sent, it is asked once more with the same key, which cannot do it twice. Blocking; one thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_CLIENT_H
#define FOLDKV_SERVER_ADMIN_CLIENT_H

#include "sched/release/admin_call.h"

struct admin_client;

/* Where the daemon listens: target "unix:PATH" or "http://HOST:PORT" (https too); NULL: DIR/admin.sock of state_dir. key_path, which may
 * be NULL, is a file whose first line is the key. timeout_s is the longest time for one answer. */
struct admin_place {
    const char *target, *state_dir, *key_path;
    uint32_t timeout_s;
};

struct admin_question {
    enum admin_op op;
    const char *subject; /* the path's {id}; NULL where there is none */
    const char *body;    /* a JSON object; NULL: {} */
    const char *epoch;   /* digits, or "*"; NULL: the daemon is asked for it just before */
    bool is_dry_run;
    int64_t after, limit; /* of the audit */
};

/* text is as the daemon sent it, the JSON error object included; mem_free. NULL if there was no answer. */
struct admin_answer {
    char *text;
    size_t len;
    int http;
    int64_t epoch; /* -1: it named none */
};

/* Connects to nothing yet. BAD_OPTION, IO, NO_MEMORY. */
enum status admin_client_new(const struct admin_place *place, struct admin_client **ret_client,
                             struct why *ret_why) MUST_USE;
void admin_client_free(struct admin_client **client);
/* OK: it happened. Otherwise the daemon's own status with its sentence, UNAVAILABLE if nobody answers there, or INTERNAL for an answer
 * that is none of this API. ret_answer is always set. */
enum status admin_client_ask(struct admin_client *client, const struct admin_question *question,
                             struct admin_answer *ret_answer, struct why *ret_why) MUST_USE;

#endif
