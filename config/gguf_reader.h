/* gguf_reader.h: a cursor over untrusted bytes: nothing is read before it is known to be there.
 *
 * It carries what it is reading so that every refusal names it. One thread, on the
 * caller's stack. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GGUF_READER_H
#define FOLDKV_CONFIG_GGUF_READER_H

#include "config/why.h"

struct gguf_reader {
    const uint8_t *bytes;
    size_t len, at;      /* at <= len always */
    struct why *why;     /* may be NULL */
    const char *kind;    /* of what is being read: "header", "key", "tensor" */
    size_t place, count; /* the place-th of count; count 0: there is one only */
    struct slice name;   /* .len 0 until it is known */
};

/* Sets what is being read: the one of its kind, or the place-th of count, or (once known) by name.
 * Nothing is formatted unless it is refused. name is a loan until the next of these calls. */
void gguf_reader_about(struct gguf_reader *r, const char *kind, size_t place, size_t count);
void gguf_reader_about_named(struct gguf_reader *r, const char *kind, struct slice name);
size_t gguf_reader_left(const struct gguf_reader *r);
/* BAD_FILE with "key 3 of 12: text" or "key \"name\": text"; the name is why's field. */
enum status gguf_reader_refuse(struct gguf_reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* NO_MEMORY for count of something. */
enum status gguf_reader_no_memory(struct gguf_reader *r, size_t count, const char *something);

/* Each takes what it names and moves on, or refuses and stays; what is the thing's name for the
 * refusal. */
enum status gguf_reader_u32(struct gguf_reader *r, const char *what, uint32_t *ret) MUST_USE;
enum status gguf_reader_u64(struct gguf_reader *r, const char *what, uint64_t *ret) MUST_USE;
enum status gguf_reader_string(struct gguf_reader *r, const char *what, struct slice *ret) MUST_USE;
enum status gguf_reader_bytes(struct gguf_reader *r, const char *what, uint64_t len,
                              const uint8_t **ret) MUST_USE;

#endif
