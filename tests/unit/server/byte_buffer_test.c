/* byte_buffer_test.c: growth, the maximum, and failure that stays. */
// SPDX-License-Identifier: Apache-2.0
#include "server/byte_buffer.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

START_TEST(grows_to_its_maximum_and_no_further)
{
    struct byte_buffer b;
    byte_buffer_init(&b, 1000);
    for (int i = 0; i < 100; i++)
        byte_buffer_format(&b, "%010d", i);
    ck_assert_uint_eq(b.len, 1000);
    ck_assert(!b.failed);
    byte_buffer_text(&b, "x");
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, 1000);
    ck_assert_mem_eq(b.bytes + 990, "0000000099", 10);
    byte_buffer_clear(&b);
    byte_buffer_text(&b, "again");
    ck_assert_uint_eq(b.len, 5);
    byte_buffer_drop(&b, 2);
    ck_assert_mem_eq(b.bytes, "ain", 3);
    byte_buffer_release(&b);
}
END_TEST

START_TEST(failure_stays_until_cleared)
{
    struct byte_buffer b;
    byte_buffer_init(&b, 100000);
    byte_buffer_text(&b, "kept");
    mem_fail_nth(1);
    char big[2000] = {0};
    byte_buffer_append(&b, big, sizeof big);
    mem_fail_nth(0);
    byte_buffer_text(&b, "not");
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, 4);
    byte_buffer_release(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("byte_buffer");
    TCase *tcase = tcase_create("byte_buffer");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, grows_to_its_maximum_and_no_further);
    tcase_add_test(tcase, failure_stays_until_cleared);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
