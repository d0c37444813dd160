/* gguf_keys.c: reads a GGUF file's metadata.
 *
 * HOW     Keys stay where they are in the mapping; only a small record of each is kept, and for
 *         string arrays where each item starts, so that item 49,000 costs what item 0 does.
 * ALWAYS  (1) Memory is taken for no more records than the bytes left could hold.   read_array
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_priv.h"

#include <inttypes.h>

#include "config/mem.h"
#include "config/unicode.h"

enum { STRING_BYTES_LEAST = 8 };

static enum status check_bools(struct gguf_reader *r, const uint8_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] > 1)
            return gguf_reader_refuse(r, "a bool is %u, must be 0 or 1", values[i]);
    }
    return OK;
}

/* Notes where each of count strings starts. */
static enum status read_strings(struct gguf_key *key, struct gguf_reader *r, size_t count)
{
    size_t start = r->at;
    key->value = r->bytes + start;
    if (count == 0)
        return OK;
    bool is_wide = gguf_reader_left(r) > UINT32_MAX;
    if (is_wide)
        key->offsets64 = mem_alloc(count * sizeof *key->offsets64);
    else
        key->offsets32 = mem_alloc(count * sizeof *key->offsets32);
    if (key->offsets32 == NULL && key->offsets64 == NULL)
        return gguf_reader_no_memory(r, count, "strings");
    for (size_t i = 0; i < count; i++) {
        size_t offset = r->at - start;
        if (is_wide)
            key->offsets64[i] = offset;
        else
            key->offsets32[i] = (uint32_t)offset;
        struct slice item;
        TRY(gguf_reader_string(r, "an item of the array", &item));
    }
    return OK;
}

static enum status read_array(struct gguf_key *key, struct gguf_reader *r)
{
    uint32_t type = 0;
    TRY(gguf_reader_u32(r, "the array's type", &type));
    TRY(gguf_reader_u64(r, "the array's length", &key->count));
    if (type == GGUF_ARRAY)
        return gguf_reader_refuse(r, "an array of arrays, which is not served");
    if (type >= GGUF_TYPE_COUNT)
        return gguf_reader_refuse(r, "array items of type %" PRIu32 ", known are 0..%d", type,
                                  GGUF_TYPE_COUNT - 1);
    key->item_type = (enum gguf_type)type;
    size_t least = type == GGUF_STRING ? STRING_BYTES_LEAST : gguf_type_rows[type].bytes;
    if (key->count > gguf_reader_left(r) / least)
        return gguf_reader_refuse(
            r, "an array of %" PRIu64 " items of at least %zu bytes, the file has %zu bytes left",
            key->count, least, gguf_reader_left(r));
    if (type == GGUF_STRING)
        return read_strings(key, r, (size_t)key->count);
    TRY(gguf_reader_bytes(r, "the array", key->count * least, &key->value));
    return type == GGUF_BOOL ? check_bools(r, key->value, (size_t)key->count) : OK;
}

static enum status read_value(struct gguf_key *key, struct gguf_reader *r)
{
    uint32_t type = 0;
    TRY(gguf_reader_u32(r, "the type", &type));
    if (type >= GGUF_TYPE_COUNT)
        return gguf_reader_refuse(r, "type %" PRIu32 ", known are 0..%d", type,
                                  GGUF_TYPE_COUNT - 1);
    key->type = key->item_type = (enum gguf_type)type;
    key->count = 1;
    if (type == GGUF_ARRAY)
        return read_array(key, r);
    if (type == GGUF_STRING) {
        TRY(gguf_reader_u64(r, "the string's length", &key->count));
        return gguf_reader_bytes(r, "the string", key->count, &key->value);
    }
    TRY(gguf_reader_bytes(r, "the value", gguf_type_rows[type].bytes, &key->value));
    return type == GGUF_BOOL ? check_bools(r, key->value, 1) : OK;
}

static enum status read_key(struct gguf_key *key, struct gguf_reader *r)
{
    TRY(gguf_reader_string(r, "the key's name", &key->name));
    if (key->name.len == 0 || key->name.len > GGUF_KEY_BYTES_MAX)
        return gguf_reader_refuse(r, "a name of %zu bytes, must be 1..%d", key->name.len,
                                  GGUF_KEY_BYTES_MAX);
    gguf_reader_about_named(r, "key", key->name);
    if (!unicode_is_printable(key->name))
        return gguf_reader_refuse(r, "the name has control bytes or is not UTF-8");
    return read_value(key, r);
}

enum status gguf_keys_read(struct gguf *gguf, struct gguf_reader *r, size_t n_keys)
{
    gguf->keys = mem_zalloc(n_keys, sizeof *gguf->keys);
    gguf->keys_sorted = mem_zalloc(n_keys, sizeof(struct slice *));
    if (gguf->keys == NULL || gguf->keys_sorted == NULL)
        return gguf_reader_no_memory(r, n_keys, "keys");
    gguf->n_keys = n_keys;
    for (size_t i = 0; i < gguf->n_keys; i++) {
        gguf_reader_about(r, "key", i + 1, gguf->n_keys);
        TRY(read_key(&gguf->keys[i], r));
        gguf->keys_sorted[i] = &gguf->keys[i].name;
    }
    gguf_names_sort(gguf->keys_sorted, gguf->n_keys);
    const struct slice *twice = gguf_names_twice(gguf->keys_sorted, gguf->n_keys);
    if (twice == NULL)
        return OK;
    gguf_reader_about_named(r, "key", *twice);
    return gguf_reader_refuse(r, "stands twice, must stand once");
}
