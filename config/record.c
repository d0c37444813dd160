/* record.c: JSON objects that print the same bytes everywhere.
 *
 * WHY     A receipt is known by its hash, so there must be one way to write it; and the folders that
 *         write receipts do not use the JSON library.
 * HOW     document.h reads, canonical_json.h writes; what lies between is the library's tree, whose keys
 *         are put in order as they are written. Reading back writes again and compares.
 * ALWAYS  (1) What record_print gives, record_read takes and gives the same hash.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/record.h"

#include <jansson.h>
#include <stdlib.h>

#include "config/canonical_json.h"
#include "config/document.h"
#include "config/mem.h"

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

/* Takes value, which may be NULL. */
static void set(struct record *r, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(r->json, key, value) != 0)
        r->is_failed = true;
}

static json_t *text_of(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
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

/* ---- writing ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool write_value(struct canonical_json *out, const char *key, const json_t *value);

static bool write_members(struct canonical_json *out, const char **keys, const json_t *object)
{
    const char *key;
    json_t *member;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, member) keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_name);
    for (size_t i = 0; i < n; i++)
        if (!write_value(out, keys[i], json_object_get(object, keys[i])))
            return false;
    return true;
}

static bool write_object(struct canonical_json *out, const char *key, const json_t *object)
{
    const char **keys = mem_alloc((json_object_size(object) + 1) * sizeof *keys);
    if (keys == NULL)
        return false;
    canonical_open_object(out, key);
    bool is_written = write_members(out, keys, object);
    if (is_written)
        canonical_close_object(out);
    mem_free(keys);
    return is_written;
}

static bool write_array(struct canonical_json *out, const char *key, const json_t *array)
{
    const json_t *item;
    size_t i;
    canonical_open_array(out, key);
    json_array_foreach(array, i, item) if (!write_value(out, NULL, item)) return false;
    canonical_close_array(out);
    return true;
}

/* False without memory, or where it is nested too deep; out is then of no use but to be released. */
static bool write_value(struct canonical_json *out, const char *key, const json_t *value)
{
    bool is_nest = json_is_object(value) || json_is_array(value);
    if (is_nest && out->depth == CANONICAL_DEPTH_MAX)
        return false;
    if (json_is_object(value))
        return write_object(out, key, value);
    if (json_is_array(value))
        return write_array(out, key, value);
    if (json_is_string(value))
        canonical_text(out, key, json_string_value(value));
    else if (json_is_integer(value))
        canonical_integer(out, key, json_integer_value(value));
    else if (json_is_boolean(value))
        canonical_bool(out, key, json_is_true(value));
    else
        canonical_null(out, key);
    return true;
}

static char *print_value(const json_t *value)
{
    struct canonical_json out;
    char *text = NULL;
    canonical_init(&out, RECORD_BYTES_MAX);
    if (write_value(&out, NULL, value) && canonical_take(&out, &text, NULL) != OK)
        text = NULL;
    canonical_release(&out);
    return text;
}

char *record_print(const struct record *r)
{
    return r->is_failed || r->json == NULL ? NULL : print_value(r->json);
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

/* ---- reading ---- */

/* What canonical_json.h writes. */
static bool is_allowed(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_real(value))
        return false;
    if (json_is_integer(value))
        return json_integer_value(value) >= -NUMBER_MAX && json_integer_value(value) <= NUMBER_MAX;
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
    struct document *document;
    *ret_record = (struct record){0};
    if (len > RECORD_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, "", "a record of %zu bytes is over the limit",
                       len);
    enum status s = document_parse((struct slice){text, len}, "the record", &document, ret_why);
    if (s != OK)
        return s == STATUS_NO_MEMORY ? s : STATUS_BAD_FILE;
    json_t *json = document_take(&document);
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

const char *record_text_or_empty(const struct record *r, const char *key)
{
    const char *text = record_text(r, key);
    return text != NULL ? text : "";
}

void record_copy_text(const struct record *r, const char *key, char *ret_text, size_t room)
{
    snprintf(ret_text, room, "%s", record_text_or_empty(r, key));
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
    char *text = value != NULL ? print_value(value) : NULL;
    snprintf(ret_text, room, "%s", text != NULL ? text : "none");
    mem_free(text);
}
