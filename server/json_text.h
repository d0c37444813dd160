/* json_text.h: from bytes to JSON strings, and from JSON to text that is ours. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_TEXT_H
#define FOLDKV_SERVER_JSON_TEXT_H

#include <jansson.h>

#include "config/status.h"

/* A string of the bytes, those that are no text as U+FFFD. NULL when memory cannot be had. */
json_t *json_text_string(struct slice bytes) MUST_USE;
/* Takes the value (NULL is an earlier failure, and the result then NO_MEMORY) and prints it on one
 * line, NUL-terminated; mem_alloc'd. Reals are floats: nine digits tell every one. */
enum status json_text_print(json_t **value, char **ret_text, size_t *ret_len) MUST_USE;

#endif
