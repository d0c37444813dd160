/* unicode_test.c: every code point's own bytes are taken, and nothing else. */
// SPDX-License-Identifier: Apache-2.0
#include "config/unicode.h"

#include "tests/support/suite_run.h"

/* Writes code as UTF-8 would, surrogates too; the length. */
static size_t encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xff) | code);
    return n;
}

START_TEST(every_code_point)
{
    /* One assertion at the end: a million of them take a minute under a sanitizer. */
    uint32_t wrong = UINT32_MAX;
    for (uint32_t code = 0; code <= 0x10ffff && wrong == UINT32_MAX; code++) {
        char bytes[4];
        size_t n = encode(code, bytes);
        bool is_surrogate = code >= 0xd800 && code < 0xe000;
        if (unicode_length(bytes, n) != (is_surrogate ? 0 : n) || unicode_length(bytes, n - 1) != 0)
            wrong = code;
    }
    ck_assert_msg(wrong == UINT32_MAX, "U+%04X is taken wrongly", wrong);
}
END_TEST

static const char *const bad[] = {
    "\x80",
    "\xbf",
    "\xc0\x80",
    "\xc1\xbf",
    "\xe0\x80\x80",
    "\xe0\x9f\xbf",
    "\xed\xa0\x80",
    "\xed\xbf\xbf",
    "\xf0\x8f\xbf\xbf",
    "\xf4\x90\x80\x80",
    "\xf5\x80\x80\x80",
    "\xf8\x88\x80\x80\x80",
    "\xff",
    "\xfe",
    "a\xc3",
    "\xc3(",
    "\xe2\x82(",
    "\xf0\x9f\x99(",
};

START_TEST(malformed)
{
    ck_assert(!unicode_is_valid((struct slice){bad[_i], strlen(bad[_i])}));
    ck_assert(!unicode_is_printable((struct slice){bad[_i], strlen(bad[_i])}));
}
END_TEST

START_TEST(well_formed)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82";
    ck_assert(unicode_is_valid((struct slice){text, sizeof text - 1}));
    ck_assert(unicode_is_printable((struct slice){text, sizeof text - 1}));
    ck_assert(unicode_is_valid((struct slice){"", 0}));
    ck_assert(unicode_is_valid((struct slice){"a\0b\n", 4}));
    ck_assert(!unicode_is_printable((struct slice){"a\0b", 3}));
    ck_assert(!unicode_is_printable((struct slice){"a\nb", 3}));
    ck_assert(!unicode_is_printable((struct slice){"a\x7f", 2}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unicode");
    TCase *tc = tcase_create("utf-8");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, every_code_point);
    tcase_add_loop_test(tc, malformed, 0, (int)ARRAY_LEN(bad));
    tcase_add_test(tc, well_formed);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
