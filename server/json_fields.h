/* json_fields.h: the top-level fields of a JSON object, read by a table: one row a field that is
 * known.
 *
 * null is absence. A refusal names the field, the value found and what would be right. Any
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_FIELDS_H
#define FOLDKV_SERVER_JSON_FIELDS_H

#include <jansson.h>

#include "config/why.h"

enum json_field_kind {
    FIELD_BOOL,         /* bool at offset */
    FIELD_INTEGER,      /* 32 bits at offset, least to most */
    FIELD_NUMBER,       /* float at offset, least to most */
    FIELD_NUMBER_ABOVE, /* the same without least itself */
    FIELD_TEXT,         /* struct slice at offset, least to most bytes; it points into the JSON */
    FIELD_READ,         /* whatever read makes of it */
    /* Fields that are not served: accepted when they say nothing. */
    FIELD_ONLY_NUMBER, /* the number most */
    FIELD_ONLY_FALSE,
    FIELD_ONLY_EMPTY, /* "", [] or {} */
    FIELD_ONLY_NULL,
    /* Fields that change no answer: the type alone is checked. */
    FIELD_ANY_BOOL,
    FIELD_ANY_TEXT,
    FIELD_ANY_OBJECT
};

struct json_field {
    const char *name;
    enum json_field_kind kind;
    size_t offset;
    double least, most;
    enum status (*read)(const char *name, const json_t *value, void *target, struct why *ret_why);
};

/* Reads every field of object into target, whose absent fields keep what they had. BAD_REQUEST;
 * UNSUPPORTED_FIELD for a field that is not served and says something. */
enum status json_fields_read(json_t *object, const struct json_field *fields, size_t n_fields,
                             void *target, struct why *ret_why) MUST_USE;

/* "NAME: VALUE is not RIGHT". */
enum status json_refuse(const char *name, const json_t *value, const char *right,
                        struct why *ret_why);
/* One string of least to most bytes. */
enum status json_read_text(const char *name, const json_t *value, size_t least, size_t most,
                           struct slice *ret_text, struct why *ret_why) MUST_USE;
/* A list of token ids: mem_alloc'd, NULL if the list is empty. BAD_REQUEST, NO_MEMORY. */
enum status json_read_ids(const char *name, const json_t *list, uint32_t **ret_ids,
                          uint32_t *ret_count, struct why *ret_why) MUST_USE;

#endif
