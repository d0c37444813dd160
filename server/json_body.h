/* json_body.h: the bytes of a request as a checked JSON object. Any thread; the object belongs to one thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_BODY_H
#define FOLDKV_SERVER_JSON_BODY_H

#include <jansson.h>

#include "config/why.h"

enum { JSON_DEPTH_MAX = 64 };

/* A body and the one number that jansson cannot hold. */
struct json_body {
    json_t *root; /* an object */
    bool has_big; /* the top-level field that big_field named has an integer over INT64_MAX, up to UINT64_MAX; root has 0 there */
    uint64_t big;
};

/* BAD_REQUEST if it is no JSON object, is nested deeper than JSON_DEPTH_MAX, has a key twice, a NUL, bytes that are not UTF-8, or
 * an integer over 64 bits (signed, but for big_field: unsigned; NULL if there is none). NO_MEMORY. */
enum status json_body_parse(struct slice bytes, const char *big_field, struct json_body *ret_body, struct why *ret_why) MUST_USE;
void json_body_release(struct json_body *body);

#endif
