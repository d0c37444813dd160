/* status.c: status.def read as tables.
 *
 * HOW     One row gives number, HTTP code, API code and text; nothing else in the tree repeats
 *         them.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/status.h"

struct status_row {
    int http;
    bool retryable;
    const char *code;
    const char *text;
};

static const struct status_row rows[STATUS_COUNT] = {
#define STATUS(name, http, retry, code, text) {http, retry, code, text},
#include "config/status.def"
#undef STATUS
};

const char *status_code(enum status s)
{
    ASSERT(s < STATUS_COUNT);
    return rows[s].code;
}

const char *status_text(enum status s)
{
    ASSERT(s < STATUS_COUNT);
    return rows[s].text;
}

int status_http(enum status s)
{
    ASSERT(s < STATUS_COUNT);
    return rows[s].http;
}

bool status_is_retryable(enum status s)
{
    ASSERT(s < STATUS_COUNT);
    return rows[s].retryable;
}
