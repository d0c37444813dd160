/* record_test.c: canonical text, what is refused, reading back. */
// SPDX-License-Identifier: Apache-2.0
#include "config/record.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

START_TEST(prints_the_canonical_form_and_reads_it_back)
{
    static const char expected[] = "{\"a\":null,\"b\":[\"x\",\"y\"],\"c\":{\"n\":-9007199254740992}"
                                   ",\"d\":\"\\\"\\\\/\xc3\xa9\",\"e\":true}";
    struct record r, child, again;
    record_init(&child);
    record_set_number(&child, "n", -((int64_t)1 << 53));
    record_init(&r);
    record_set_flag(&r, "e", true);
    record_set_text(&r, "d", "\"\\/\xc3\xa9");
    record_set_record(&r, "c", &child);
    record_add_text(&r, "b", "x");
    record_add_text(&r, "b", "y");
    record_set_text(&r, "a", NULL);
    char *text = record_print(&r);
    ck_assert_str_eq(text, expected);
    ck_assert_int_eq(record_read(text, strlen(text), &again, NULL), OK);
    ck_assert(record_is_equal(&r, &again));
    ck_assert(!record_has(&again, "a"));
    ck_assert_str_eq(record_item_text(&again, "b", 1), "y");
    ck_assert_ptr_null(record_item_text(&again, "b", 2));
    struct record inner = record_child(&again, "c");
    int64_t n = 0;
    ck_assert(record_number(&inner, "n", &n));
    ck_assert_int_eq(n, -((int64_t)1 << 53));
    ck_assert(!record_number(&again, "d", &n));
    mem_free(text);
    record_release(&r);
    record_release(&child);
    record_release(&again);
}
END_TEST

START_TEST(what_has_no_canonical_form_fails)
{
    struct record r, inner;
    record_init(&r);
    record_set_text(&r, "key", "\xff");
    ck_assert_ptr_null(record_print(&r));
    record_release(&r);
    record_init(&r);
    record_set_number(&r, "n", ((int64_t)1 << 53) + 1);
    ck_assert_ptr_null(record_print(&r));
    record_release(&r);
    record_init(&r);
    for (int depth = 1; depth <= 33; depth++) {
        char *text = record_print(&r);
        ck_assert_int_eq(text != NULL, depth <= 32);
        mem_free(text);
        inner = r;
        record_init(&r);
        record_set_record(&r, "inner", &inner);
        record_release(&inner);
    }
    record_release(&r);
}
END_TEST

START_TEST(control_characters_are_escaped)
{
    struct record r, again;
    record_init(&r);
    record_set_text(&r, "key", "a\nb\x01\x1f\x7f");
    char *text = record_print(&r);
    ck_assert_str_eq(text, "{\"key\":\"a\\nb\\u0001\\u001f\x7f\"}");
    ck_assert_int_eq(record_read(text, strlen(text), &again, NULL), OK);
    ck_assert(record_is_equal(&r, &again));
    record_release(&again);
    record_release(&r);
    mem_free(text);
}
END_TEST

static const char *const refused[] = {
    "",
    "[]",
    "1",
    "{\"a\":1.5}",
    "{\"a\":1,\"a\":2}",
    "{\"b\":1,\"a\":2}",
    "{\"a\": 1}",
    "{\"a\":1} ",
    "{\"a\":\"\\u0041\"}",
    "{\"a\":\"\\u000a\"}",
    "{\"a\":\"\\u001F\"}",
    "{\"a\":9007199254740993}",
    "{\"a\":1e2}",
    "{\"\\u0001\":1}",
    "{\"a\":\"x\\u0000y\"}",
};

START_TEST(reading_refuses_all_else)
{
    struct record r;
    struct why why = {0};
    ck_assert_int_eq(record_read(refused[_i], strlen(refused[_i]), &r, &why), STATUS_BAD_FILE);
    ck_assert_ptr_null(r.json);
    ck_assert_uint_gt(strlen(why.text), 0);
}
END_TEST

START_TEST(loose_reading_takes_order_and_spaces)
{
    static const char text[] = " { \"b\" : 1,\n \"a\" : \"A\" } ";
    struct record r;
    ck_assert_int_eq(record_read_loose(text, sizeof text - 1, &r, NULL), OK);
    char *printed = record_print(&r);
    ck_assert_str_eq(printed, "{\"a\":\"A\",\"b\":1}");
    mem_free(printed);
    record_release(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, prints_the_canonical_form_and_reads_it_back);
    tcase_add_test(tcase, what_has_no_canonical_form_fails);
    tcase_add_test(tcase, control_characters_are_escaped);
    tcase_add_loop_test(tcase, reading_refuses_all_else, 0, (int)ARRAY_LEN(refused));
    tcase_add_test(tcase, loose_reading_takes_order_and_spaces);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
