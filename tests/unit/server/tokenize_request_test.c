/* tokenize_request_test.c: the bodies of /tokenize and /detokenize, and their answers. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/json_memory.h"
#include "server/tokenize_reply.h"
#include "server/tokenize_request.h"
#include "tests/support/suite_run.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

START_TEST(good_bodies)
{
    struct tokenize_request *t;
    ck_assert_int_eq(tokenize_request_parse(slice_of("{\"prompt\":\"hi\"}"), &t, NULL), OK);
    ck_assert(t->prompt.len == 2 && t->mode.add_special && t->mode.parse_special && t->model.bytes == NULL);
    tokenize_request_free(&t);
    ck_assert_int_eq(tokenize_request_parse(slice_of("{\"prompt\":\"\",\"add_special_tokens\":false,\"parse_special\":"
                                                     "false,\"model\":\"m\"}"), &t, NULL), OK);
    ck_assert(t->prompt.bytes != NULL && t->prompt.len == 0 && !t->mode.add_special && !t->mode.parse_special);
    tokenize_request_free(&t);
    struct detokenize_request *d;
    ck_assert_int_eq(detokenize_request_parse(slice_of("{\"tokens\":[7,0]}"), &d, NULL), OK);
    ck_assert(d->n_tokens == 2 && d->tokens[0] == 7);
    detokenize_request_free(&d);
    ck_assert_int_eq(detokenize_request_parse(slice_of("{\"tokens\":[]}"), &d, NULL), OK);
    ck_assert(d->n_tokens == 0 && d->tokens == NULL);
    detokenize_request_free(&d);
}
END_TEST

static const struct {
    const char *body, *field, *text;
} refused[] = {
    {"{}", "prompt", "absent"},
    {"{\"prompt\":[1]}", "prompt", "an array of 1 is not a string"},
    {"{\"prompt\":\"a\",\"add_special_tokens\":1}", "add_special_tokens", "1 is not true or false"},
    {"{\"prompt\":\"a\",\"content\":\"b\"}", "content", "no such field"},
    {"[\"a\"]", "", "no object"},
    {"{\"tokens\":[1]}", "tokens", "no such field"},
}, refused_back[] = {
    {"{}", "tokens", "absent"},
    {"{\"tokens\":null}", "tokens", "absent"},
    {"{\"tokens\":\"1\"}", "tokens", "\"1\" is not an array"},
    {"{\"tokens\":[1,-2]}", "tokens", "tokens[1]: -2 is not a token id"},
    {"{\"tokens\":[99999999999999999999]}", "tokens", "over 64 bits"},
    {"{\"prompt\":\"a\"}", "prompt", "no such field"},
};

START_TEST(bad_bodies)
{
    struct tokenize_request *t;
    struct why why = {.text = ""};
    ck_assert_int_eq(tokenize_request_parse(slice_of(refused[_i].body), &t, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, refused[_i].field);
    ck_assert_msg(strstr(why.text, refused[_i].text) != NULL, "said: %s", why.text);
    struct detokenize_request *d;
    ck_assert_int_eq(detokenize_request_parse(slice_of(refused_back[_i].body), &d, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, refused_back[_i].field);
    ck_assert_msg(strstr(why.text, refused_back[_i].text) != NULL, "said: %s", why.text);
}
END_TEST

static void assert_json(enum status s, char *json, size_t len, const char *expected)
{
    ck_assert_int_eq(s, OK);
    ck_assert_str_eq(json, expected);
    ck_assert_uint_eq(len, strlen(expected));
    mem_free(json);
}

START_TEST(answers)
{
    char *json;
    size_t len;
    enum status s = tokenize_reply((uint32_t[]){1, 4294967295}, 2, 8192, &json, &len);
    assert_json(s, json, len, "{\"tokens\":[1,4294967295],\"count\":2,\"max_model_len\":8192}");
    s = tokenize_reply(NULL, 0, 8192, &json, &len);
    assert_json(s, json, len, "{\"tokens\":[],\"count\":0,\"max_model_len\":8192}");
    s = detokenize_reply((struct slice){"a\"\n\xc3\xa9\xff", 6}, &json, &len);
    assert_json(s, json, len, "{\"prompt\":\"a\\\"\\n\xc3\xa9\xef\xbf\xbd\"}");
    s = detokenize_reply((struct slice){NULL, 0}, &json, &len);
    assert_json(s, json, len, "{\"prompt\":\"\"}");
}
END_TEST

static enum status all_of_it(void)
{
    struct tokenize_request *t;
    struct detokenize_request *d = NULL;
    char *json = NULL;
    size_t len;
    enum status s = tokenize_request_parse(slice_of("{\"prompt\":\"hi\"}"), &t, NULL);
    tokenize_request_free(&t);
    if (s == OK)
        s = detokenize_request_parse(slice_of("{\"tokens\":[7,0]}"), &d, NULL);
    if (s == OK)
        s = tokenize_reply(d->tokens, d->n_tokens, 1, &json, &len);
    detokenize_request_free(&d);
    mem_free(json);
    json = NULL;
    if (s == OK)
        s = detokenize_reply((struct slice){"\xff text", 6}, &json, &len);
    mem_free(json);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    uint64_t n = 0;
    for (bool struck = true; struck;) {
        mem_fail_nth(++n);
        enum status s = all_of_it();
        struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
    }
    ck_assert_uint_gt(n, 20);
}
END_TEST

int main(void)
{
    json_memory_install();
    Suite *suite = suite_create("tokenize_request");
    TCase *tcase = tcase_create("tokenize_request");
    tcase_add_test(tcase, good_bodies);
    tcase_add_loop_test(tcase, bad_bodies, 0, (int)ARRAY_LEN(refused));
    tcase_add_test(tcase, answers);
    tcase_add_test(tcase, every_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
