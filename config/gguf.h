/* gguf.h: a GGUF v3 file, mapped, checked whole, and handed out as views.
 *
 * Every count, offset, size, type and alignment is checked against the bytes that are there
 * before it is used; nothing is allocated by the file's word alone. Views point into the mapping
 * and live as long as the gguf. Read-only after opening, so any thread may read. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GGUF_H
#define FOLDKV_CONFIG_GGUF_H

#include "config/why.h"

struct gguf;

struct gguf_tensor {
    struct slice name;
    uint32_t n_dims;
    uint64_t dims[4]; /* dims[0] is the contiguous one; unused ones are 1 */
    uint32_t type;    /* ggml type id */
    const void *data;
    size_t bytes;
};

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

/* Maps and checks path. IO if it cannot be read, BAD_FILE if it contradicts the format (ret_why
 * names the key or tensor, what was found and what was needed), NO_MEMORY. On failure *ret_gguf
 * is NULL. */
enum status gguf_open(const char *path, struct gguf **ret_gguf, struct why *ret_why) MUST_USE;
/* The same over bytes that the caller keeps (tests, fuzzers). */
enum status gguf_parse(const void *bytes, size_t len, struct gguf **ret_gguf,
                       struct why *ret_why) MUST_USE;
void gguf_free(struct gguf **gguf);

size_t gguf_tensor_count(const struct gguf *gguf);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, size_t i);
/* NULL if there is none of that name. */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *gguf, const char *name);

/* Every key of the metadata, in the file's order. */
size_t gguf_key_count(const struct gguf *gguf);
struct slice gguf_key_at(const struct gguf *gguf, size_t i);

/* Metadata by key. `has` is false for an absent key; the getters fail with BAD_FILE naming the
 * key if it is absent or of another type, or (integers) out of range of the C type. Integer
 * getters take any integer type of the file. */
bool gguf_has(const struct gguf *gguf, const char *key);
enum status gguf_u32(const struct gguf *gguf, const char *key, uint32_t *ret,
                     struct why *ret_why) MUST_USE;
enum status gguf_f32(const struct gguf *gguf, const char *key, float *ret,
                     struct why *ret_why) MUST_USE;
enum status gguf_bool(const struct gguf *gguf, const char *key, bool *ret,
                      struct why *ret_why) MUST_USE;
enum status gguf_string(const struct gguf *gguf, const char *key, struct slice *ret,
                        struct why *ret_why) MUST_USE;
/* The element type and count of an array key. */
enum status gguf_array(const struct gguf *gguf, const char *key, enum gguf_type *ret_type,
                       size_t *ret_count, struct why *ret_why) MUST_USE;
/* Element i of an array that gguf_array described; i and the type must be right (asserted).
 * Strings are random access. Integers are those of any integer type; of a u64 the bits are given
 * as they are. */
struct slice gguf_array_string(const struct gguf *gguf, const char *key, size_t i);
int64_t gguf_array_int(const struct gguf *gguf, const char *key, size_t i);
float gguf_array_f32(const struct gguf *gguf, const char *key, size_t i);

#endif
