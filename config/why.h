/* why.h: what to tell the person: a fixed buffer that names the field, the value found and what
 * would be right.
 *
 * It is the last parameter of calls that read options, files or bodies; it is written only on
 * failure and never allocates. NULL is allowed wherever a struct why is taken. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_WHY_H
#define FOLDKV_CONFIG_WHY_H

#include "config/status.h"

struct why {
    char text[384]; /* one line, NUL-terminated, no newline */
    char field[96]; /* the option, key, tensor or JSON field at fault; "" if none */
};

/* Writes both and returns s, so that a failure is one statement: return why_set(w, s, "field",
 * "...", ...). Control bytes and invalid UTF-8 in the formatted text are replaced by '?'. */
enum status why_set(struct why *w, enum status s, const char *field, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
