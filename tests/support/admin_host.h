/* admin_host.h: the admin listener in this process, on a thread of its own, with a release side that answers what a test wants.
 *
 * One at a time. What is asked is noted; what is answered, and when, is the test's choice. Calls fail the Check test on a system
 * error. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_ADMIN_HOST_H
#define FOLDKV_TESTS_ADMIN_HOST_H

#include "sched/release/admin_call.h"
#include "tests/support/peer.h"

/* What the side answers from now on; text is copied for each answer. */
struct admin_reply {
    enum status status;
    enum admin_result result;
    const char *why, *text;
    int64_t epoch;
    bool is_repeat;
};

/* keys NULL: on a Unix socket; else on TCP with these lines as admin.keys. */
void admin_host_start(const char *keys);
/* Writes the keys' file anew. */
void admin_host_set_keys(const char *keys);
/* Ends it: every call must have been answered, every connection closes. */
void admin_host_stop(void);
void admin_host_reply(const struct admin_reply *reply);
/* While it holds, calls wait; releasing answers them. */
void admin_host_hold(bool is_holding);
/* What ask says; OK takes the call. */
void admin_host_refuse(enum status status);
/* Tells waiting clients that the server shuts down. */
void admin_host_cancel(void);
/* The last call that was asked, its body printed (""; there was none), and how many there were. */
uint32_t admin_host_asked(struct admin_call *ret_call, char *ret_body, size_t room);
uint32_t admin_host_waiting(void);
/* As it was a moment ago. */
uint32_t admin_host_connections(void);
/* A fresh connection. */
struct peer *admin_host_connect(void);
/* One request on a connection of its own: headers as lines that end in CRLF; body NULL: none, else as JSON. */
struct reply admin_host_ask(const char *method, const char *path, const char *headers,
                            const char *body);

#endif
