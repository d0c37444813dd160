/* admin_path.c: paths against the table's patterns, one after the other: they are few and an operator is slow.
 *
 * HOW     A pattern's {id} stands for one segment up to a ':' or '/'; what is around it must be there byte by byte. So
 *         /generations/x:forget and /generations/x/evaluation are told apart before the subject is decoded, and a name that holds
 *         a ':' or '/' is written with %3A or %2F.
 * ALWAYS  (1) At most one row has the method and the path.    (the table; tests/unit/server/admin_path_test)
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_path.h"

#include "config/unicode.h"

/* True if path is the pattern; the subject is [*ret_from, + *ret_len) of it, empty where the pattern has none. */
static bool is_match(const char *pattern, const char *path, const char **ret_from, size_t *ret_len)
{
    const char *hole = strstr(pattern, "{id}");
    *ret_from = path;
    *ret_len = 0;
    if (hole == NULL)
        return strcmp(pattern, path) == 0;
    size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, path, before) != 0)
        return false;
    *ret_from = path + before;
    *ret_len = strcspn(*ret_from, ":/");
    return *ret_len > 0 && strcmp(*ret_from + *ret_len, hole + strlen("{id}")) == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False for a bad escape, a NUL or too many bytes. */
static bool decode(const char *from, size_t len, char ret_text[ADMIN_SUBJECT_ROOM])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++, n++) {
        if (n + 1 >= ADMIN_SUBJECT_ROOM)
            return false;
        ret_text[n] = from[i];
        if (from[i] != '%')
            continue;
        int high = i + 2 < len ? hex_digit(from[i + 1]) : -1;
        int low = i + 2 < len ? hex_digit(from[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return false;
        ret_text[n] = (char)(high << 4 | low);
        i += 2;
    }
    ret_text[n] = '\0';
    return unicode_is_printable((struct slice){ret_text, n});
}

/* HEAD is GET without the body. */
static bool is_method(const char *row, const char *method)
{
    return strcmp(row, method) == 0 || (strcmp(row, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

enum status admin_path_find(const char *method, const char *path, enum admin_op *ret_op,
                            char ret_subject[ADMIN_SUBJECT_ROOM], struct why *ret_why)
{
    enum status s = STATUS_NOT_FOUND;
    ret_subject[0] = '\0';
    for (unsigned op = 0; op < ADMIN_OP_COUNT; op++) {
        const struct admin_route *row = admin_route((enum admin_op)op);
        const char *from;
        size_t len;
        if (!is_match(row->path, path, &from, &len))
            continue;
        s = STATUS_METHOD_NOT_ALLOWED;
        if (!is_method(row->method, method))
            continue;
        *ret_op = (enum admin_op)op;
        if (decode(from, len, ret_subject))
            return OK;
        return why_set(ret_why, STATUS_BAD_REQUEST, "id",
                       "the id in the path is %.100s: it must be 1 to %d bytes of printable text, "
                       "percent-encoded where a path needs that",
                       from, ADMIN_SUBJECT_ROOM - 1);
    }
    return s;
}

void admin_path_allowed(const char *path, char ret_text[ADMIN_PATH_ALLOWED])
{
    size_t n = 0;
    ret_text[0] = '\0';
    for (unsigned op = 0; op < ADMIN_OP_COUNT; op++) {
        const struct admin_route *row = admin_route((enum admin_op)op);
        const char *from;
        size_t len;
        if (!is_match(row->path, path, &from, &len))
            continue;
        n += (size_t)snprintf(ret_text + n, ADMIN_PATH_ALLOWED - n, "%s%s%s", n > 0 ? ", " : "",
                              row->method, strcmp(row->method, "GET") == 0 ? ", HEAD" : "");
        ASSERT(n < ADMIN_PATH_ALLOWED);
    }
}
