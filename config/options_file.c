/* options_file.c: options from a file of `section.name = value` lines.
 *
 * HOW     A line is blank, a comment (# first), or one option. A value runs to the end of the line
 *         or to a # behind a blank; in double quotes it may hold anything printable, with \" and \\
 *         for those two.
 *         A path behind a - need not exist, as in a unit of systemd.
 * ALWAYS  (1) A key stands in a file once, so no line silently undoes another.   read_line
 *         (2) At most FILE_BYTES_MAX bytes are read, whatever the path is.       options_read_file
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

#include <errno.h>

#include "config/mem.h"
#include "config/unicode.h"

enum { FILE_BYTES_MAX = 1 << 20, SEEN_MAX = 128 };

/* Where in the file the reader is, and which rows it has met. */
struct place {
    const char *origin;
    unsigned line;
    unsigned seen_at[SEEN_MAX]; /* line of each row's option, 0: not seen */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct slice trimmed(struct slice s)
{
    while (s.len > 0 && is_blank(s.bytes[0]))
        s = (struct slice){s.bytes + 1, s.len - 1};
    while (s.len > 0 && is_blank(s.bytes[s.len - 1]))
        s.len--;
    return s;
}

static void say_where(const struct place *at, char where[OPTION_NAME_MAX])
{
    size_t len = strlen(at->origin);
    const char *tail = len > 72 ? at->origin + len - 72 : at->origin;
    snprintf(where, OPTION_NAME_MAX, "%s%s:%u", tail == at->origin ? "" : "..", tail, at->line);
}

/* The value without a comment behind it. */
static struct slice unquoted(struct slice rest)
{
    for (size_t i = 1; i < rest.len; i++) {
        if (rest.bytes[i] == '#' && is_blank(rest.bytes[i - 1])) {
            rest.len = i;
            break;
        }
    }
    if (rest.len > 0 && rest.bytes[0] == '#')
        rest.len = 0;
    return trimmed(rest);
}

/* Undoes the quoting of rest, which starts with a quote, into text. False if it does not end or
 * is too long, or if more than a comment follows. */
static bool quoted(struct slice rest, char text[OPTION_TEXT_MAX * 2], struct slice *ret_value)
{
    size_t n = 0, i = 1;
    for (; i < rest.len && rest.bytes[i] != '"'; i++) {
        if (rest.bytes[i] == '\\') {
            i++;
            if (i == rest.len || (rest.bytes[i] != '"' && rest.bytes[i] != '\\'))
                return false;
        }
        if (n == OPTION_TEXT_MAX * 2)
            return false;
        text[n++] = rest.bytes[i];
    }
    if (i == rest.len)
        return false;
    struct slice behind = trimmed((struct slice){rest.bytes + i + 1, rest.len - i - 1});
    *ret_value = (struct slice){text, n};
    return behind.len == 0 || behind.bytes[0] == '#';
}

static enum status read_line(struct options *options, struct slice text, struct place *at,
                             struct why *ret_why)
{
    char where[OPTION_NAME_MAX], value_text[OPTION_TEXT_MAX * 2];
    say_where(at, where);
    text = trimmed(text);
    if (text.len == 0 || text.bytes[0] == '#')
        return OK;
    int shown = text.len > 64 ? 64 : (int)text.len;
    const char *equals = memchr(text.bytes, '=', text.len);
    if (equals == NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, "", "%s: \"%.*s\" is not `section.name = value`",
                       where, shown, text.bytes);
    size_t key_len = (size_t)(equals - text.bytes);
    struct slice key = trimmed((struct slice){text.bytes, key_len});
    struct slice value = trimmed((struct slice){equals + 1, text.len - key_len - 1});
    const struct option *option = option_find(key);
    if (option == NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, "", "%s: \"%.*s\": no such option", where,
                       key.len > 64 ? 64 : (int)key.len, key.bytes);
    unsigned *seen_at = &at->seen_at[option - option_rows];
    if (*seen_at != 0)
        return why_set(ret_why, STATUS_BAD_OPTION, option->key, "%s: %s stands already in line %u",
                       where, option->key, *seen_at);
    *seen_at = at->line;
    if (value.len == 0 || value.bytes[0] != '"')
        value = unquoted(value);
    else if (!quoted(value, value_text, &value))
        return why_set(ret_why, STATUS_BAD_OPTION, option->key,
                       "%s: %s: the quoted value does not end well", where, option->key);
    return option_set(options, option, value, where, ret_why);
}

enum status options_read_text(struct options *options, struct slice text, const char *origin,
                              struct why *ret_why)
{
    ASSERT(option_count <= SEEN_MAX);
    struct place at = {.origin = origin};
    while (text.len > 0) {
        const char *end = memchr(text.bytes, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.bytes) : text.len;
        struct slice line = {text.bytes, len};
        at.line++;
        char where[OPTION_NAME_MAX];
        say_where(&at, where);
        if (!unicode_is_valid(line) || memchr(line.bytes, '\0', line.len) != NULL)
            return why_set(ret_why, STATUS_BAD_OPTION, "", "%s: not UTF-8 text", where);
        TRY(read_line(options, line, &at, ret_why));
        size_t used = len + (end != NULL);
        text = (struct slice){text.bytes + used, text.len - used};
    }
    return OK;
}

enum status options_read_file(struct options *options, const char *path, struct why *ret_why)
{
    bool is_optional = path[0] == '-' && path[1] != '\0';
    path += is_optional;
    FILE *file = fopen(path, "rbe");
    if (file == NULL && is_optional && errno == ENOENT)
        return OK;
    if (file == NULL)
        return why_set(ret_why, STATUS_IO, "config", "%.200s: cannot be read: %s", path,
                       strerror(errno));
    char *bytes = mem_alloc(FILE_BYTES_MAX + 1);
    size_t len = bytes != NULL ? fread(bytes, 1, FILE_BYTES_MAX + 1, file) : 0;
    bool is_bad = ferror(file) != 0;
    int code = errno;
    fclose(file);
    enum status s;
    if (bytes == NULL)
        s = why_set(ret_why, STATUS_NO_MEMORY, "config", "%.200s: no memory to read it", path);
    else if (is_bad)
        s = why_set(ret_why, STATUS_IO, "config", "%.200s: cannot be read: %s", path,
                    strerror(code));
    else if (len > FILE_BYTES_MAX)
        s = why_set(ret_why, STATUS_BAD_OPTION, "config", "%.200s: more than %d bytes", path,
                    (int)FILE_BYTES_MAX);
    else
        s = options_read_text(options, (struct slice){bytes, len}, path, ret_why);
    mem_free(bytes);
    return s;
}
