/* options_value.c: one option's value, from text and back.
 *
 * WHY     File, environment and flag differ in where a value stands, never in what it may be.
 * ALWAYS  (1) A value outside least..most is refused, never moved to the nearest one.   option_set
 *         (2) option_set takes what option_get_text gives and stores the same.  options_test
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

#include <inttypes.h>

#include "config/unicode.h"

struct size_suffix {
    const char *text;
    unsigned shift;
};

static const struct size_suffix suffixes[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20},
                                              {"KiB", 10}, {"B", 0},    {"", 0}};

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.bytes, text, s.len) == 0;
}

/* Decimal digits at the start of text; how many, or 0 if there are none or the number is over 64
 * bits. */
static size_t read_digits(struct slice text, uint64_t *ret_number)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < text.len && text.bytes[i] >= '0' && text.bytes[i] <= '9'; i++) {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(text.bytes[i] - '0'), &n))
            return 0;
    }
    *ret_number = n;
    return i;
}

static bool read_size(struct slice text, uint64_t *ret_bytes)
{
    uint64_t n = 0;
    size_t digits = read_digits(text, &n);
    if (digits == 0)
        return false;
    struct slice rest = {text.bytes + digits, text.len - digits};
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        if (slice_is(rest, suffixes[i].text)) {
            *ret_bytes = n << suffixes[i].shift;
            return *ret_bytes >> suffixes[i].shift == n;
        }
    }
    return false;
}

static bool choice_has(const char *choices, struct slice word)
{
    for (const char *p = choices;;) {
        size_t len = strcspn(p, "|");
        if (word.len == len && memcmp(word.bytes, p, len) == 0)
            return true;
        if (p[len] == '\0')
            return false;
        p += len + 1;
    }
}

static void size_text(uint64_t bytes, char *text, size_t room)
{
    size_t i = 0;
    while (bytes == 0 ? suffixes[i].text[0] != '\0'
                      : bytes % (UINT64_C(1) << suffixes[i].shift) != 0)
        i++;
    const char *suffix = suffixes[i].shift == 0 ? "" : suffixes[i].text;
    snprintf(text, room, "%" PRIu64 "%s", bytes >> suffixes[i].shift, suffix);
}

void option_range_text(const struct option *option, char ret_text[OPTION_TEXT_MAX])
{
    char least[32], most[32];
    switch (option->type) {
    case OPTION_U32:
        snprintf(ret_text, OPTION_TEXT_MAX, "%" PRIu64 "..%" PRIu64 " %s", option->least,
                 option->most, option->unit);
        break;
    case OPTION_SIZE:
        size_text(option->least, least, sizeof least);
        size_text(option->most, most, sizeof most);
        snprintf(ret_text, OPTION_TEXT_MAX, "%s..%s", least, most);
        break;
    case OPTION_STRING:
        snprintf(ret_text, OPTION_TEXT_MAX, "%" PRIu64 "..%" PRIu64 " bytes of UTF-8 text",
                 option->least, option->most);
        break;
    case OPTION_CHOICE:
        snprintf(ret_text, OPTION_TEXT_MAX, "%s", option->unit);
        break;
    }
}

static enum status refuse(const struct option *option, struct slice value, const char *where,
                          const char *what, struct why *ret_why)
{
    char range[OPTION_TEXT_MAX];
    option_range_text(option, range);
    const char *hint = option->type == OPTION_SIZE
                           ? ", a number with KiB, MiB, GiB or TiB behind it or nothing"
                       : option->type == OPTION_CHOICE ? ""
                       : option->type == OPTION_U32    ? ", a whole number"
                                                       : "";
    int shown = value.len > 64 ? 64 : (int)value.len;
    return why_set(ret_why, STATUS_BAD_OPTION, option->key, "%s: \"%.*s\" %s; %s takes %s%s", where,
                   shown, value.bytes, what, option->key, range, hint);
}

static enum status set_number(struct options *options, const struct option *option,
                              struct slice value, const char *where, struct why *ret_why)
{
    uint64_t n = 0;
    bool is_number = option->type == OPTION_SIZE
                         ? read_size(value, &n)
                         : value.len > 0 && read_digits(value, &n) == value.len;
    if (!is_number)
        return refuse(option, value, where,
                      option->type == OPTION_SIZE ? "is not a size" : "is not a number", ret_why);
    if (n < option->least || n > option->most)
        return refuse(option, value, where, "is out of range", ret_why);
    char *member = (char *)options + option->offset;
    uint32_t narrow = (uint32_t)n;
    if (option->type == OPTION_SIZE)
        memcpy(member, &n, sizeof n);
    else
        memcpy(member, &narrow, sizeof narrow);
    return OK;
}

static enum status set_text(struct options *options, const struct option *option,
                            struct slice value, const char *where, struct why *ret_why)
{
    if (option->type == OPTION_CHOICE && !choice_has(option->unit, value))
        return refuse(option, value, where, "is not a choice", ret_why);
    if (value.len < option->least || value.len > option->most)
        return refuse(option, value, where,
                      value.len == 0 ? "is empty" : "is out of range in length", ret_why);
    if (!unicode_is_printable(value))
        return refuse(option, value, where, "has control bytes or is not UTF-8", ret_why);
    char *member = (char *)options + option->offset;
    memset(member, 0, option->most + 1); /* to the end, so that equal settings are equal bytes */
    memcpy(member, value.bytes, value.len);
    return OK;
}

enum status option_set(struct options *options, const struct option *option, struct slice value,
                       const char *where, struct why *ret_why)
{
    if (option->type == OPTION_U32 || option->type == OPTION_SIZE)
        return set_number(options, option, value, where, ret_why);
    return set_text(options, option, value, where, ret_why);
}

void option_get_text(const struct options *options, const struct option *option,
                     char ret_text[OPTION_TEXT_MAX])
{
    const char *member = (const char *)options + option->offset;
    uint64_t bytes;
    uint32_t number;
    switch (option->type) {
    case OPTION_U32:
        memcpy(&number, member, sizeof number);
        snprintf(ret_text, OPTION_TEXT_MAX, "%" PRIu32, number);
        break;
    case OPTION_SIZE:
        memcpy(&bytes, member, sizeof bytes);
        size_text(bytes, ret_text, OPTION_TEXT_MAX);
        break;
    case OPTION_STRING:
    case OPTION_CHOICE:
        snprintf(ret_text, OPTION_TEXT_MAX, "%s", member);
        break;
    }
}
