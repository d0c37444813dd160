/* gguf_hash.c: the bytes of the whole file, and of chosen keys in the order of their sorted names. */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_hash.h"

#include "config/gguf_priv.h"

enum { STRING_LENGTH_BYTES = 8, HASH_PIECE_BYTES = 1 << 20 };

static struct gguf_file_hash *kept_of(const struct gguf *gguf)
{
    return &((struct gguf *)(uintptr_t)gguf)->file_hash;
}

static enum status hash_bytes(const struct gguf *gguf, struct gguf_file_hash *kept)
{
    struct sha256 *sha;
    size_t at = 0;
    TRY(sha256_new(&sha));
    sha256_start(sha);
    while (at < gguf->len && !atomic_load(&kept->is_stopped)) {
        size_t left = gguf->len - at, n = left < HASH_PIECE_BYTES ? left : HASH_PIECE_BYTES;
        sha256_add(sha, gguf->bytes + at, n);
        at += n;
    }
    sha256_finish(sha, kept->hash);
    sha256_free(&sha);
    return at == gguf->len ? OK : STATUS_UNAVAILABLE;
}

enum status gguf_hash_file(const struct gguf *gguf, uint8_t ret_hash[SHA256_BYTES])
{
    struct gguf_file_hash *kept = kept_of(gguf);
    enum status s = OK;
    pthread_mutex_lock(&kept->lock);
    if (!kept->is_taken)
        s = hash_bytes(gguf, kept);
    kept->is_taken = s == OK;
    memcpy(ret_hash, kept->hash, SHA256_BYTES);
    pthread_mutex_unlock(&kept->lock);
    return s;
}

void gguf_hash_stop(const struct gguf *gguf)
{
    atomic_store(&kept_of(gguf)->is_stopped, true);
}

/* Bytes of a value in the file, from key->value on. */
static size_t value_bytes(const struct gguf_key *key)
{
    if (key->type == GGUF_STRING)
        return (size_t)key->count;
    if (key->item_type != GGUF_STRING)
        return (size_t)key->count * gguf_type_rows[key->item_type].bytes;
    if (key->count == 0)
        return 0;
    uint64_t last = key->offsets32 != NULL ? key->offsets32[key->count - 1]
                                           : key->offsets64[key->count - 1];
    uint64_t len;
    memcpy(&len, key->value + last, STRING_LENGTH_BYTES);
    return (size_t)(last + STRING_LENGTH_BYTES + len);
}

static bool begins_with(struct slice name, const char *prefix)
{
    size_t len = strlen(prefix);
    return name.len >= len && memcmp(name.bytes, prefix, len) == 0;
}

enum status gguf_hash_keys(const struct gguf *gguf, const char *prefix,
                           uint8_t ret_hash[SHA256_BYTES])
{
    struct sha256 *sha;
    TRY(sha256_new(&sha));
    sha256_start(sha);
    for (size_t i = 0; i < gguf->n_keys; i++) {
        const struct slice *name = gguf->keys_sorted[i];
        if (!begins_with(*name, prefix))
            continue;
        const struct gguf_key *key =
            (const struct gguf_key *)((const char *)name - offsetof(struct gguf_key, name));
        const uint8_t types[] = {(uint8_t)key->type, (uint8_t)key->item_type};
        sha256_part(sha, 'K', name->bytes, name->len);
        sha256_part(sha, 'T', types, sizeof types);
        sha256_part(sha, 'V', key->value, value_bytes(key));
    }
    sha256_finish(sha, ret_hash);
    sha256_free(&sha);
    return OK;
}
