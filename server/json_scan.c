/* json_scan.c: brackets counted, long integers read, strings skipped.
 *
 * WHY     jansson recurses as deep as it is asked to, and its integers are signed; a seed may be
 *         any 64 bits.
 * HOW     Outside strings, a bracket changes the depth and a digit or a minus begins a number. At
 *         depth 1 the last string before a colon is the field whose value follows, which is what an
 *         error names.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/json_scan.h"

struct scan {
    struct slice bytes;
    size_t at;
    unsigned depth;
    struct slice text;  /* the last string at depth 1, without its quotes */
    struct slice field; /* the top-level field that the scan is in */
    const char *big_field;
    struct json_big *big;
    struct why *why;
};

/* A name for why_set, which wants it NUL-terminated. */
static const char *field_name(const struct scan *scan, char ret_name[64])
{
    size_t len = scan->field.len < 63 ? scan->field.len : 63;
    if (len > 0)
        memcpy(ret_name, scan->field.bytes, len);
    ret_name[len] = '\0';
    return ret_name;
}

static enum status open(struct scan *scan)
{
    scan->at++;
    if (++scan->depth <= JSON_DEPTH_MAX)
        return OK;
    char name[64];
    return why_set(scan->why, STATUS_BAD_REQUEST, field_name(scan, name),
                   "the body is nested deeper than %d levels at byte %zu", JSON_DEPTH_MAX,
                   scan->at - 1);
}

static void skip_string(struct scan *scan)
{
    size_t from = ++scan->at;
    while (scan->at < scan->bytes.len && scan->bytes.bytes[scan->at] != '"')
        scan->at += scan->bytes.bytes[scan->at] == '\\' ? 2 : 1;
    if (scan->at > scan->bytes.len)
        scan->at = scan->bytes.len;
    if (scan->depth == 1)
        scan->text = (struct slice){scan->bytes.bytes + from, scan->at - from};
    scan->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_number(char c)
{
    return is_digit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* True if the digits are a number of at most 64 bits. */
static bool read_digits(struct slice digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        uint64_t digit = (uint64_t)(digits.bytes[i] - '0');
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

static enum status number(struct scan *scan)
{
    const char *bytes = scan->bytes.bytes;
    size_t from = scan->at;
    bool is_negative = bytes[from] == '-', is_integer = true;
    while (scan->at < scan->bytes.len && is_of_number(bytes[scan->at])) {
        is_integer = is_integer && (is_digit(bytes[scan->at]) || scan->at == from);
        scan->at++;
    }
    size_t first = from + is_negative;
    if (!is_integer || scan->at - first < 19) /* the least integer over INT64_MAX has 19 digits */
        return OK;
    uint64_t value = 0;
    bool fits = read_digits((struct slice){bytes + first, scan->at - first}, &value);
    if (fits && value <= (uint64_t)INT64_MAX + is_negative)
        return OK;
    bool is_field = scan->depth == 1 && scan->big_field != NULL &&
                    strlen(scan->big_field) == scan->field.len &&
                    memcmp(scan->big_field, scan->field.bytes, scan->field.len) == 0;
    if (fits && is_field && !is_negative) {
        *scan->big = (struct json_big){from, scan->at, value};
        return OK;
    }
    char name[64];
    size_t len = scan->at - from < 40 ? scan->at - from : 40;
    return why_set(scan->why, STATUS_BAD_REQUEST, field_name(scan, name),
                   "%s: %.*s is over 64 bits", name, (int)len, bytes + from);
}

static enum status step(struct scan *scan)
{
    char c = scan->bytes.bytes[scan->at];
    if (c == '"') {
        skip_string(scan);
        return OK;
    }
    if (c == '{' || c == '[')
        return open(scan);
    if (c == '-' || is_digit(c))
        return number(scan);
    if (c == '}' || c == ']')
        scan->depth -= scan->depth > 0;
    if (c == ':' && scan->depth == 1)
        scan->field = scan->text;
    scan->at++;
    return OK;
}

enum status json_scan(struct slice bytes, const char *big_field, struct json_big *ret_big,
                      struct why *ret_why)
{
    *ret_big = (struct json_big){0};
    const char *nul = bytes.len > 0 ? memchr(bytes.bytes, '\0', bytes.len) : NULL;
    if (nul != NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "", "the body has a NUL at byte %zu",
                       (size_t)(nul - bytes.bytes));
    struct scan scan = {.bytes = bytes, .big_field = big_field, .big = ret_big, .why = ret_why};
    while (scan.at < bytes.len)
        TRY(step(&scan));
    return OK;
}
