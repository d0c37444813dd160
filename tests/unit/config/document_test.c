/* document_test.c: what the strict reader takes, and the words in which it refuses the rest. */
// SPDX-License-Identifier: Apache-2.0
#include "config/document.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct slice text_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static struct document *parsed(const char *text)
{
    struct document *document = NULL;
    struct why why = {0};
    ck_assert_msg(document_parse(text_of(text), "it", &document, &why) == OK, "%s", why.text);
    return document;
}

START_TEST(values_are_read)
{
    struct document *document = parsed("{\"a\":[1,\"two\",true],\"h\":"
                                       "\"000102030405060708090a0b0c0d0e0f"
                                       "101112131415161718191a1b1c1d1eff\"}");
    const struct document_value *root = document_root(document), *a = document_find(root, "a");
    const struct document_value *value;
    uint64_t number;
    const char *text;
    bool is_true = false;
    uint8_t hash[32];
    ck_assert_int_eq(document_object(root, "it", NULL), OK);
    ck_assert_int_eq(document_array(a, "a", 3, 3, NULL), OK);
    ck_assert_int_eq(document_number(document_at(a, 0), "a[0]", 1, 1, &number, NULL), OK);
    ck_assert_uint_eq(number, 1);
    ck_assert_int_eq(document_text(document_at(a, 1), "a[1]", 1, 3, &text, NULL), OK);
    ck_assert_str_eq(text, "two");
    ck_assert_int_eq(document_bool(document_at(a, 2), "a[2]", &is_true, NULL), OK);
    ck_assert(is_true);
    ck_assert_int_eq(document_hash(document_find(root, "h"), "h", hash, NULL), OK);
    ck_assert_uint_eq(hash[1], 1);
    ck_assert_uint_eq(hash[31], 255);
    ck_assert_str_eq(document_member(root, 1, &value), "h");
    ck_assert(value == document_find(root, "h"));
    ck_assert_ptr_null(document_member(root, 2, &value));
    document_free(&document);
}
END_TEST

START_TEST(refusals_name_field_value_and_what_is_right)
{
    struct document *document =
        parsed("{\"n\":12000,\"t\":\"a text that is much longer than what a refusal shows of it, "
               "and goes on and on\",\"r\":1.5,\"neg\":-1}");
    const struct document_value *root = document_root(document);
    struct why why = {0};
    uint64_t number;
    const char *text;
    ck_assert_int_eq(
        document_number(document_find(root, "n"), "steps[0].n", 1, 9500, &number, &why),
        STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "steps[0].n is 12000: a whole number from 1 to 9500 is needed");
    ck_assert_str_eq(why.field, "steps[0].n");
    ck_assert_int_ne(document_number(document_find(root, "r"), "r", 0, 9, &number, &why), OK);
    ck_assert_int_ne(document_number(document_find(root, "neg"), "neg", 0, 9, &number, &why), OK);
    ck_assert_int_ne(document_number(document_find(root, "x"), "x", 0, 9, &number, &why), OK);
    ck_assert_str_eq(why.text, "x is missing: a whole number from 0 to 9 is needed");
    ck_assert_int_ne(document_text(document_find(root, "t"), "t", 1, 9, &text, &why), OK);
    ck_assert_ptr_nonnull(strstr(why.text, "...: a text of 1 to 9 bytes is needed"));
    ck_assert_int_ne(document_known(root, "", (const char *const[]){"n", "t", "r"}, 3, &why), OK);
    ck_assert_str_eq(why.text, "neg is unknown: there are n, t, r");
    document_free(&document);
}
END_TEST

START_TEST(what_is_not_strict_json_is_refused)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{\"a\":1,\"a\":2}",
                                      "{} {}",
                                      "{\"a\":}",
                                      "[1,]",
                                      "{\"a\":\"\\u0000\"}",
                                      "'a'",
                                      "nan",
                                      "[01]",
                                      "\"\xff\"",
                                      "{a:1}"};
    struct document *document = NULL;
    struct why why = {0};
    ck_assert_int_eq(document_parse(text_of(bad[_i]), "it", &document, &why), STATUS_BAD_REQUEST);
    ck_assert_ptr_null(document);
    ck_assert_ptr_nonnull(strstr(why.text, "it is not JSON"));
}
END_TEST

START_TEST(depth_is_bounded)
{
    char text[128];
    struct document *document = NULL;
    struct why why = {0};
    memset(text, '[', 33);
    memset(text + 33, ']', 33);
    ck_assert_int_eq(document_parse((struct slice){text, 66}, "it", &document, &why),
                     STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(why.text, "deeper than 32"));
    ck_assert_int_eq(document_parse((struct slice){text + 1, 64}, "it", &document, &why), OK);
    document_free(&document);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("document");
    TCase *tc = tcase_create("document");
    tcase_add_test(tc, values_are_read);
    tcase_add_test(tc, refusals_name_field_value_and_what_is_right);
    tcase_add_loop_test(tc, what_is_not_strict_json_is_refused, 0, 12);
    tcase_add_test(tc, depth_is_bounded);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
