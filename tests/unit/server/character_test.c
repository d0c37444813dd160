/* character_test.c: every code point there and back, and every way in which bytes fail to be one. */
// SPDX-License-Identifier: Apache-2.0
#include "server/character.h"
#include "tests/support/suite_run.h"

/* Writes, reads, and reads again with the end cut off. */
static bool returns(uint32_t code)
{
    char text[CHARACTER_BYTES_MAX];
    uint32_t read;
    size_t n = character_write(code, text);
    bool is_right = character_read(text, n, &read) == n && read == code && !character_is_broken(text, n);
    for (size_t cut = 1; cut < n; cut++)
        is_right = is_right && character_read(text, cut, &read) == 0 && !character_is_broken(text, cut);
    return is_right;
}

START_TEST(every_code_point_returns)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++)
        if (!(code >= 0xd800 && code <= 0xdfff) && !returns(code))
            ck_abort_msg("U+%04X", code);
}
END_TEST

static const struct {
    const char *text;
    size_t broken; /* bytes of the first broken part */
} broken_rows[] = {
    {"\x80", 1},         {"\xbf\x80", 1},         {"\xc0\x80", 1},         {"\xc1\xbf", 1},     {"\xc2" "a", 1},
    {"\xe0\x80\x80", 1}, {"\xe0\x9f\xbf", 1},     {"\xe1\x80" "a", 2},     {"\xed\xa0\x80", 1}, {"\xed\xbf\xbf", 1},
    {"\xf0\x80\x80", 1}, {"\xf0\x8f\xbf\xbf", 1}, {"\xf0\x9f\x99" "a", 3}, {"\xf4\x90\x80", 1}, {"\xf5\x80", 1},
    {"\xff", 1},         {"\xfe", 1},             {"\xf0\x9f" "a", 2},     {"\xe2\x28\xa1", 1},
};

START_TEST(broken_bytes_are_told)
{
    const char *text = broken_rows[_i].text;
    uint32_t code;
    ck_assert_uint_eq(character_read(text, strlen(text), &code), 0);
    ck_assert(character_is_broken(text, strlen(text)));
    ck_assert_uint_eq(character_broken_bytes(text, strlen(text)), broken_rows[_i].broken);
    ck_assert_uint_eq(character_whole_bytes((struct slice){text, strlen(text)}), 0);
}
END_TEST

START_TEST(counts)
{
    const char text[] = "a\xc3\xa9\xed\x95\x9c\xf0\x9f\x99\x82z";
    ck_assert_uint_eq(character_count((struct slice){text, sizeof text - 1}), 5);
    ck_assert_uint_eq(character_whole_bytes((struct slice){text, sizeof text - 1}), sizeof text - 1);
    ck_assert_uint_eq(character_whole_bytes((struct slice){text, sizeof text - 3}), 6);
    ck_assert_uint_eq(character_count((struct slice){"", 0}), 0);
    ck_assert(!character_is_broken("", 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("character");
    TCase *tcase = tcase_create("character");
    tcase_add_test(tcase, every_code_point_returns);
    tcase_add_loop_test(tcase, broken_bytes_are_told, 0, (int)ARRAY_LEN(broken_rows));
    tcase_add_test(tcase, counts);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
