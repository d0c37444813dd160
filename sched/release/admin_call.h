/* admin_call.h: one call of the admin API between whoever speaks HTTP and the release side that answers it.
 *
 * The asker fills in the upper part and gives it to releases_ask (releases.h); its texts are the asker's and must stay
 * until on_done, which is called exactly once, on the loop thread, with the answer in the lower part. Answers may
 * take as long as a load; the asker whose client left forgets user and still gets the call back. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ADMIN_CALL_H
#define FOLDKV_SCHED_ADMIN_CALL_H

#include "config/record.h"

enum admin_op {
#define ADMIN(OP, method, path, ROLE, EPOCH, prose) ADMIN_##OP,
#include "sched/release/admin_call.def"
#undef ADMIN
    ADMIN_OP_COUNT
};

enum admin_role { ADMIN_ROLE_VIEW, ADMIN_ROLE_OPERATE, ADMIN_ROLE_APPROVE, ADMIN_ROLE_COUNT };
enum admin_epoch { ADMIN_EPOCH_NONE, ADMIN_EPOCH_MATCH, ADMIN_EPOCH_ANY };

struct admin_route {
    const char *key;    /* "GENERATION_PUBLISH" */
    const char *method; /* "POST" */
    const char *path;   /* with {id} */
    enum admin_role role;
    enum admin_epoch epoch; /* NONE: it changes nothing */
    const char *prose;
};
/* op < ADMIN_OP_COUNT, asserted. Any thread. */
const struct admin_route *admin_route(enum admin_op op);
/* "view", "operate", "approve". */
const char *admin_role_name(enum admin_role role);

/* OK: 200. CREATED: 201. ACCEPTED: 202, it goes on after the answer. */
enum admin_result { ADMIN_RESULT_OK, ADMIN_RESULT_CREATED, ADMIN_RESULT_ACCEPTED };

enum { ADMIN_SUBJECT_ROOM = 128, ADMIN_WHO_ROOM = 128, ADMIN_KEY_ROOM = 256 };

struct admin_call {
    /* The question. */
    enum admin_op op;
    char subject[ADMIN_SUBJECT_ROOM]; /* the path's {id}; "" where there is none */
    struct record body;               /* an object; without json where there is none */
    char who[ADMIN_WHO_ROOM];         /* a principal: "uid:1000", or a key's name */
    enum admin_role role;             /* checked by the asker; here for the audit */
    char idempotency_key[ADMIN_KEY_ROOM]; /* as sent; "": a call that changes nothing */
    char payload_hash[SHA256_HEX];        /* of op, subject and body as sent */
    int64_t epoch_expected;               /* EPOCH_ANY (change.h): If-Match: * */
    bool is_dry_run;
    int64_t after, limit; /* of the audit */
    void (*on_done)(void *user, struct admin_call *call);
    void *user;

    /* The answer. status OK: text is a JSON object, or JSON lines for the audit. Otherwise why has
     * the line for a person, and text, where it is not NULL, a JSON object with the parts of the refusal
     * (the two values of receipts that disagree, the figures of what does not fit), which the
     * error body carries as "detail". text is the asker's then (mem_free). */
    enum status status;
    struct why why;
    enum admin_result result;
    int64_t epoch; /* after the call: the ETag */
    bool is_repeat; /* the key had been answered before: the same answer, nothing was done */
    char *text;

    void *work; /* the release side's own */
};

#endif
