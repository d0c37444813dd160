/* json_body.h: the bytes of a request as a checked JSON object. Any thread; the object belongs to
 * one thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_BODY_H
#define FOLDKV_SERVER_JSON_BODY_H

#include <jansson.h>

#include "server/json_scan.h"

struct json_body {
    json_t *root;        /* an object */
    struct json_big big; /* the one integer that jansson cannot hold; root has 0 there */
};

/* BAD_REQUEST if it is no JSON object, has a key twice, bytes that are not UTF-8, or what json_scan
 * refuses. NO_MEMORY. */
enum status json_body_parse(struct slice bytes, const char *big_field, struct json_body *ret_body,
                            struct why *ret_why) MUST_USE;

#endif
