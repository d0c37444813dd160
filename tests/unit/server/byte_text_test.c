/* byte_text_test.c: the byte alphabet is GPT-2's, and a bijection. */
// SPDX-License-Identifier: Apache-2.0
#include "server/byte_text.h"
#include "server/character.h"
#include "tests/support/suite_run.h"

/* The alphabet as its authors made it: printable bytes stand for themselves, the others are numbered from 256. */
static uint32_t by_definition(unsigned byte)
{
    uint32_t next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool is_printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        uint32_t code = is_printable ? b : next++;
        if (b == byte)
            return code;
    }
    return 0;
}

START_TEST(every_byte_is_right_and_returns)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        ck_assert_uint_eq(byte_text_char((uint8_t)byte), by_definition(byte));
        ck_assert_int_eq(byte_text_byte(byte_text_char((uint8_t)byte)), (int)byte);
    }
}
END_TEST

START_TEST(only_256_characters_are_of_the_alphabet)
{
    int n = 0;
    for (uint32_t code = 0; code <= 0x10ffff; code++)
        n += byte_text_byte(code) >= 0;
    ck_assert_int_eq(n, 256);
    ck_assert_int_eq(byte_text_byte(' '), -1);
    ck_assert_int_eq(byte_text_byte(0xad), -1);
    ck_assert_int_eq(byte_text_byte(0x144), -1);
    ck_assert_int_eq(byte_text_byte(0x120), ' ');
}
END_TEST

START_TEST(spellings_are_decoded_or_refused)
{
    char bytes[16];
    size_t len;
    ck_assert(byte_text_decode((struct slice){"\xc4\xa0the\xc4\x8a", 7}, bytes, &len));
    ck_assert_uint_eq(len, 5);
    ck_assert_mem_eq(bytes, " the\n", 5);
    ck_assert(!byte_text_decode((struct slice){"a b", 3}, bytes, &len));
    ck_assert(!byte_text_decode((struct slice){"a\xc4", 2}, bytes, &len));
    ck_assert(!byte_text_decode((struct slice){"\xe2\x96\x81", 3}, bytes, &len));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("byte_text");
    TCase *tcase = tcase_create("byte_text");
    tcase_add_test(tcase, every_byte_is_right_and_returns);
    tcase_add_test(tcase, only_256_characters_are_of_the_alphabet);
    tcase_add_test(tcase, spellings_are_decoded_or_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
