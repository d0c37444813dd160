/* json_scan.h: one pass over a body before it is parsed: what the parser would not refuse, or could
 * not hold. Pure function; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_SCAN_H
#define FOLDKV_SERVER_JSON_SCAN_H

#include "config/why.h"

enum { JSON_DEPTH_MAX = 64 };

/* An integer over INT64_MAX; its digits are bytes [from, to) of the body. */
struct json_big {
    size_t from, to; /* equal: there is none */
    uint64_t value;
};

/* BAD_REQUEST for a NUL byte, nesting over JSON_DEPTH_MAX, or an integer that 64 bits do not hold:
 * signed ones, but for the top-level field big_field (NULL: none), which may go up to UINT64_MAX
 * and is then told in ret_big. What is no JSON at all may pass: that is for the parser to say. */
enum status json_scan(struct slice bytes, const char *big_field, struct json_big *ret_big,
                      struct why *ret_why) MUST_USE;

#endif
