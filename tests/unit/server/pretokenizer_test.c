/* pretokenizer_test.c: the words of each pattern, at the places where patterns are easily wrong. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/pretokenizer.h"
#include "tests/support/suite_run.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* words: what the text is cut into, each followed by a bar. */
static const struct {
    const char *pre, *text, *words;
} rows[] = {
    {"smollm", "", ""},
    {"smollm", "Hello world", "Hello| world|"},
    {"smollm", "I'll don't HE'LL", "I|'ll| don|'t| HE|'|LL|"},
    {"smollm", "x12 34", "x|1|2| |3|4|"},
    {"smollm", "a   1", "a|   |1|"},
    {"smollm", "a   b", "a|  | b|"},
    {"smollm", "a\n\nb", "a|\n|\n|b|"},
    {"smollm", "a \n 1", "a| \n |1|"},
    {"smollm", "end  ", "end|  |"},
    {"smollm", "a;; -- b", "a|;;| --| b|"},
    {"smollm", "\xc2\xbd\xc2\xb2" "a", "\xc2\xbd|\xc2\xb2|a|"},              /* numerals that are no digits */
    {"smollm", "e\xcc\x81" "e", "e|\xcc\x81|e|"},                            /* a mark is neither letter nor space */
    {"smollm", "a\xc2\xa0\xe3\x80\x80z", "a|\xc2\xa0|\xe3\x80\x80|z|"},        /* white space beyond ASCII */
    {"smollm", "a\xc2\x85 b", "a|\xc2\x85| b|"},
    {"smollm", "a\xe1\xa0\x8e" "b", "a|\xe1\xa0\x8e|b|"},                    /* U+180E is no white space since Unicode 6.3 */
    {"smollm", "a\xe2\x80\x8b" "b", "a|\xe2\x80\x8b|b|"},
    {"gpt-2", "x12 34", "x|12| 34|"},
    {"gpt-2", "a   1", "a|  | 1|"},
    {"gpt-2", "a   b ", "a|  | b| |"},
    {"exaone4", "x12 34", "x|12| 34|"},
    {"exaone", "x12 34", "x|1|2| |3|4|"},
    {"starcoder", "x12 34", "x|1|2| |3|4|"},
    {"refact", "a   1", "a|   |1|"},
    {"qwen2", "", ""},
    {"qwen2", "Hello world", "Hello| world|"},
    {"qwen2", "I'll HE'LL it's'D", "I|'ll| HE|'LL| it|'s|'D|"},
    {"qwen2", "x12 34", "x|1|2| |3|4|"},
    {"qwen2", "a   1", "a|  | |1|"},
    {"qwen2", "a   b", "a|  | b|"},
    {"qwen2", "a\n\nb", "a|\n\n|b|"},
    {"qwen2", "a  \n \r\n  b", "a|  \n \r\n| | b|"},
    {"qwen2", "a \n 1", "a| \n| |1|"},
    {"qwen2", "end  ", "end|  |"},
    {"qwen2", "end \n", "end| \n|"},
    {"qwen2", "f(x);\n\n y", "f|(x|);\n\n| y|"},
    {"qwen2", "a\tb -- c", "a|\tb| --| c|"},
    {"qwen2", "a\xc2\xa0z", "a|\xc2\xa0z|"},                                  /* one sign before letters is of their word */
    {"qwen2", "a\xe2\x80\xa8\n", "a|\xe2\x80\xa8\n|"},                        /* U+2028 is white space, but ends no line */
    {"deepseek-r1-qwen", "x12", "x|1|2|"},
    {"megrez", "x12", "x|1|2|"},
    {"llama-bpe", "x1234567 89", "x|123|456|7| |89|"},
    {"llama-bpe", "I'LL\n\n  y", "I|'LL|\n\n| | y|"},
    {"llama3", "1234", "123|4|"},
    {"llama-v3", "1234", "123|4|"},
    {"falcon3", "1234", "123|4|"},
};

START_TEST(words_of_each_pattern)
{
    struct pretokenizer *pretokenizer;
    struct word_walk *walk;
    struct why why = {.text = ""};
    ck_assert_int_eq(pretokenizer_new(slice_of(rows[_i].pre), &pretokenizer, &why), OK);
    ck_assert_int_eq(word_walk_new(pretokenizer, &walk), OK);
    for (int again = 0; again < 2; again++) {
        char words[128] = "";
        struct slice word;
        word_walk_start(walk, slice_of(rows[_i].text));
        for (size_t len = 0;; len += word.len + 1) {
            ck_assert_int_eq(word_walk_next(walk, &word), OK);
            if (word.len == 0)
                break;
            snprintf(words + len, sizeof words - len, "%.*s|", (int)word.len, word.bytes);
        }
        ck_assert_str_eq(words, rows[_i].words);
    }
    word_walk_free(&walk);
    pretokenizer_free(&pretokenizer);
}
END_TEST

START_TEST(an_unknown_name_is_refused_with_the_list)
{
    struct pretokenizer *pretokenizer;
    struct why why;
    ck_assert_int_eq(pretokenizer_new(slice_of("tekken"), &pretokenizer, &why), STATUS_BAD_FILE);
    ck_assert_ptr_null(pretokenizer);
    ck_assert_str_eq(why.field, "tokenizer.ggml.pre");
    ck_assert_str_eq(why.text, "key \"tokenizer.ggml.pre\": 'tekken' is not served; served are smollm, starcoder, refact, exaone, gpt-2, gpt2, "
                      "exaone4, qwen2, deepseek-r1-qwen, megrez, llama-bpe, llama3, llama-v3, falcon3");
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    for (uint64_t n = 1;; n++) {
        struct pretokenizer *pretokenizer = NULL;
        struct word_walk *walk = NULL;
        struct slice word = {.len = 0};
        mem_fail_nth(n);
        enum status s = pretokenizer_new(slice_of("smollm"), &pretokenizer, NULL);
        if (s == OK)
            s = word_walk_new(pretokenizer, &walk);
        if (s == OK) {
            word_walk_start(walk, slice_of("hello there"));
            s = word_walk_next(walk, &word);
        }
        bool struck = mem_failure_struck();
        mem_fail_nth(0);
        word_walk_free(&walk);
        pretokenizer_free(&pretokenizer);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        if (!struck) {
            ck_assert_uint_gt(n, 4);
            break;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretokenizer");
    TCase *tcase = tcase_create("pretokenizer");
    tcase_add_loop_test(tcase, words_of_each_pattern, 0, (int)ARRAY_LEN(rows));
    tcase_add_test(tcase, an_unknown_name_is_refused_with_the_list);
    tcase_add_test(tcase, every_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
