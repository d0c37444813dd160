/* router.h: which function answers which path. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ROUTER_H
#define FOLDKV_SERVER_ROUTER_H

#include "server/connection.h"

struct route {
    const char *path; /* whole, or if it ends with '/', the beginning of one that goes on */
    bool takes_json;  /* POST with a JSON body; else GET and HEAD */
    void (*answer)(struct connection *c);
};

/* Which requests a listener answers. */
struct router {
    /* When the head is in: the route, or why there is none for this client; a body that nobody wants is then not awaited. */
    enum status (*find)(const struct connection *c, const struct route **ret_route,
                        struct why *ret_why);
    /* The methods that the path takes, after METHOD_NOT_ALLOWED. */
    const char *(*allowed)(const struct connection *c);
};
/* The inference port's. */
extern const struct router router_inference;

/* OK; NOT_FOUND; METHOD_NOT_ALLOWED with *ret_route the path's. */
enum status router_find(const struct http_head *head, const struct route **ret_route) MUST_USE;

#endif
