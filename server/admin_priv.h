/* admin_priv.h: the admin side's own, for admin*.c alone. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_PRIV_H
#define FOLDKV_SERVER_ADMIN_PRIV_H

#include <sys/stat.h>

#include "server/admin.h"
#include "server/admin_keys.h"

enum { ADMIN_JOB_MAGIC = 0x61646d6e };

/* One call, from its request's end to its answer; it stays when the client leaves. */
struct admin_job {
    uint32_t magic;
    struct admin *admin;
    struct admin_job *previous, *next;
    struct connection *connection; /* NULL: the client has left, or was told something else */
    struct admin_call call;
};

struct admin {
    struct admin_side side;
    struct admin_keys *keys;            /* NULL: only a Unix socket's peers are anybody */
    char keys_path[ADMIN_ADDRESS_ROOM]; /* "": there are none */
    struct stat keys_file;              /* as it was when it was last looked at */
    struct admin_job *first;
};

struct admin_caller {
    char who[ADMIN_WHO_ROOM];
    enum admin_role role; /* the most it may */
};

/* Reads the keys' file again if it is another than before; if it is a bad one, the old keys hold. */
void admin_follow_keys(struct admin *admin);
/* Who is at the other end. UNAUTHENTICATED. */
enum status admin_caller_find(const struct connection *c, struct admin_caller *ret_caller,
                              struct why *ret_why) MUST_USE;
/* The route of every call. */
void admin_answer(struct connection *c);

#endif
