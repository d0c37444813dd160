/* status_test.c: the status table says each thing once and completely. */
// SPDX-License-Identifier: Apache-2.0
#include "config/status.h"

#include "tests/support/suite_run.h"

START_TEST(every_row_is_complete)
{
    enum status s = (enum status)_i;
    ck_assert(status_code(s)[0] != '\0');
    ck_assert(status_text(s)[0] != '\0');
    ck_assert(status_http(s) >= 200 && status_http(s) < 600);
    for (const char *p = status_code(s); *p != '\0'; p++)
        ck_assert_msg((*p >= 'a' && *p <= 'z') || *p == '_', "%s", status_code(s));
}
END_TEST

START_TEST(codes_are_unique)
{
    for (int other = 0; other < _i; other++)
        ck_assert_str_ne(status_code((enum status)_i), status_code((enum status)other));
}
END_TEST

START_TEST(retry_is_said_where_waiting_helps)
{
    ck_assert(status_is_retryable(STATUS_QUEUE_FULL));
    ck_assert_int_eq(status_http(STATUS_QUEUE_FULL), 429);
    ck_assert(!status_is_retryable(STATUS_BAD_REQUEST));
    ck_assert_int_eq((int)OK, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tc = tcase_create("rows");
    tcase_set_timeout(tc, 10);
    tcase_add_loop_test(tc, every_row_is_complete, 0, STATUS_COUNT);
    tcase_add_loop_test(tc, codes_are_unique, 0, STATUS_COUNT);
    tcase_add_test(tc, retry_is_said_where_waiting_helps);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
