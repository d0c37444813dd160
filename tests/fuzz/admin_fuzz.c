/* admin_fuzz.c: any bytes as an admin request's method, path, query and headers, and as a file of keys.
 *
 * HOW     Five lines, then the keys' file: method, path, query, idempotency key, If-Match.
 * ALWAYS  (1) A path is found, not allowed or nobody's, and the list of its methods says the same.      check_path
 *         (2) What changes something has a key and an epoch, and only abort and rollback any epoch.     check_terms
 *         (3) A file of keys lets in the keys that it names, and nobody else.                           check_keys
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/unicode.h"
#include "sched/release/change.h"
#include "server/admin_keys.h"
#include "server/admin_path.h"
#include "server/admin_terms.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { LINE_MAX_BYTES = HTTP_TARGET_MAX };

/* The next line without its end, cut to fit; no NUL inside. */
static void take_line(const char **at, const char *end, char ret_line[LINE_MAX_BYTES])
{
    size_t n = 0;
    for (; *at < end && **at != '\n'; (*at)++)
        if (**at != '\0' && n + 1 < LINE_MAX_BYTES)
            ret_line[n++] = **at;
    ret_line[n] = '\0';
    *at += *at < end;
}

static bool is_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; len > 0 && (at = strstr(at, word)) != NULL; at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0'))
            return strpbrk(word, ", ") == NULL;
    return false;
}

static bool check_path(const char *method, const char *path, struct admin_call *call)
{
    char allowed[ADMIN_PATH_ALLOWED];
    struct why why = {0};
    enum status s = admin_path_find(method, path, &call->op, call->subject, &why);
    admin_path_allowed(path, allowed);
    if (s == STATUS_NOT_FOUND) {
        ASSERT(allowed[0] == '\0');
        return false;
    }
    ASSERT(strncmp(path, "/admin/v1/", 10) == 0 && allowed[0] != '\0');
    ASSERT(is_listed(allowed, method) == (s != STATUS_METHOD_NOT_ALLOWED));
    if (s != OK) {
        ASSERT(s == STATUS_METHOD_NOT_ALLOWED || (s == STATUS_BAD_REQUEST && why.text[0] != '\0'));
        return false;
    }
    ASSERT(call->op < ADMIN_OP_COUNT);
    ASSERT(unicode_is_printable((struct slice){call->subject, strlen(call->subject)}));
    ASSERT((strstr(admin_route(call->op)->path, "{id}") != NULL) == (call->subject[0] != '\0'));
    return true;
}

static void check_terms(char lines[3][LINE_MAX_BYTES], struct admin_call *call)
{
    static struct http_head head;
    struct why why = {0};
    memset(&head, 0, sizeof head);
    memcpy(head.target, lines[0], sizeof head.target);
    head.query = head.target;
    head.idempotency_key.has = lines[1][0] != '\0';
    head.idempotency_key.is_long = strlen(lines[1]) >= sizeof head.idempotency_key.text;
    snprintf(head.idempotency_key.text, sizeof head.idempotency_key.text, "%.255s", lines[1]);
    head.if_match.has = lines[2][0] != '\0';
    head.if_match.is_long = strlen(lines[2]) >= sizeof head.if_match.text;
    snprintf(head.if_match.text, sizeof head.if_match.text, "%.63s", lines[2]);
    enum status s = admin_terms_read(&head, call, &why);
    enum admin_epoch epoch = admin_route(call->op)->epoch;
    if (s != OK) {
        ASSERT(s == STATUS_BAD_REQUEST || s == STATUS_PRECONDITION_REQUIRED);
        ASSERT(why.text[0] != '\0' && why.field[0] != '\0');
        return;
    }
    ASSERT((call->idempotency_key[0] != '\0') == (epoch != ADMIN_EPOCH_NONE));
    ASSERT(call->epoch_expected >= 0 ||
           (call->epoch_expected == EPOCH_ANY && epoch != ADMIN_EPOCH_MATCH));
    ASSERT(!call->is_dry_run || epoch != ADMIN_EPOCH_NONE);
    ASSERT(call->after >= 0 && call->limit >= 1 && call->limit <= ADMIN_AUDIT_LIMIT_MAX);
}

static void check_keys(const char *text, size_t len)
{
    struct admin_keys *keys = NULL;
    struct why why = {0};
    enum admin_role role = ADMIN_ROLE_COUNT;
    const char *name = NULL;
    enum status s = admin_keys_parse(text, len, true, &keys, &why);
    if (s != OK) {
        ASSERT(keys == NULL && (s == STATUS_NO_MEMORY || s == STATUS_BAD_OPTION));
        ASSERT(why.text[0] != '\0');
        return;
    }
    ASSERT(!admin_keys_find(keys, "", 0, &name, &role));
    for (size_t from = 0, to; from < len; from = to + 1) {
        for (to = from; to < len && memchr(" \t\r\n", text[to], 4) == NULL; to++) {
        }
        bool is_line_start = from == 0 || text[from - 1] == '\n';
        if (is_line_start && to - from >= ADMIN_KEY_LEAST && text[from] != '#' &&
            memchr(text + from, ':', to - from) == NULL) {
            ASSERT(admin_keys_find(keys, text + from, to - from, &name, &role));
            ASSERT(role < ADMIN_ROLE_COUNT && name[0] != '\0');
        }
    }
    admin_keys_free(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const char *at = (const char *)bytes, *end = at + len;
    char method[LINE_MAX_BYTES], path[LINE_MAX_BYTES], lines[3][LINE_MAX_BYTES];
    struct admin_call call = {.op = ADMIN_OP_COUNT};
    if (len == 0)
        return 0;
    take_line(&at, end, method);
    take_line(&at, end, path);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        take_line(&at, end, lines[i]);
    if (check_path(method, path, &call))
        check_terms(lines, &call);
    check_keys(at, (size_t)(end - at));
    return 0;
}
