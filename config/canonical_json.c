/* canonical_json.c: the writer behind every hashed record.
 *
 * WHY     A plan, a manifest or a receipt is named by the hash of its bytes; so there is one way to
 *         write each.
 * HOW     Straight into a text_buf, a level a bracket. The writer checks what RFC 8785 asks of the
 *         caller instead of sorting behind his back.
 * ALWAYS  (1) Keys of an object rise.                                             begin_value
 *         (2) Brackets match.                                                     canonical_take
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/canonical_json.h"

#include <inttypes.h>

#define EXACT_MOST ((int64_t)1 << 53)

void canonical_init(struct canonical_json *json, size_t max)
{
    *json = (struct canonical_json){0};
    text_buf_init(&json->text, max);
}

void canonical_release(struct canonical_json *json)
{
    text_buf_release(&json->text);
}

static void add(struct canonical_json *json, const char *text)
{
    text_buf_add_bytes(&json->text, text, strlen(text));
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static void add_escaped(struct canonical_json *json, char c)
{
    static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (const char *s = shorts; *s != '\0'; s += 2) {
        if (*s != c)
            continue;
        text_buf_add(&json->text, "\\%c", s[1]);
        return;
    }
    text_buf_add(&json->text, "\\u%04x", (unsigned)(unsigned char)c);
}

static void add_string(struct canonical_json *json, const char *value)
{
    add(json, "\"");
    while (*value != '\0') {
        size_t len = 0;
        while (value[len] != '\0' && is_plain(value[len]))
            len++;
        text_buf_add_bytes(&json->text, value, len);
        value += len;
        if (*value != '\0')
            add_escaped(json, *value++);
    }
    add(json, "\"");
}

/* The comma and the key in front of a value. */
static void begin_value(struct canonical_json *json, const char *key)
{
    if (json->depth == 0) {
        ASSERT(key == NULL && json->text.len == 0);
        return;
    }
    struct canonical_level *level = &json->levels[json->depth - 1];
    ASSERT(level->is_array == (key == NULL));
    if (level->has_any)
        add(json, ",");
    if (key != NULL) {
        ASSERT(!level->has_any || strcmp(level->last_key, key) < 0);
        level->last_key = key;
        add_string(json, key);
        add(json, ":");
    }
    level->has_any = true;
}

static void open_level(struct canonical_json *json, const char *key, bool is_array)
{
    begin_value(json, key);
    ASSERT(json->depth < CANONICAL_DEPTH_MAX);
    json->levels[json->depth++] = (struct canonical_level){.is_array = is_array};
    add(json, is_array ? "[" : "{");
}

static void close_level(struct canonical_json *json, bool is_array)
{
    ASSERT(json->depth > 0 && json->levels[json->depth - 1].is_array == is_array);
    json->depth--;
    add(json, is_array ? "]" : "}");
}

void canonical_open_object(struct canonical_json *json, const char *key)
{
    open_level(json, key, false);
}

void canonical_close_object(struct canonical_json *json)
{
    close_level(json, false);
}

void canonical_open_array(struct canonical_json *json, const char *key)
{
    open_level(json, key, true);
}

void canonical_close_array(struct canonical_json *json)
{
    close_level(json, true);
}

void canonical_integer(struct canonical_json *json, const char *key, int64_t value)
{
    ASSERT(value >= -EXACT_MOST && value <= EXACT_MOST);
    begin_value(json, key);
    text_buf_add(&json->text, "%" PRId64, value);
}

void canonical_text(struct canonical_json *json, const char *key, const char *value)
{
    begin_value(json, key);
    add_string(json, value);
}

void canonical_bool(struct canonical_json *json, const char *key, bool value)
{
    begin_value(json, key);
    add(json, value ? "true" : "false");
}

void canonical_null(struct canonical_json *json, const char *key)
{
    begin_value(json, key);
    add(json, "null");
}

void canonical_hash(struct canonical_json *json, const char *key, const uint8_t hash[SHA256_BYTES])
{
    char hex[SHA256_HEX];
    sha256_hex(hash, hex);
    canonical_text(json, key, hex);
}

enum status canonical_take(struct canonical_json *json, char **ret_text,
                           uint8_t ret_hash[SHA256_BYTES])
{
    ASSERT(json->depth == 0);
    char *text = text_buf_take(&json->text);
    if (text == NULL)
        return STATUS_NO_MEMORY;
    if (ret_hash != NULL) {
        enum status s = sha256_of(text, strlen(text), ret_hash);
        ASSERT(s == OK);
    }
    *ret_text = text;
    return OK;
}
