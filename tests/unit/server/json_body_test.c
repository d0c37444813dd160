/* json_body_test.c: what passes the gate to JSON and what does not. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/json_body.h"
#include "server/json_memory.h"
#include "tests/support/suite_run.h"

static const struct {
    const char *body, *field, *text; /* text NULL: it passes */
} rows[] = {
    {"{}", "", NULL},
    {" {\"a\":{\"b\":[1,2,{}]},\"c\":\"\\u00e9\\n\"} ", "", NULL},
    {"{\"a\":9223372036854775807,\"b\":-9223372036854775808}", "", NULL},
    {"{\"seed\":9223372036854775808}", "", NULL},
    {"{\"seed\":18446744073709551615}", "", NULL},
    {"{\"a\":\"9999999999999999999999 [[[[ \\\" {\"}", "", NULL},
    {"{\"a\":99999999999999999999.5}", "", NULL},
    {"", "", "not JSON"},
    {"  ", "", "not JSON"},
    {"[1]", "", "no object"},
    {"3", "", "no object"},
    {"null", "", "no object"},
    {"{\"a\":1,\"a\":2}", "", "duplicate object key"},
    {"{\"x\":{\"a\":1,\"a\":2}}", "", "duplicate object key"},
    {"{\"a\":1} x", "", "end of file expected"},
    {"{\"a\":1", "", "line 1, column 6"},
    {"{\"a\":\n\n  tru}", "", "line 3"},
    {"{'a':1}", "", "not JSON"},
    {"{\"a\":01}", "", "not JSON"},
    {"{\"a\":NaN}", "", "not JSON"},
    {"{\"a\":1e999}", "", "real number overflow"},
    {"{\"a\":\"\\u0000\"}", "", "no text here may hold a NUL"},
    {"{\"a\":\"\\ud800\"}", "", "invalid Unicode"},
    {"{\"a\":\"\xff\"}", "", "decode byte 0xff"},
    {"{\"a\":\"\xed\xa0\x80\"}", "", "decode byte"},
    {"{\"a\":\"\xc0\x80\"}", "", "decode byte"},
    {"{\"a\":18446744073709551615}", "a", "a: 18446744073709551615 is over 64 bits"},
    {"{\"seed\":18446744073709551616}", "seed", "seed: 18446744073709551616 is over 64 bits"},
    {"{\"seed\":-9223372036854775809}", "seed", "seed: -9223372036854775809 is over 64 bits"},
    {"{\"x\":[{\"seed\":18446744073709551615}]}", "x", "x: 18446744073709551615 is over 64 bits"},
    {"{\"max_tokens\":99999999999999999999999999999999999999999999}", "max_tokens", "over 64 bits"},
    {"{\"a\":\"\\", "", "not JSON"},
};

START_TEST(bodies)
{
    struct json_body body;
    struct why why = {.text = ""};
    enum status s = json_body_parse((struct slice){rows[_i].body, strlen(rows[_i].body)}, "seed", &body, &why);
    ck_assert_int_eq(s, rows[_i].text == NULL ? OK : STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, rows[_i].field);
    if (rows[_i].text != NULL)
        ck_assert_msg(strstr(why.text, rows[_i].text) != NULL, "said: %s", why.text);
    ck_assert((body.root != NULL) == (s == OK));
    json_decref(body.root);
}
END_TEST

START_TEST(the_big_seed_is_read_and_the_rest_kept)
{
    static const char text[] = "{\"x\":[1,2],\"seed\" : 18446744073709551615 ,\"y\":\"z\"}";
    struct json_body body;
    ck_assert_int_eq(json_body_parse((struct slice){text, sizeof text - 1}, "seed", &body, NULL), OK);
    ck_assert_uint_eq(body.big.value, UINT64_MAX);
    ck_assert_int_eq(json_integer_value(json_object_get(body.root, "seed")), 0);
    ck_assert_str_eq(json_string_value(json_object_get(body.root, "y")), "z");
    json_decref(body.root);
}
END_TEST

/* depth levels, the top one an object. */
static enum status nested(size_t depth, char open, struct why *why)
{
    char text[512] = "{\"a\":";
    size_t len = 5;
    for (size_t i = 1; i < depth; i++) {
        text[len++] = open;
        if (open == '{' && i + 1 < depth)
            len += (size_t)snprintf(text + len, 5, "\"a\":");
    }
    for (size_t i = 1; i < depth; i++)
        text[len++] = open == '{' ? '}' : ']';
    text[len++] = '}';
    struct json_body body;
    enum status s = json_body_parse((struct slice){text, len}, NULL, &body, why);
    json_decref(body.root);
    return s;
}

START_TEST(depth_is_64)
{
    struct why why = {.text = ""};
    ck_assert_int_eq(nested(JSON_DEPTH_MAX, '[', &why), OK);
    ck_assert_int_eq(nested(JSON_DEPTH_MAX, '{', &why), OK);
    ck_assert_int_eq(nested(JSON_DEPTH_MAX + 1, '[', &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, "a");
    ck_assert_ptr_nonnull(strstr(why.text, "nested deeper than 64 levels"));
    ck_assert_int_eq(nested(JSON_DEPTH_MAX + 1, '{', &why), STATUS_BAD_REQUEST);
}
END_TEST

START_TEST(a_million_brackets_are_refused_unparsed)
{
    enum { LEN = 1 << 20 };
    char *text = mem_alloc(LEN);
    ck_assert_ptr_nonnull(text);
    memset(text, '[', LEN);
    struct json_body body;
    uint64_t calls = mem_calls();
    ck_assert_int_eq(json_body_parse((struct slice){text, LEN}, NULL, &body, NULL), STATUS_BAD_REQUEST);
    ck_assert_uint_eq(mem_calls(), calls);
    mem_free(text);
}
END_TEST

START_TEST(a_nul_is_refused)
{
    struct json_body body;
    struct why why;
    ck_assert_int_eq(json_body_parse((struct slice){"{\"a\":1}\0", 8}, NULL, &body, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "the body has a NUL at byte 7");
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char text[700] = "{\"prompt\":\"", tail[] = "\",\"ids\":[1,2,3],\"x\":{\"y\":1.5}}";
    size_t at = strlen(text);
    memset(text + at, 'p', 500); /* long enough for the token buffer to grow several times */
    memcpy(text + at + 500, tail, sizeof tail);
    uint64_t n = 0;
    for (bool struck = true; struck;) {
        struct json_body body;
        struct why why = {.text = ""};
        mem_fail_nth(++n);
        enum status s = json_body_parse((struct slice){text, strlen(text)}, NULL, &body, &why);
        struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        ck_assert(struck == (why.text[0] != '\0'));
        json_decref(body.root);
    }
    ck_assert_uint_gt(n, 20);
}
END_TEST

int main(void)
{
    json_memory_install();
    Suite *suite = suite_create("json_body");
    TCase *tcase = tcase_create("json_body");
    tcase_add_loop_test(tcase, bodies, 0, (int)ARRAY_LEN(rows));
    tcase_add_test(tcase, the_big_seed_is_read_and_the_rest_kept);
    tcase_add_test(tcase, depth_is_64);
    tcase_add_test(tcase, a_million_brackets_are_refused_unparsed);
    tcase_add_test(tcase, a_nul_is_refused);
    tcase_add_test(tcase, every_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
