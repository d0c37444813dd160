/* text_hold_test.c: what comes out is text, whole, and the same however the bytes were cut. */
// SPDX-License-Identifier: Apache-2.0
#include "server/text_hold.h"
#include "tests/support/suite_run.h"

#define FFFD "\xef\xbf\xbd"

static const struct {
    const char *bytes, *text;
} rows[] = {
    {"", ""},
    {"plain", "plain"},
    {"\xc3\xa9\xed\x95\x9c\xf0\x9f\x99\x82", "\xc3\xa9\xed\x95\x9c\xf0\x9f\x99\x82"},
    {"a\x80z", "a" FFFD "z"},
    {"\xc3", FFFD},
    {"\xf0\x9f\x99", FFFD},
    {"\xf0\x9f\x99z", FFFD "z"},
    {"\xf0\x9f\xf0\x9f\x99\x82", FFFD "\xf0\x9f\x99\x82"},
    {"\xed\xa0\x80", FFFD FFFD FFFD},
    {"\xe0\x80\xc3\xa9", FFFD FFFD "\xc3\xa9"},
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},
    {"\xc0\xaf\xff\xfe", FFFD FFFD FFFD FFFD},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A"},
    {FFFD, FFFD},
};

/* Every piece of `piece` bytes, then the end. */
static void assert_text(size_t row, size_t piece)
{
    const char *bytes = rows[row].bytes;
    size_t len = strlen(bytes);
    struct text_hold hold = {.len = 0};
    struct byte_buffer out;
    byte_buffer_init(&out, 1000);
    for (size_t at = 0; at < len; at += piece)
        text_hold_push(&hold, bytes + at, at + piece < len ? piece : len - at, &out);
    ck_assert_uint_eq(character_whole_bytes((struct slice){out.bytes, out.len}), out.len);
    text_hold_flush(&hold, &out);
    ck_assert_uint_eq(hold.len, 0);
    ck_assert_uint_eq(out.len, strlen(rows[row].text));
    ck_assert(out.len == 0 || memcmp(out.bytes, rows[row].text, out.len) == 0);
    byte_buffer_release(&out);
}

START_TEST(text_does_not_depend_on_the_cuts)
{
    for (size_t piece = 1; piece <= 10; piece++)
        assert_text((size_t)_i, piece);
}
END_TEST

START_TEST(nothing_comes_before_a_character_is_whole)
{
    struct text_hold hold = {.len = 0};
    struct byte_buffer out;
    byte_buffer_init(&out, 100);
    text_hold_push(&hold, "a\xf0", 2, &out);
    text_hold_push(&hold, "\x9f\x99", 2, &out);
    ck_assert_uint_eq(out.len, 1);
    text_hold_push(&hold, "\x82", 1, &out);
    ck_assert_uint_eq(out.len, 5);
    byte_buffer_release(&out);
}
END_TEST

START_TEST(a_full_buffer_is_told)
{
    struct text_hold hold = {.len = 0};
    struct byte_buffer out;
    byte_buffer_init(&out, 4);
    text_hold_push(&hold, "abcde", 5, &out);
    ck_assert(out.failed);
    byte_buffer_release(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_hold");
    TCase *tcase = tcase_create("text_hold");
    tcase_add_loop_test(tcase, text_does_not_depend_on_the_cuts, 0, (int)ARRAY_LEN(rows));
    tcase_add_test(tcase, nothing_comes_before_a_character_is_whole);
    tcase_add_test(tcase, a_full_buffer_is_told);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
