/* gguf_writer.h: GGUF v3 files made in memory, right or wrong on purpose. A failure of its own
 * ends the test program. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_GGUF_WRITER_H
#define FOLDKV_TESTS_GGUF_WRITER_H

#include "config/gguf.h"

struct gguf_writer;

/* One tensor's description as it will be written; a test may change any of it before the file is
 * finished. */
struct gguf_writer_tensor {
    char name[128];
    uint64_t name_len; /* as written; the bytes are those of name */
    uint32_t n_dims;
    uint64_t dims[8];
    uint32_t type;
    uint64_t offset; /* set by finish unless has_offset */
    bool has_offset;
    char *data; /* owned by the writer */
    size_t bytes;
};

/* What else can be written wrong. Zero: as it should be. */
struct gguf_writer_quirks {
    char magic[5]; /* "" for "GGUF" */
    bool has_version, has_n_keys, has_n_tensors;
    uint32_t version;
    uint64_t n_keys, n_tensors;
    uint32_t alignment; /* of the data, 0 for 32; the key is the test's to write */
};

struct gguf_writer *gguf_writer_new(void);
void gguf_writer_free(struct gguf_writer **writer);
struct gguf_writer_quirks *gguf_writer_quirks(struct gguf_writer *writer);

void gguf_writer_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_writer_string(struct gguf_writer *writer, const char *key, const char *value);
void gguf_writer_strings(struct gguf_writer *writer, const char *key, const char *const *values,
                         size_t count);
/* Any value: its type and the bytes behind the type. */
void gguf_writer_value(struct gguf_writer *writer, const char *key, uint32_t type,
                       const void *value, size_t bytes);
/* An array of items of one size. */
void gguf_writer_array(struct gguf_writer *writer, const char *key, uint32_t item_type,
                       const void *items, uint64_t count, size_t bytes);
/* Takes a key out again; nothing happens if there is none. */
void gguf_writer_drop_key(struct gguf_writer *writer, const char *key);
/* Bytes as they are in the place of a whole key; counts as one. */
void gguf_writer_raw_key(struct gguf_writer *writer, const void *bytes, size_t len);

/* A tensor with a copy of data (zeros if NULL); what it returns is valid until the next tensor
 * is added. */
struct gguf_writer_tensor *gguf_writer_tensor(struct gguf_writer *writer, const char *name,
                                              uint32_t type, uint32_t n_dims, const uint64_t *dims,
                                              const void *data, size_t bytes);
/* Removes a tensor that was added. */
void gguf_writer_drop(struct gguf_writer *writer, const char *name);
struct gguf_writer_tensor *gguf_writer_find(struct gguf_writer *writer, const char *name);

/* The file, in memory of exactly its length, freed with mem_free. May be called again after
 * changes. */
char *gguf_writer_finish(struct gguf_writer *writer, size_t *ret_len);

#endif
