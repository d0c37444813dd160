/* why.h: what to tell the person: a fixed buffer that names the field, the value found and what
 * would be right.
 *
 * It is the last parameter of calls that read options, files or bodies; it is written only on
 * failure and never allocates. What a program should be able to read of a refusal (two values that differ, the figures
 * of what does not fit) stands in parts beside the line. NULL is allowed wherever a struct why is taken. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_WHY_H
#define FOLDKV_CONFIG_WHY_H

#include "config/status.h"

enum { WHY_PARTS_MAX = 4 };

struct why_part {
    char key[24];
    bool is_number;
    uint64_t number;
    char text[96]; /* of what is no number */
};

struct why {
    char text[384]; /* one line, NUL-terminated, no newline */
    char field[96]; /* the option, key, tensor or JSON field at fault; "" if none */
    uint32_t n_parts;
    struct why_part parts[WHY_PARTS_MAX];
};

/* Writes text and field, forgets the parts, and returns s, so that a failure is one statement: return why_set(w, s,
 * "field", "...", ...). Control bytes and invalid UTF-8 in the formatted text are replaced by '?'. */
enum status why_set(struct why *w, enum status s, const char *field, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* A part of what was set last; texts are cut to fit and made printable. At most WHY_PARTS_MAX, asserted. */
void why_add_text(struct why *w, const char *key, const char *text);
void why_add_number(struct why *w, const char *key, uint64_t number);
/* Two values that ought to be the same, each under its name, and "field", which is w's. NULL is told as "none". */
void why_add_both(struct why *w, const char *left, const char *left_value, const char *right,
                  const char *right_value);
/* For what a reader said of a file's bytes: puts the file before it, unless it is named already; the parts stay.
 * Returns s; OK changes nothing. */
enum status why_in_file(struct why *w, enum status s, const char *path);

#endif
