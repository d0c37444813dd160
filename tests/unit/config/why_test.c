/* why_test.c: an explanation is one printable line whatever it quotes. */
// SPDX-License-Identifier: Apache-2.0
#include "config/why.h"

#include "tests/support/suite_run.h"

START_TEST(it_gives_the_status_back)
{
    struct why why;
    ck_assert_int_eq(why_set(&why, STATUS_BAD_FILE, "key", "%s is %d", "x", 3), STATUS_BAD_FILE);
    ck_assert_str_eq(why.text, "x is 3");
    ck_assert_str_eq(why.field, "key");
    ck_assert_int_eq(why_set(NULL, STATUS_IO, "key", "%s", "x"), STATUS_IO);
}
END_TEST

START_TEST(it_stays_one_printable_line)
{
    struct why why;
    why_set(&why, STATUS_IO, "a\x1b[2J", "%s", "one\ntwo\r\x7f \xff h\xc3\xa9 \xc3");
    ck_assert_str_eq(why.text, "one?two?? ? h\xc3\xa9 ?");
    ck_assert_str_eq(why.field, "a?[2J");
}
END_TEST

START_TEST(it_is_cut_at_its_buffer)
{
    struct why why;
    char text[1000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text + sizeof why.text - 2, "\xc3\xa9", 2); /* half a character at the end */
    why_set(&why, STATUS_IO, text, "%s", text);
    ck_assert_uint_eq(strlen(why.text), sizeof why.text - 1);
    ck_assert_int_eq(why.text[sizeof why.text - 2], '?');
    ck_assert_uint_eq(strlen(why.field), sizeof why.field - 1);
}
END_TEST

START_TEST(parts_go_with_the_line_that_was_set_last)
{
    struct why why = {0};
    why_set(&why, STATUS_RECEIPTS_DISAGREE, "x", "they differ");
    why_add_text(&why, "left", "a\nb");
    why_add_number(&why, "right", UINT64_MAX);
    ck_assert_uint_eq(why.n_parts, 2);
    ck_assert_str_eq(why.parts[0].key, "left");
    ck_assert_str_eq(why.parts[0].text, "a?b");
    ck_assert(!why.parts[0].is_number && why.parts[1].is_number);
    ck_assert_uint_eq(why.parts[1].number, UINT64_MAX);
    why_set(&why, STATUS_IO, "y", "another");
    ck_assert_uint_eq(why.n_parts, 0);
    why_add_text(NULL, "left", "a");
    why_add_number(NULL, "left", 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("why");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 10);
    tcase_add_test(tc, it_gives_the_status_back);
    tcase_add_test(tc, it_stays_one_printable_line);
    tcase_add_test(tc, it_is_cut_at_its_buffer);
    tcase_add_test(tc, parts_go_with_the_line_that_was_set_last);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
