/* record.c: JSON objects that print the same bytes everywhere.
 *
 * WHY     A receipt is known by its hash, so there must be one way to write it; and the folders that
 *         write receipts do not use the JSON library.
 * HOW     jansson with sorted keys and no spaces prints RFC 8785 as long as keys are ASCII, numbers
 *         whole and texts without control characters (which it would escape in upper case); so
 *         others are not let in. Reading back prints again and compares.
 * ALWAYS  (1) What record_print gives, record_read takes and gives the same hash.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/record.h"

#include <jansson.h>

#include "config/mem.h"

enum { PRINT_FLAGS = JSON_SORT_KEYS | JSON_COMPACT };

/* Beyond it RFC 8785 has no exact numbers. */
#define NUMBER_MAX ((int64_t)1 << 53)

void record_init(struct record *r)
{
    r->json = json_object();
    r->is_failed = r->json == NULL;
}

void record_release(struct record *r)
{
    json_decref(r->json);
    r->json = NULL;
    r->is_failed = false;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* Takes value, which may be NULL. */
static void set(struct record *r, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(r->json, key, value) != 0)
        r->is_failed = true;
}

static json_t *text_of(const char *text)
{
    if (text == NULL)
        return json_null();
    return is_plain(text) ? json_string(text) : NULL;
}

static json_t *copy_of(const struct record *r)
{
    if (r->json == NULL)
        return json_null();
    return r->is_failed ? NULL : json_deep_copy(r->json);
}

void record_set_text(struct record *r, const char *key, const char *text)
{
    set(r, key, text_of(text));
}

void record_set_number(struct record *r, const char *key, int64_t number)
{
    bool is_exact = number >= -NUMBER_MAX && number <= NUMBER_MAX;
    set(r, key, is_exact ? json_integer(number) : NULL);
}

void record_set_flag(struct record *r, const char *key, bool flag)
{
    set(r, key, json_boolean(flag));
}

void record_set_record(struct record *r, const char *key, const struct record *child)
{
    set(r, key, copy_of(child));
}

static void append(struct record *r, const char *key, json_t *value)
{
    json_t *list = json_object_get(r->json, key);
    if (list == NULL) {
        set(r, key, json_array());
        list = json_object_get(r->json, key);
    }
    if (value == NULL || json_array_append_new(list, value) != 0)
        r->is_failed = true;
}

void record_add_text(struct record *r, const char *key, const char *text)
{
    append(r, key, text_of(text));
}

void record_add_record(struct record *r, const char *key, const struct record *item)
{
    append(r, key, copy_of(item));
}

void record_copy(const struct record *from, struct record *ret_copy)
{
    ret_copy->json = from->json != NULL ? json_deep_copy(from->json) : NULL;
    ret_copy->is_failed = from->is_failed || (from->json != NULL && ret_copy->json == NULL);
}

static char *print_value(const json_t *value, size_t flags)
{
    size_t len = json_dumpb(value, NULL, 0, flags);
    char *text = len > 0 ? mem_alloc(len + 1) : NULL;
    if (text == NULL)
        return NULL;
    if (json_dumpb(value, text, len, flags) != len) {
        mem_free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

char *record_print(const struct record *r)
{
    return r->is_failed || r->json == NULL ? NULL : print_value(r->json, PRINT_FLAGS);
}

enum status record_hash(const struct record *r, char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    char *text = record_print(r);
    if (text == NULL)
        return STATUS_NO_MEMORY;
    enum status s = sha256_of(text, strlen(text), hash);
    sha256_hex(hash, ret_hex);
    mem_free(text);
    return s;
}

/* Null, texts without control characters, whole numbers, flags, and lists and objects of these. */
static bool is_allowed(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_real(value))
        return false;
    if (json_is_integer(value))
        return json_integer_value(value) >= -NUMBER_MAX && json_integer_value(value) <= NUMBER_MAX;
    if (json_is_string(value))
        return strlen(json_string_value(value)) == json_string_length(value) &&
               is_plain(json_string_value(value));
    json_array_foreach(value, i, member) if (!is_allowed(member)) return false;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        for (const char *p = key; *p != '\0'; p++)
            if ((unsigned char)*p >= 0x7f || (unsigned char)*p < 0x20)
                return false;
        if (!is_allowed(member))
            return false;
    }
    return true;
}

enum status record_read_loose(const char *text, size_t len, struct record *ret_record,
                              struct why *ret_why)
{
    json_error_t error;
    *ret_record = (struct record){0};
    if (len > RECORD_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, "", "a record of %zu bytes is over the limit",
                       len);
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        return why_set(ret_why, STATUS_BAD_FILE, "", "not JSON at byte %d: %s", error.position,
                       error.text);
    if (!json_is_object(json) || !is_allowed(json)) {
        json_decref(json);
        return why_set(ret_why, STATUS_BAD_FILE, "",
                       "the record is not an object of texts, whole numbers and flags");
    }
    ret_record->json = json;
    return OK;
}

enum status record_read(const char *text, size_t len, struct record *ret_record,
                        struct why *ret_why)
{
    TRY(record_read_loose(text, len, ret_record, ret_why));
    char *again = record_print(ret_record);
    bool is_same = again != NULL && strlen(again) == len && memcmp(again, text, len) == 0;
    enum status s = again == NULL ? STATUS_NO_MEMORY : STATUS_BAD_FILE;
    mem_free(again);
    if (is_same)
        return OK;
    record_release(ret_record);
    return why_set(ret_why, s, "", "the record is not in canonical form");
}

const char *record_text(const struct record *r, const char *key)
{
    return json_string_value(json_object_get(r->json, key));
}

bool record_number(const struct record *r, const char *key, int64_t *ret_number)
{
    const json_t *value = json_object_get(r->json, key);
    if (!json_is_integer(value))
        return false;
    *ret_number = json_integer_value(value);
    return true;
}

bool record_flag(const struct record *r, const char *key)
{
    return json_is_true(json_object_get(r->json, key));
}

struct record record_child(const struct record *r, const char *key)
{
    json_t *value = json_object_get(r->json, key);
    return (struct record){.json = json_is_object(value) ? value : NULL};
}

bool record_has(const struct record *r, const char *key)
{
    const json_t *value = json_object_get(r->json, key);
    return value != NULL && !json_is_null(value);
}

size_t record_list_count(const struct record *r, const char *key)
{
    return json_array_size(json_object_get(r->json, key));
}

struct record record_item(const struct record *r, const char *key, size_t i)
{
    json_t *value = json_array_get(json_object_get(r->json, key), i);
    return (struct record){.json = json_is_object(value) ? value : NULL};
}

const char *record_item_text(const struct record *r, const char *key, size_t i)
{
    return json_string_value(json_array_get(json_object_get(r->json, key), i));
}

const char *record_next_key(const struct record *r, const char *key)
{
    json_t *json = r->json;
    void *at = key == NULL ? json_object_iter(json)
                           : json_object_iter_next(json, json_object_iter_at(json, key));
    return at != NULL ? json_object_iter_key(at) : NULL;
}

bool record_is_equal(const struct record *a, const struct record *b)
{
    if (a->json == NULL || b->json == NULL)
        return a->json == b->json;
    return json_equal(a->json, b->json) == 1;
}

bool record_is_shared(const struct record *a, const struct record *b, const char *key)
{
    const json_t *left = json_object_get(a->json, key), *right = json_object_get(b->json, key);
    return left != NULL && right != NULL && !json_is_null(left) && json_equal(left, right) == 1;
}

void record_show(const struct record *r, const char *key, char *ret_text, size_t room)
{
    const json_t *value = json_object_get(r->json, key);
    char *text = value != NULL ? print_value(value, PRINT_FLAGS | JSON_ENCODE_ANY) : NULL;
    snprintf(ret_text, room, "%s", text != NULL ? text : "none");
    mem_free(text);
}
