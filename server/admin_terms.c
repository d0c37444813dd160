/* admin_terms.c: Idempotency-Key, If-Match and the query, strictly: what is not understood is not guessed at.
 *
 * HOW     Calls that change nothing take neither header; proxies may add them, so there they say nothing.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_terms.h"

#include "sched/release/change.h"

enum { DIGITS_MAX = 15 };

/* A whole number of at most 15 digits, without leading zeros. */
static bool read_number(const char *text, size_t len, int64_t *ret_number)
{
    int64_t number = 0;
    if (len == 0 || len > DIGITS_MAX || (len > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (text[i] - '0');
    }
    *ret_number = number;
    return true;
}

static enum status read_key(const struct http_head *head, struct admin_call *call,
                            struct why *ret_why)
{
    const char *text = head->idempotency_key.text;
    static const char wanted[] = "1 to 255 printable ASCII characters are needed, chosen afresh "
                                 "for each change and sent again when it is repeated";
    if (!head->idempotency_key.has)
        return why_set(ret_why, STATUS_BAD_REQUEST, "Idempotency-Key",
                       "the header Idempotency-Key is missing: %s", wanted);
    bool is_good = !head->idempotency_key.is_long && text[0] != '\0';
    for (const char *c = text; is_good && *c != '\0'; c++)
        is_good = *c >= 0x20 && *c < 0x7f;
    if (!is_good)
        return why_set(ret_why, STATUS_BAD_REQUEST, "Idempotency-Key",
                       "the Idempotency-Key is '%.100s': %s", text, wanted);
    snprintf(call->idempotency_key, sizeof call->idempotency_key, "%s", text);
    return OK;
}

static enum status read_epoch(const struct http_head *head, struct admin_call *call,
                              struct why *ret_why)
{
    const char *text = head->if_match.text;
    size_t len = strlen(text);
    bool may_be_any = admin_route(call->op)->epoch == ADMIN_EPOCH_ANY;
    if (!head->if_match.has)
        return why_set(ret_why, STATUS_PRECONDITION_REQUIRED, "If-Match",
                       "the header If-Match is missing: it names the release epoch that is "
                       "expected, as the ETag of the last answer does%s",
                       may_be_any ? ", or *" : "");
    if (strcmp(text, "*") == 0 && may_be_any) {
        call->epoch_expected = EPOCH_ANY;
        return OK;
    }
    if (!head->if_match.is_long && len > 2 && text[0] == '"' && text[len - 1] == '"' &&
        read_number(text + 1, len - 2, &call->epoch_expected))
        return OK;
    return why_set(ret_why, STATUS_BAD_REQUEST, "If-Match",
                   "If-Match is %.60s: one epoch in quotes is needed, like \"7\"%s", text,
                   may_be_any ? ", or *" : " (* is for abort and rollback)");
}

struct parameter {
    const char *name, *value;
    size_t name_len, value_len;
};

static bool is_named(const struct parameter *p, const char *name)
{
    return strlen(name) == p->name_len && memcmp(p->name, name, p->name_len) == 0;
}

static enum status refuse(const struct parameter *p, const char *text, struct why *ret_why)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)p->name_len, p->name);
    return why_set(ret_why, STATUS_BAD_REQUEST, name, "the query's %s is '%.*s': %s", name,
                   (int)(p->value_len < 60 ? p->value_len : 60), p->value, text);
}

static enum status read_parameter(const struct parameter *p, struct admin_call *call,
                                  struct why *ret_why)
{
    bool is_audit = call->op == ADMIN_AUDIT_LIST;
    bool is_change = admin_route(call->op)->epoch != ADMIN_EPOCH_NONE;
    if (is_change && is_named(p, "dry_run")) {
        if (p->value_len != 3 || memcmp(p->value, "all", 3) != 0)
            return refuse(p, "'all' is the only one served", ret_why);
        call->is_dry_run = true;
        return OK;
    }
    if (is_audit && is_named(p, "after"))
        return read_number(p->value, p->value_len, &call->after)
                   ? OK
                   : refuse(p, "an entry's number is needed, or 0", ret_why);
    if (is_audit && is_named(p, "limit"))
        return read_number(p->value, p->value_len, &call->limit) && call->limit >= 1 &&
                       call->limit <= ADMIN_AUDIT_LIMIT_MAX
                   ? OK
                   : refuse(p, "1 to 1000 are served", ret_why);
    return why_set(ret_why, STATUS_BAD_REQUEST, "query",
                   "the query has '%.*s', which this call does not take%s",
                   (int)(p->name_len < 60 ? p->name_len : 60), p->name,
                   is_change  ? " (dry_run=all is)"
                   : is_audit ? " (after and limit are)"
                              : "");
}

static enum status read_query(const char *query, struct admin_call *call, struct why *ret_why)
{
    struct parameter seen[2];
    size_t n_seen = 0;
    while (query[0] != '\0') {
        size_t len = strcspn(query, "&"), name_len = strcspn(query, "=&");
        struct parameter p = {.name = query, .name_len = name_len, .value = query + name_len};
        if (name_len < len) {
            p.value++;
            p.value_len = len - name_len - 1;
        }
        TRY(read_parameter(&p, call, ret_why));
        for (size_t i = 0; i < n_seen; i++)
            if (seen[i].name_len == name_len && memcmp(seen[i].name, p.name, name_len) == 0)
                return refuse(&p, "it comes twice", ret_why);
        ASSERT(n_seen < ARRAY_LEN(seen)); /* no call takes more than two */
        seen[n_seen++] = p;
        query += len + (query[len] == '&');
    }
    return OK;
}

enum status admin_terms_read(const struct http_head *head, struct admin_call *call,
                             struct why *ret_why)
{
    call->idempotency_key[0] = '\0';
    call->epoch_expected = EPOCH_ANY;
    call->is_dry_run = false;
    call->after = 0;
    call->limit = ADMIN_AUDIT_LIMIT;
    if (admin_route(call->op)->epoch != ADMIN_EPOCH_NONE) {
        TRY(read_key(head, call, ret_why));
        TRY(read_epoch(head, call, ret_why));
    }
    return read_query(head->query, call, ret_why);
}
