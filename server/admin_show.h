/* admin_show.h: JSON for a person: members in columns, lists of objects as tables. Control bytes of texts are not passed on to a terminal.
 * Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_SHOW_H
#define FOLDKV_SERVER_ADMIN_SHOW_H

#include <jansson.h>
#include <stdio.h>

/* Any value, indented by so many spaces. */
void admin_show_value(const json_t *value, int indent, FILE *out);
/* The "detail" of a refusal's text, if there is one. */
void admin_show_detail(const char *text, size_t len, FILE *out);
/* What a scalar looks like, cut to fit; "-" for null and what is not there. */
void admin_show_scalar(const json_t *value, char *ret_text, size_t room);

#endif
