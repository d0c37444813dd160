/* document.h: JSON that a person or another process wrote, read strictly, with refusals that name
 * the field, the value found and what is right.
 *
 * No duplicate keys, no NUL, depth at most DOCUMENT_DEPTH_MAX, nothing behind the value. Values are loans of the document. Each
 * reader takes the field's full name ("steps[0].weight_bp"), which is what the refusal shows.
 * Refusals are BAD_REQUEST. Any thread; one owner. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_DOCUMENT_H
#define FOLDKV_CONFIG_DOCUMENT_H

#include "config/why.h"

enum { DOCUMENT_DEPTH_MAX = 32 };

struct document;
struct document_value;

/* name says what the text is ("the plan"), for errors. NO_MEMORY or BAD_REQUEST. */
enum status document_parse(struct slice text, const char *name, struct document **ret_document,
                           struct why *ret_why) MUST_USE;
void document_free(struct document **document);
const struct document_value *document_root(const struct document *document);
/* The root as the library's own tree, for record.h, which owns it then; the document is gone. */
void *document_take(struct document **document);

/* NULL if the object has no such member, or value is none. */
const struct document_value *document_find(const struct document_value *object, const char *key);
size_t document_count(const struct document_value *array);
const struct document_value *document_at(const struct document_value *array, size_t i);
/* The i-th member in the order of the text; NULL behind the last. */
const char *document_member(const struct document_value *object, size_t i,
                            const struct document_value **ret_value);

/* Each refuses a value that is absent (NULL) or of another kind. */
enum status document_object(const struct document_value *value, const char *field,
                            struct why *ret_why) MUST_USE;
/* An array of least to most elements. */
enum status document_array(const struct document_value *value, const char *field, size_t least,
                           size_t most, struct why *ret_why) MUST_USE;
enum status document_number(const struct document_value *value, const char *field, uint64_t least,
                            uint64_t most, uint64_t *ret_number, struct why *ret_why) MUST_USE;
/* least to most bytes; the text is the document's and ends in a NUL. */
enum status document_text(const struct document_value *value, const char *field, size_t least,
                          size_t most, const char **ret_text, struct why *ret_why) MUST_USE;
enum status document_bool(const struct document_value *value, const char *field, bool *ret_value,
                          struct why *ret_why) MUST_USE;
/* 64 hex digits in lower case. */
enum status document_hash(const struct document_value *value, const char *field,
                          uint8_t ret_hash[32], struct why *ret_why) MUST_USE;
/* Refuses the first member whose name is not in keys. prefix stands in front of its name
 * ("steps[0]."). */
enum status document_known(const struct document_value *object, const char *prefix,
                           const char *const *keys, size_t n_keys, struct why *ret_why) MUST_USE;
/* "field is VALUE: RIGHT"; VALUE is cut to fit, absent reads "missing". BAD_REQUEST. */
enum status document_refuse(const struct document_value *value, const char *field,
                            const char *right, struct why *ret_why) MUST_USE;

#endif
