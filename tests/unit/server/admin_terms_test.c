/* admin_terms_test.c: what headers and query of a call say, and what they may not say. */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_terms.h"

#include "sched/release/change.h"
#include "tests/support/suite_run.h"

/* A head as the parser leaves it; NULL: the header is absent. */
static enum status read_terms(enum admin_op op, const char *key, const char *match,
                              const char *query, struct admin_call *call, struct why *why)
{
    struct http_head head = {0};
    *why = (struct why){0};
    *call = (struct admin_call){.op = op};
    head.idempotency_key.has = key != NULL;
    head.if_match.has = match != NULL;
    snprintf(head.idempotency_key.text, sizeof head.idempotency_key.text, "%s",
             key != NULL ? key : "");
    snprintf(head.if_match.text, sizeof head.if_match.text, "%s", match != NULL ? match : "");
    snprintf(head.target, sizeof head.target, "%s", query);
    head.query = head.target;
    return admin_terms_read(&head, call, why);
}

static const struct {
    enum admin_op op;
    const char *key, *match, *query;
    enum status status;
    const char *field; /* of a refusal */
} cases[] = {
    {ADMIN_GENERATION_PUBLISH, "k", "\"7\"", "", OK, NULL},
    {ADMIN_GENERATION_PUBLISH, "k", "\"0\"", "dry_run=all", OK, NULL},
    {ADMIN_GENERATION_PUBLISH, "with space ~", "\"999999999999999\"", "", OK, NULL},
    {ADMIN_ROLLBACK, "k", "*", "", OK, NULL},
    {ADMIN_ROLLOUT_ABORT, "k", "*", "dry_run=all", OK, NULL},
    {ADMIN_ROLLBACK, "k", "\"3\"", "", OK, NULL},
    {ADMIN_GENERATION_LIST, NULL, NULL, "", OK, NULL},
    {ADMIN_GENERATION_LIST, "k", "nonsense", "", OK, NULL},
    {ADMIN_AUDIT_LIST, NULL, NULL, "after=12&limit=1000", OK, NULL},
    {ADMIN_AUDIT_LIST, NULL, NULL, "limit=1", OK, NULL},
    {ADMIN_GENERATION_PUBLISH, NULL, "\"7\"", "", STATUS_BAD_REQUEST, "Idempotency-Key"},
    {ADMIN_GENERATION_PUBLISH, "", "\"7\"", "", STATUS_BAD_REQUEST, "Idempotency-Key"},
    {ADMIN_GENERATION_PUBLISH, "\xc3\xa9", "\"7\"", "", STATUS_BAD_REQUEST, "Idempotency-Key"},
    {ADMIN_GENERATION_PUBLISH, "a\tb", "\"7\"", "", STATUS_BAD_REQUEST, "Idempotency-Key"},
    {ADMIN_GENERATION_PUBLISH, "k", NULL, "", STATUS_PRECONDITION_REQUIRED, "If-Match"},
    {ADMIN_GENERATION_PUBLISH, "k", "*", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLOUT_PAUSE, "k", "*", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", NULL, "", STATUS_PRECONDITION_REQUIRED, "If-Match"},
    {ADMIN_ROLLBACK, "k", "**", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "7", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "W/\"7\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"7\", \"8\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"-1\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"07\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_ROLLBACK, "k", "\"9999999999999999\"", "", STATUS_BAD_REQUEST, "If-Match"},
    {ADMIN_GENERATION_PUBLISH, "k", "\"7\"", "dry_run", STATUS_BAD_REQUEST, "dry_run"},
    {ADMIN_GENERATION_PUBLISH, "k", "\"7\"", "dry_run=some", STATUS_BAD_REQUEST, "dry_run"},
    {ADMIN_GENERATION_PUBLISH, "k", "\"7\"", "dry_run=all&dry_run=all", STATUS_BAD_REQUEST,
     "dry_run"},
    {ADMIN_GENERATION_PUBLISH, "k", "\"7\"", "dryrun=all", STATUS_BAD_REQUEST, "query"},
    {ADMIN_GENERATION_LIST, NULL, NULL, "dry_run=all", STATUS_BAD_REQUEST, "query"},
    {ADMIN_GENERATION_LIST, NULL, NULL, "limit=1", STATUS_BAD_REQUEST, "query"},
    {ADMIN_GENERATION_LIST, NULL, NULL, "&", STATUS_BAD_REQUEST, "query"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "limit=0", STATUS_BAD_REQUEST, "limit"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "limit=1001", STATUS_BAD_REQUEST, "limit"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "after=", STATUS_BAD_REQUEST, "after"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "after=-1", STATUS_BAD_REQUEST, "after"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "after=1&limit=2&after=1", STATUS_BAD_REQUEST, "after"},
    {ADMIN_AUDIT_LIST, NULL, NULL, "after=1e3", STATUS_BAD_REQUEST, "after"},
};

START_TEST(is_read_or_refused)
{
    struct admin_call call;
    struct why why;
    enum status s =
        read_terms(cases[_i].op, cases[_i].key, cases[_i].match, cases[_i].query, &call, &why);
    ck_assert_msg(s == cases[_i].status, "row %d: %s, %s", _i, status_code(s), why.text);
    ck_assert_str_eq(why.field, s == OK ? "" : cases[_i].field);
}
END_TEST

START_TEST(values_come_through)
{
    struct admin_call call;
    struct why why;
    ck_assert_int_eq(read_terms(ADMIN_ROLLBACK, "once", "\"12\"", "", &call, &why), OK);
    ck_assert_str_eq(call.idempotency_key, "once");
    ck_assert_int_eq(call.epoch_expected, 12);
    ck_assert(!call.is_dry_run);
    ck_assert_int_eq(read_terms(ADMIN_ROLLBACK, "once", "*", "dry_run=all", &call, &why), OK);
    ck_assert_int_eq(call.epoch_expected, EPOCH_ANY);
    ck_assert(call.is_dry_run);
    ck_assert_int_eq(read_terms(ADMIN_AUDIT_LIST, NULL, NULL, "", &call, &why), OK);
    ck_assert_str_eq(call.idempotency_key, "");
    ck_assert_int_eq(call.after, 0);
    ck_assert_int_eq(call.limit, ADMIN_AUDIT_LIMIT);
    ck_assert_int_eq(read_terms(ADMIN_AUDIT_LIST, NULL, NULL, "after=41&limit=5", &call, &why), OK);
    ck_assert_int_eq(call.after, 41);
    ck_assert_int_eq(call.limit, 5);
}
END_TEST

/* A value that the parser could not keep whole. */
START_TEST(a_long_header_is_refused)
{
    struct http_head head = {0};
    struct admin_call call = {.op = ADMIN_ROLLBACK};
    head.query = head.target;
    head.idempotency_key.has = head.idempotency_key.is_long = true;
    ck_assert_int_eq(admin_terms_read(&head, &call, NULL), STATUS_BAD_REQUEST);
    head.idempotency_key.is_long = false;
    snprintf(head.idempotency_key.text, sizeof head.idempotency_key.text, "k");
    head.if_match.has = head.if_match.is_long = true;
    ck_assert_int_eq(admin_terms_read(&head, &call, NULL), STATUS_BAD_REQUEST);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin_terms");
    TCase *tcase = tcase_create("admin_terms");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, is_read_or_refused, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tcase, values_come_through);
    tcase_add_test(tcase, a_long_header_is_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
