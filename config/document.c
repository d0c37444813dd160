/* document.c: the strict reader, over jansson.
 *
 * WHY     Plans, evaluation sets and receipts are read below the server, where no HTTP body is; and
 *         each must be refused in words that name what to change.
 * HOW     jansson parses; a struct document_value is its json_t under a name that stays in this
 *         folder.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/document.h"

#include <inttypes.h>
#include <jansson.h>

#include "config/mem.h"

enum { SHOWN_ROOM = 72 };

struct document {
    json_t *root;
};

static json_t *json_of(const struct document_value *value)
{
    return (json_t *)(uintptr_t)value; /* jansson's readers are not const throughout */
}

static const struct document_value *value_of(const json_t *json)
{
    return (const struct document_value *)json;
}

/* Brackets outside strings, counted before the parser recurses over them. */
static bool is_too_deep(struct slice text)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.bytes[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > DOCUMENT_DEPTH_MAX)
            return true;
        else if (!in_string && (c == ']' || c == '}'))
            depth--;
    }
    return false;
}

enum status document_parse(struct slice text, const char *name, struct document **ret_document,
                           struct why *ret_why)
{
    if (is_too_deep(text))
        return why_set(ret_why, STATUS_BAD_REQUEST, "", "%s is nested deeper than %d levels", name,
                       DOCUMENT_DEPTH_MAX);
    struct document *document = mem_zalloc(1, sizeof *document);
    if (document == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to read %s", name);
    json_error_t error;
    document->root = json_loadb(text.bytes, text.len, JSON_REJECT_DUPLICATES, &error);
    if (document->root != NULL) {
        *ret_document = document;
        return OK;
    }
    mem_free(document);
    if (json_error_code(&error) == json_error_out_of_memory)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to read %s", name);
    return why_set(ret_why, STATUS_BAD_REQUEST, "", "%s is not JSON: line %d, column %d: %s", name,
                   error.line, error.column, error.text);
}

void document_free(struct document **document)
{
    if (*document != NULL)
        json_decref((*document)->root);
    mem_free(*document);
    *document = NULL;
}

void *document_take(struct document **document)
{
    json_t *root = (*document)->root;
    mem_free(*document);
    *document = NULL;
    return root;
}

const struct document_value *document_root(const struct document *document)
{
    return value_of(document->root);
}

const struct document_value *document_find(const struct document_value *object, const char *key)
{
    return value_of(json_object_get(json_of(object), key));
}

size_t document_count(const struct document_value *array)
{
    return json_array_size(json_of(array));
}

const struct document_value *document_at(const struct document_value *array, size_t i)
{
    return value_of(json_array_get(json_of(array), i));
}

const char *document_member(const struct document_value *object, size_t i,
                            const struct document_value **ret_value)
{
    void *at = json_object_iter(json_of(object));
    while (at != NULL && i-- > 0)
        at = json_object_iter_next(json_of(object), at);
    if (at == NULL)
        return NULL;
    *ret_value = value_of(json_object_iter_value(at));
    return json_object_iter_key(at);
}

/* The value as the person wrote it, or nearly, cut to the room. */
static void show(const struct document_value *value, char ret_text[SHOWN_ROOM])
{
    if (value == NULL) {
        snprintf(ret_text, SHOWN_ROOM, "missing");
        return;
    }
    char whole[SHOWN_ROOM - 4] = {0}; /* a piece that does not fit is left out, not cut */
    size_t len =
        json_dumpb(json_of(value), whole, sizeof whole, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    snprintf(ret_text, SHOWN_ROOM, "%.*s%s", (int)sizeof whole, whole,
             len > sizeof whole ? "..." : "");
}

enum status document_refuse(const struct document_value *value, const char *field,
                            const char *right, struct why *ret_why)
{
    char shown[SHOWN_ROOM];
    show(value, shown);
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is %s: %s", field, shown, right);
}

enum status document_object(const struct document_value *value, const char *field,
                            struct why *ret_why)
{
    return json_is_object(json_of(value))
               ? OK
               : document_refuse(value, field, "an object is needed", ret_why);
}

enum status document_array(const struct document_value *value, const char *field, size_t least,
                           size_t most, struct why *ret_why)
{
    char right[96];
    size_t n = document_count(value);
    if (json_is_array(json_of(value)) && n >= least && n <= most)
        return OK;
    snprintf(right, sizeof right, "an array of %zu to %zu elements is needed%s", least, most,
             n > most ? ", there are more" : "");
    return document_refuse(value, field, right, ret_why);
}

enum status document_number(const struct document_value *value, const char *field, uint64_t least,
                            uint64_t most, uint64_t *ret_number, struct why *ret_why)
{
    char right[96];
    json_int_t number = json_integer_value(json_of(value));
    if (json_is_integer(json_of(value)) && number >= 0 && (uint64_t)number >= least &&
        (uint64_t)number <= most) {
        *ret_number = (uint64_t)number;
        return OK;
    }
    snprintf(right, sizeof right, "a whole number from %" PRIu64 " to %" PRIu64 " is needed", least,
             most);
    return document_refuse(value, field, right, ret_why);
}

enum status document_text(const struct document_value *value, const char *field, size_t least,
                          size_t most, const char **ret_text, struct why *ret_why)
{
    char right[96];
    size_t len = json_string_length(json_of(value));
    if (json_is_string(json_of(value)) && len >= least && len <= most) {
        *ret_text = json_string_value(json_of(value));
        return OK;
    }
    snprintf(right, sizeof right, "a text of %zu to %zu bytes is needed", least, most);
    return document_refuse(value, field, right, ret_why);
}

enum status document_bool(const struct document_value *value, const char *field, bool *ret_value,
                          struct why *ret_why)
{
    if (!json_is_boolean(json_of(value)))
        return document_refuse(value, field, "true or false is needed", ret_why);
    *ret_value = json_is_true(json_of(value));
    return OK;
}

enum status document_hash(const struct document_value *value, const char *field,
                          uint8_t ret_hash[32], struct why *ret_why)
{
    static const char digits[] = "0123456789abcdef";
    const char *hex = json_string_value(json_of(value));
    if (hex == NULL || strlen(hex) != 64 || strspn(hex, digits) != 64)
        return document_refuse(value, field, "a SHA-256 as 64 lower-case hex digits is needed",
                               ret_why);
    for (size_t i = 0; i < 32; i++)
        ret_hash[i] = (uint8_t)((strchr(digits, hex[2 * i]) - digits) * 16 +
                                (strchr(digits, hex[2 * i + 1]) - digits));
    return OK;
}

enum status document_known(const struct document_value *object, const char *prefix,
                           const char *const *keys, size_t n_keys, struct why *ret_why)
{
    const struct document_value *value;
    const char *name;
    for (size_t i = 0; (name = document_member(object, i, &value)) != NULL; i++) {
        size_t at = 0;
        while (at < n_keys && strcmp(keys[at], name) != 0)
            at++;
        if (at < n_keys)
            continue;
        char list[256] = "";
        size_t len = 0;
        for (size_t k = 0; k < n_keys && len < sizeof list; k++)
            len +=
                (size_t)snprintf(list + len, sizeof list - len, "%s%s", k > 0 ? ", " : "", keys[k]);
        char field[96];
        snprintf(field, sizeof field, "%s%.40s", prefix, name);
        return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is unknown: there are %s", field,
                       list);
    }
    return OK;
}
