/* gguf_priv.h: the inside of struct gguf, for the gguf_*.c files only. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GGUF_PRIV_H
#define FOLDKV_CONFIG_GGUF_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "config/gguf.h"
#include "config/gguf_reader.h"
#include "config/sha256.h"

enum {
    GGUF_KEYS_MAX = 65536,
    GGUF_TENSORS_MAX = 65536,
    GGUF_KEY_BYTES_MAX = 65535,
    GGUF_TENSOR_NAME_MAX = 63, /* ggml's own bound; callers keep names in char[64] */
    GGUF_ALIGNMENT_LEAST = 8,
    GGUF_ALIGNMENT_MOST = 4096,
    GGUF_ALIGNMENT_DEFAULT = 32,
};

struct gguf_type_row {
    const char *name;
    uint8_t bytes; /* 0: not of one size */
    bool is_integer, is_signed;
};
extern const struct gguf_type_row gguf_type_rows[GGUF_TYPE_COUNT];

struct gguf_key {
    struct slice name;
    enum gguf_type type;
    enum gguf_type item_type; /* of an array; else as type */
    const uint8_t
        *value; /* in the mapping, unaligned; of an array its first item; of a string its bytes */
    uint64_t count; /* of an array its items, of a string its bytes, else 1 */
    /* Of a string array: where each item's length stands, counted from value. One of the two;
     * owned. */
    uint32_t *offsets32;
    uint64_t *offsets64;
};

/* What gguf_hash_file keeps. */
struct gguf_file_hash {
    pthread_mutex_t lock;
    bool is_taken;
    atomic_bool is_stopped; /* not under the lock */
    uint8_t hash[SHA256_BYTES];
};

struct gguf {
    const uint8_t *bytes;
    size_t len;
    bool is_mapped; /* the mapping is ours */
    struct gguf_key *keys;
    const struct slice **keys_sorted;
    size_t n_keys;
    struct gguf_tensor *tensors;
    const struct slice **tensors_sorted;
    size_t n_tensors;
    struct gguf_file_hash file_hash; /* written under its lock, in a const one too */
};

/* Reads the keys behind the reader into gguf->keys and their index. The header's counts have
 * been checked to be possible. */
enum status gguf_keys_read(struct gguf *gguf, struct gguf_reader *r, size_t n_keys) MUST_USE;
/* Reads the tensors' descriptions, and checks them against the data behind. */
enum status gguf_tensors_read(struct gguf *gguf, struct gguf_reader *r, size_t n_tensors) MUST_USE;

/* Sorted names: finding one, and meeting one twice, cost no more for hostile names than for
 * others. Sorts by length, then by bytes. */
void gguf_names_sort(const struct slice **names, size_t count);
/* A name that stands twice in sorted names; NULL if none does. */
const struct slice *gguf_names_twice(const struct slice *const *sorted, size_t count);
/* NULL if it is not there. */
const struct slice *gguf_names_find(const struct slice *const *sorted, size_t count,
                                    struct slice name);

#endif
