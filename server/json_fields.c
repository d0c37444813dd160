/* json_fields.c: rows applied to values.
 *
 * WHY     A field that is ignored in silence, or clamped, gives an answer to another question than
 *         was asked.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/json_fields.h"

#include <math.h>

#include "config/mem.h"

enum { JSON_SHOWN_BYTES = 96 };

/* A value as an error shows it: 3, "abc", an array of 4. Returns ret_text. */
static const char *json_show(const json_t *value, char ret_text[JSON_SHOWN_BYTES])
{
    size_t room = JSON_SHOWN_BYTES;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        snprintf(ret_text, room, "an object");
        break;
    case JSON_ARRAY:
        snprintf(ret_text, room, "an array of %zu", json_array_size(value));
        break;
    case JSON_STRING:
        snprintf(ret_text, room, "\"%.60s\"%s", json_string_value(value),
                 json_string_length(value) > 60 ? "..." : "");
        break;
    case JSON_INTEGER:
        snprintf(ret_text, room, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(ret_text, room, "%.9g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
    default:
        snprintf(ret_text, room, "%s",
                 json_is_null(value)   ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
        break;
    }
    return ret_text;
}

enum status json_refuse(const char *name, const json_t *value, const char *right,
                        struct why *ret_why)
{
    char shown[JSON_SHOWN_BYTES];
    return why_set(ret_why, STATUS_BAD_REQUEST, name, "%s: %s is not %s", name,
                   json_show(value, shown), right);
}

static enum status refuse_unserved(const char *name, const json_t *value, const char *served,
                                   struct why *ret_why)
{
    char shown[JSON_SHOWN_BYTES];
    return why_set(ret_why, STATUS_UNSUPPORTED_FIELD, name, "%s: %s is not served; %s is", name,
                   json_show(value, shown), served);
}

enum status json_read_text(const char *name, const json_t *value, size_t least, size_t most,
                           struct slice *ret_text, struct why *ret_why)
{
    size_t len = json_string_length(value);
    if (!json_is_string(value) || len < least || len > most) {
        char right[64] = "a string";
        if (json_is_string(value))
            return why_set(ret_why, STATUS_BAD_REQUEST, name,
                           "%s: a string of %zu bytes is not one of %zu to %zu", name, len, least,
                           most);
        if (most != SIZE_MAX)
            snprintf(right, sizeof right, "a string of %zu to %zu bytes", least, most);
        return json_refuse(name, value, right, ret_why);
    }
    *ret_text = (struct slice){json_string_value(value), len};
    return OK;
}

static enum status read_ids(const char *name, const json_t *list, uint32_t *ids,
                            struct why *ret_why)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > UINT32_MAX) {
            char shown[JSON_SHOWN_BYTES];
            return why_set(ret_why, STATUS_BAD_REQUEST, name,
                           "%s[%zu]: %s is not a token id, an integer from 0", name, i,
                           json_show(value, shown));
        }
        ids[i] = (uint32_t)id;
    }
    return OK;
}

enum status json_read_ids(const char *name, const json_t *list, uint32_t **ret_ids,
                          uint32_t *ret_count, struct why *ret_why)
{
    *ret_ids = NULL;
    *ret_count = 0;
    if (!json_is_array(list))
        return json_refuse(name, list, "an array of token ids", ret_why);
    size_t n = json_array_size(list);
    if (n == 0)
        return OK;
    if (n > UINT32_MAX)
        return json_refuse(name, list, "an array that 32 bits can count", ret_why);
    uint32_t *ids = mem_alloc(n * sizeof *ids);
    if (ids == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, name, "%s: %s", name,
                       status_text(STATUS_NO_MEMORY));
    enum status s = read_ids(name, list, ids, ret_why);
    if (s != OK) {
        mem_free(ids);
        return s;
    }
    *ret_ids = ids;
    *ret_count = (uint32_t)n;
    return OK;
}

static enum status read_integer(const struct json_field *field, const json_t *value, void *at,
                                struct why *ret_why)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || (double)n < field->least || (double)n > field->most) {
        char right[80];
        snprintf(right, sizeof right, "an integer from %.0f to %.0f", field->least, field->most);
        return json_refuse(field->name, value, right, ret_why);
    }
    memcpy(at, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
    return OK;
}

static enum status read_number(const struct json_field *field, const json_t *value, void *at,
                               struct why *ret_why)
{
    bool is_above = field->kind == FIELD_NUMBER_ABOVE;
    double n = json_number_value(value);
    bool is_low = is_above ? !(n > field->least) : !(n >= field->least);
    if (!json_is_number(value) || is_low || !(n <= field->most)) {
        char right[80];
        snprintf(right, sizeof right, "a number %s %g to %g", is_above ? "above" : "from",
                 field->least, field->most);
        return json_refuse(field->name, value, right, ret_why);
    }
    float rounded = (float)n;
    if (is_above && rounded <= (float)field->least) /* a float may round to what is excluded */
        rounded = nextafterf((float)field->least, (float)field->most);
    memcpy(at, &rounded, sizeof rounded);
    return OK;
}

static bool is_empty(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) == 0;
    return json_is_array(value) ? json_array_size(value) == 0
                                : json_is_object(value) && json_object_size(value) == 0;
}

static enum status check_unserved(const struct json_field *field, const json_t *value,
                                  struct why *ret_why)
{
    char number[40];
    snprintf(number, sizeof number, "%g or null", field->most);
    if (field->kind == FIELD_ONLY_NUMBER &&
        !(json_is_number(value) && json_number_value(value) == field->most))
        return refuse_unserved(field->name, value, number, ret_why);
    if (field->kind == FIELD_ONLY_FALSE && !json_is_false(value))
        return refuse_unserved(field->name, value, "false or null", ret_why);
    if (field->kind == FIELD_ONLY_EMPTY && !is_empty(value))
        return refuse_unserved(field->name, value, "an empty one or null", ret_why);
    if (field->kind == FIELD_ONLY_NULL)
        return refuse_unserved(field->name, value, "null", ret_why);
    return OK;
}

static enum status check_type(const struct json_field *field, const json_t *value,
                              struct why *ret_why)
{
    if (field->kind == FIELD_ANY_BOOL && !json_is_boolean(value))
        return json_refuse(field->name, value, "true or false", ret_why);
    if (field->kind == FIELD_ANY_TEXT && !json_is_string(value))
        return json_refuse(field->name, value, "a string", ret_why);
    if (field->kind == FIELD_ANY_OBJECT && !json_is_object(value))
        return json_refuse(field->name, value, "an object", ret_why);
    return OK;
}

static enum status read_field(const struct json_field *field, const json_t *value, void *target,
                              struct why *ret_why)
{
    char *at = (char *)target + field->offset;
    switch (field->kind) {
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return json_refuse(field->name, value, "true or false", ret_why);
        memcpy(at, &(bool){json_is_true(value)}, sizeof(bool));
        return OK;
    case FIELD_INTEGER:
        return read_integer(field, value, at, ret_why);
    case FIELD_NUMBER:
    case FIELD_NUMBER_ABOVE:
        return read_number(field, value, at, ret_why);
    case FIELD_TEXT: {
        struct slice text;
        TRY(json_read_text(field->name, value, (size_t)field->least, (size_t)field->most, &text,
                           ret_why));
        memcpy(at, &text, sizeof text);
        return OK;
    }
    case FIELD_READ:
        return field->read(field->name, value, target, ret_why);
    case FIELD_ONLY_NUMBER:
    case FIELD_ONLY_FALSE:
    case FIELD_ONLY_EMPTY:
    case FIELD_ONLY_NULL:
        return check_unserved(field, value, ret_why);
    case FIELD_ANY_BOOL:
    case FIELD_ANY_TEXT:
    case FIELD_ANY_OBJECT:
        return check_type(field, value, ret_why);
    }
    ASSERT(!"a kind of field");
    return STATUS_INTERNAL;
}

enum status json_fields_read(json_t *object, const struct json_field *fields, size_t n_fields,
                             void *target, struct why *ret_why)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        size_t i = 0;
        while (i < n_fields && strcmp(fields[i].name, name) != 0)
            i++;
        if (i == n_fields)
            return why_set(ret_why, STATUS_BAD_REQUEST, name, "%.64s: there is no such field",
                           name);
        if (!json_is_null(value))
            TRY(read_field(&fields[i], value, target, ret_why));
    }
    return OK;
}
