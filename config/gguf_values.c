/* gguf_values.c: metadata values by key.
 *
 * WHY     A key that is absent, of another type or out of range must be named with what was found
 *         and what was needed.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_priv.h"

#include <inttypes.h>

const struct gguf_type_row gguf_type_rows[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1, true, false},          [GGUF_I8] = {"i8", 1, true, true},
    [GGUF_U16] = {"u16", 2, true, false},        [GGUF_I16] = {"i16", 2, true, true},
    [GGUF_U32] = {"u32", 4, true, false},        [GGUF_I32] = {"i32", 4, true, true},
    [GGUF_F32] = {"f32", 4, false, true},        [GGUF_BOOL] = {"bool", 1, false, false},
    [GGUF_STRING] = {"string", 0, false, false}, [GGUF_ARRAY] = {"array", 0, false, false},
    [GGUF_U64] = {"u64", 8, true, false},        [GGUF_I64] = {"i64", 8, true, true},
    [GGUF_F64] = {"f64", 8, false, true},
};

static const struct gguf_key *find(const struct gguf *gguf, const char *name)
{
    struct slice wanted = {name, strlen(name)};
    const struct slice *found = gguf_names_find(gguf->keys_sorted, gguf->n_keys, wanted);
    if (found == NULL)
        return NULL;
    return (const struct gguf_key *)((const char *)found - offsetof(struct gguf_key, name));
}

static enum status wrong_type(const struct gguf_key *key, const char *name, const char *needed,
                              struct why *ret_why)
{
    if (key == NULL)
        return why_set(ret_why, STATUS_BAD_FILE, name, "key \"%s\": absent, %s is needed", name,
                       needed);
    return why_set(ret_why, STATUS_BAD_FILE, name, "key \"%s\": %s %s found, %s is needed", name,
                   strchr("aefi", gguf_type_rows[key->type].name[0]) != NULL ? "an" : "a",
                   gguf_type_rows[key->type].name, needed);
}

/* The key, if it is of the type; else the refusal. */
static enum status get(const struct gguf *gguf, const char *name, enum gguf_type type,
                       const char *needed, const struct gguf_key **ret_key, struct why *ret_why)
{
    *ret_key = find(gguf, name);
    if (*ret_key == NULL || (*ret_key)->type != type)
        return wrong_type(*ret_key, name, needed, ret_why);
    return OK;
}

/* The bits of integer i at values, sign-extended to 64. */
static uint64_t load_integer(const uint8_t *values, enum gguf_type type, size_t i)
{
    const struct gguf_type_row *row = &gguf_type_rows[type];
    ASSERT(row->is_integer);
    uint64_t bits = 0;
    memcpy(&bits, values + i * row->bytes, row->bytes);
    unsigned unused = 64 - 8u * row->bytes;
    return row->is_signed ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits;
}

bool gguf_has(const struct gguf *gguf, const char *key)
{
    return find(gguf, key) != NULL;
}

enum status gguf_u32(const struct gguf *gguf, const char *name, uint32_t *ret, struct why *ret_why)
{
    const struct gguf_key *key = find(gguf, name);
    if (key == NULL || !gguf_type_rows[key->type].is_integer)
        return wrong_type(key, name, "an integer", ret_why);
    uint64_t bits = load_integer(key->value, key->type, 0);
    if (gguf_type_rows[key->type].is_signed && (int64_t)bits < 0)
        return why_set(ret_why, STATUS_BAD_FILE, name, "key \"%s\": %" PRId64 " is below 0", name,
                       (int64_t)bits);
    if (bits > UINT32_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, name, "key \"%s\": %" PRIu64 " is over %" PRIu32,
                       name, bits, UINT32_MAX);
    *ret = (uint32_t)bits;
    return OK;
}

enum status gguf_f32(const struct gguf *gguf, const char *name, float *ret, struct why *ret_why)
{
    const struct gguf_key *key = NULL;
    TRY(get(gguf, name, GGUF_F32, "an f32", &key, ret_why));
    memcpy(ret, key->value, sizeof *ret);
    return OK;
}

enum status gguf_bool(const struct gguf *gguf, const char *name, bool *ret, struct why *ret_why)
{
    const struct gguf_key *key = NULL;
    TRY(get(gguf, name, GGUF_BOOL, "a bool", &key, ret_why));
    *ret = key->value[0] == 1;
    return OK;
}

enum status gguf_string(const struct gguf *gguf, const char *name, struct slice *ret,
                        struct why *ret_why)
{
    const struct gguf_key *key = NULL;
    TRY(get(gguf, name, GGUF_STRING, "a string", &key, ret_why));
    *ret = (struct slice){(const char *)key->value, (size_t)key->count};
    return OK;
}

enum status gguf_array(const struct gguf *gguf, const char *name, enum gguf_type *ret_type,
                       size_t *ret_count, struct why *ret_why)
{
    const struct gguf_key *key = NULL;
    TRY(get(gguf, name, GGUF_ARRAY, "an array", &key, ret_why));
    *ret_type = key->item_type;
    *ret_count = (size_t)key->count;
    return OK;
}

static const struct gguf_key *get_item(const struct gguf *gguf, const char *name, size_t i)
{
    const struct gguf_key *key = find(gguf, name);
    ASSERT(key != NULL && key->type == GGUF_ARRAY && i < key->count);
    return key;
}

struct slice gguf_array_string(const struct gguf *gguf, const char *name, size_t i)
{
    const struct gguf_key *key = get_item(gguf, name, i);
    ASSERT(key->item_type == GGUF_STRING);
    const uint8_t *p =
        key->value + (key->offsets32 != NULL ? key->offsets32[i] : key->offsets64[i]);
    uint64_t len;
    memcpy(&len, p, sizeof len);
    return (struct slice){(const char *)p + sizeof len, (size_t)len};
}

int64_t gguf_array_int(const struct gguf *gguf, const char *name, size_t i)
{
    const struct gguf_key *key = get_item(gguf, name, i);
    return (int64_t)load_integer(key->value, key->item_type, i);
}

float gguf_array_f32(const struct gguf *gguf, const char *name, size_t i)
{
    const struct gguf_key *key = get_item(gguf, name, i);
    ASSERT(key->item_type == GGUF_F32);
    float value;
    memcpy(&value, key->value + i * sizeof value, sizeof value);
    return value;
}
