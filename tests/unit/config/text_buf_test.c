/* text_buf_test.c: growing, the limit, and failures that stick. */
// SPDX-License-Identifier: Apache-2.0
#include "config/text_buf.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

START_TEST(it_grows)
{
    struct text_buf text;
    text_buf_init(&text, 1 << 20);
    for (int i = 0; i < 1000; i++)
        text_buf_add(&text, "%d,", i);
    text_buf_add_bytes(&text, "end\0x", 5);
    ck_assert_uint_eq(text.len, 10 * 2 + 90 * 3 + 900 * 4 + 5);
    char *taken = text_buf_take(&text);
    ck_assert(taken != NULL && text.bytes == NULL && text.len == 0);
    ck_assert(strncmp(taken, "0,1,2,", 6) == 0 && strcmp(taken + 20 + 270 + 3600, "end") == 0);
    mem_free(taken);
    taken = text_buf_take(&text);
    ck_assert_str_eq(taken, "");
    mem_free(taken);
}
END_TEST

START_TEST(it_stops_at_its_maximum)
{
    struct text_buf text;
    text_buf_init(&text, 4);
    text_buf_add(&text, "abcd");
    ck_assert(!text.is_failed);
    text_buf_add(&text, "%s", "");
    ck_assert(!text.is_failed);
    text_buf_add_bytes(&text, "e", 1);
    ck_assert(text.is_failed && text.len == 4);
    text_buf_add(&text, "%s", "");
    ck_assert_ptr_null(text_buf_take(&text));
    text_buf_init(&text, 4);
    text_buf_add(&text, "%s", "abcde");
    ck_assert_ptr_null(text_buf_take(&text));
}
END_TEST

START_TEST(a_failure_sticks)
{
    struct text_buf text;
    text_buf_init(&text, 1000);
    mem_fail_nth(1);
    text_buf_add(&text, "a");
    text_buf_add(&text, "b");
    ck_assert(text.is_failed && text.len == 0);
    ck_assert_ptr_null(text_buf_take(&text));
    text_buf_release(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_buf");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 10);
    tcase_add_test(tc, it_grows);
    tcase_add_test(tc, it_stops_at_its_maximum);
    tcase_add_test(tc, a_failure_sticks);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
