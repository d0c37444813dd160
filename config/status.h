/* status.h: the one enum of outcomes, made from status.def. Any function that can fail returns
 * it. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_STATUS_H
#define FOLDKV_CONFIG_STATUS_H

#include "config/base.h"

enum status {
#define STATUS(name, http, retry, code, text) STATUS_##name,
#include "config/status.def"
#undef STATUS
    STATUS_COUNT
};
#define OK STATUS_OK

/* The API's error code, e.g. "queue_full". */
const char *status_code(enum status s);
/* One sentence for a person. */
const char *status_text(enum status s);
int status_http(enum status s);
/* True where the same request may succeed later (the answer carries Retry-After). */
bool status_is_retryable(enum status s);

#endif
