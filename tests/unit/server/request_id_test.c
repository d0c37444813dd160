/* request_id_test.c: the client's id if it is harmless, else one of ours; and how long a refused client waits. */
// SPDX-License-Identifier: Apache-2.0
#include "server/request_id.h"

#include "server/retry_after.h"
#include "tests/support/suite_run.h"

static const char *chosen(const char *given, bool is_long)
{
    static char id[REQUEST_ID_BYTES];
    static uint64_t n;
    struct http_head head = {0};
    head.request_id.has = given != NULL;
    head.request_id.is_long = is_long;
    if (given != NULL)
        snprintf(head.request_id.text, sizeof head.request_id.text, "%s", given);
    request_id_choose(&head, 42, &n, id);
    return id;
}

START_TEST(well_formed_ids_are_echoed)
{
    static const char *const good[] = {"a", "req-1.2_3:4/5+6=7@8",
                                       "0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ck_assert_str_eq(chosen(good[i], false), good[i]);
}
END_TEST

START_TEST(others_are_replaced)
{
    static const char *const bad[] = {"", "a b", "a\"b", "a\r\nX: y", "<x>", "\xc3\xa9", "a;b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_uint_eq(strlen(chosen(bad[i], false)), 32);
    ck_assert_uint_eq(strlen(chosen("x", true)), 32);
    ck_assert_uint_eq(strlen(chosen(NULL, false)), 32);
}
END_TEST

START_TEST(ours_differ)
{
    char first[REQUEST_ID_BYTES];
    snprintf(first, sizeof first, "%s", chosen(NULL, false));
    ck_assert_str_ne(first, chosen(NULL, false));
}
END_TEST

START_TEST(retry_after_grows_with_the_queue)
{
    ck_assert_uint_eq(retry_after_rule(0, 64, 0), 1);
    ck_assert_uint_eq(retry_after_rule(64, 64, 5), 5);
    ck_assert_uint_eq(retry_after_rule(128, 64, 5), 10);
    ck_assert_uint_eq(retry_after_rule(1000000, 1, 100), 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_id");
    TCase *tcase = tcase_create("request_id");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, well_formed_ids_are_echoed);
    tcase_add_test(tcase, others_are_replaced);
    tcase_add_test(tcase, ours_differ);
    tcase_add_test(tcase, retry_after_grows_with_the_queue);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
