/* evaluation_set_test.c: the file format, its refusals, and the set that ships. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_set.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

#define LINE(slice, prompt, continuation)                                                          \
    "{\"slice\":\"" slice "\",\"prompt\":\"" prompt "\",\"continuation\":\"" continuation "\"}"

static enum status parse(const char *text, struct evaluation_set **ret_set, struct why *ret_why)
{
    return evaluation_set_parse((struct slice){text, strlen(text)}, ret_set, ret_why);
}

START_TEST(a_set_is_read)
{
    static const char text[] = LINE("prose", "a\\n", "\\u20ac") "\n" LINE(
        "code", "b", "c") "\n" LINE("prose", "a\\n", "d");
    struct evaluation_set *set = NULL;
    struct why why = {0};
    uint8_t hash[SHA256_BYTES];
    ck_assert_msg(parse(text, &set, &why) == OK, "%s", why.text);
    ck_assert_uint_eq(set->n_items, 3);
    ck_assert_uint_eq(set->n_slices, 2);
    ck_assert_str_eq(set->slices[0], "code");
    ck_assert_str_eq(set->slices[set->items[0].slice], "prose");
    ck_assert_str_eq(set->slices[set->items[1].slice], "code");
    ck_assert_str_eq(set->items[0].prompt, "a\n");
    ck_assert_str_eq(set->items[0].continuation, "\u20ac");
    ck_assert_int_eq(sha256_of(text, sizeof text - 1, hash), OK);
    ck_assert_mem_eq(set->hash, hash, SHA256_BYTES);
    evaluation_set_free(&set);
    ck_assert_ptr_null(set);
}
END_TEST

static const struct {
    const char *text, *says;
} refusals[] = {
    {"", "has no line"},
    {"\n", "line 1 of the evaluation set is not JSON"},
    {LINE("a", "b", "c") "\n\n", "line 2 of the evaluation set is not JSON"},
    {LINE("a", "b", "c") "\n[]\n", "line 2 is []: an object is needed"},
    {"{\"slice\":\"a\",\"prompt\":\"b\"}", "line 1: continuation is missing: a text of 1 to"},
    {LINE("a", "", "c"), "line 1: prompt is \"\": a text of 1 to"},
    {LINE("a", "b", ""), "line 1: continuation is \"\""},
    {LINE("A b", "b", "c"), "line 1: slice is \"A b\": a slice's name is"},
    {LINE("a", "b", "c\",\"weight\":\"1"), "line 1: weight is unknown: there are slice, prompt"},
    {"{\"slice\":1,\"prompt\":\"b\",\"continuation\":\"c\"}", "line 1: slice is 1: a text"},
    {LINE("a", "b", "c") "\n" LINE("b", "x", "y") "\n" LINE("c", "b", "c"),
     "line 3 is line 1 again"},
    {LINE("a", "b", "\xff"), "not JSON"},
};

START_TEST(refusals_name_line_field_and_what_is_right)
{
    struct evaluation_set *set = NULL;
    struct why why = {0};
    ck_assert_int_eq(parse(refusals[_i].text, &set, &why), STATUS_BAD_REQUEST);
    ck_assert_ptr_null(set);
    ck_assert_msg(strstr(why.text, refusals[_i].says) != NULL, "'%s' is not in '%s'",
                  refusals[_i].says, why.text);
}
END_TEST

START_TEST(slices_are_bounded)
{
    char text[8192];
    size_t len = 0;
    struct evaluation_set *set = NULL;
    struct why why = {0};
    for (int i = 0; i <= QUALITY_SLICES_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, LINE("s%d", "p%d", "c") "\n", i, i);
        enum status s = parse(text, &set, &why);
        ck_assert_int_eq(s, i < QUALITY_SLICES_MAX ? OK : STATUS_BAD_REQUEST);
        evaluation_set_free(&set);
    }
    ck_assert_ptr_nonnull(strstr(why.text, "line 33"));
}
END_TEST

static size_t words_of(const char *text)
{
    size_t n = 0;
    for (const char *p = text; *p != '\0'; p++)
        n += p[0] != ' ' && (p == text || p[-1] == ' ');
    return n;
}

/* Enough scored words in each slice, so that the quality gate speaks whatever the tokenizer. */
START_TEST(the_set_that_ships_is_whole)
{
    struct evaluation_set *set = NULL;
    struct why why = {0};
    enum status s =
        evaluation_set_read_file(TEST_SOURCE "/deploy/evaluation_small.jsonl", &set, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    size_t words[QUALITY_SLICES_MAX] = {0};
    for (uint32_t i = 0; i < set->n_items; i++)
        words[set->items[i].slice] += words_of(set->items[i].continuation);
    ck_assert_uint_ge(set->n_slices, 5);
    for (uint32_t i = 0; i < set->n_slices; i++)
        ck_assert_msg(words[i] >= 24, "slice %s has %zu words to score", set->slices[i], words[i]);
    evaluation_set_free(&set);
    ck_assert_int_eq(evaluation_set_read_file("/nowhere/set.jsonl", &set, &why), STATUS_IO);
}
END_TEST

/* Every allocation fails once: a clean refusal, nothing kept. */
START_TEST(memory_that_cannot_be_had)
{
    struct evaluation_set *set = NULL;
    struct why why = {0};
    for (uint64_t n = 1; n < 100; n++) {
        mem_fail_nth(n);
        enum status s = parse(LINE("a", "b", "c"), &set, &why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        evaluation_set_free(&set);
        if (!has_struck) {
            ck_assert_int_eq(s, OK);
            ck_assert_uint_gt(n, 3);
            return;
        }
        ck_assert_int_eq(s, STATUS_NO_MEMORY);
    }
    ck_abort();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluation_set");
    TCase *tc = tcase_create("evaluation_set");
    tcase_add_test(tc, a_set_is_read);
    tcase_add_loop_test(tc, refusals_name_line_field_and_what_is_right, 0,
                        (int)ARRAY_LEN(refusals));
    tcase_add_test(tc, slices_are_bounded);
    tcase_add_test(tc, the_set_that_ships_is_whole);
    tcase_add_test(tc, memory_that_cannot_be_had);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
