/* completion_reply_test.c: the bytes of objects, chunks, scores and errors. */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_reply.h"

#include <jansson.h>
#include <math.h>

#include "config/mem.h"
#include "server/error_reply.h"
#include "server/json_memory.h"
#include "server/token_scores.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

static const struct reply_head head = {.id = "cmpl-1", .model = "m\xff", .created_s = 1700000000};
static const struct reply_usage usage = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 8};
static struct tokenizer *tokenizer;

static void setup(void)
{
    static struct vocabulary_file file;
    vocabulary_file_init(&file);
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    ck_assert_int_eq(tokenizer_new(gguf, &tokenizer, NULL), OK);
    gguf_free(&gguf);
    mem_free(bytes);
}

static void teardown(void)
{
    tokenizer_free(&tokenizer);
}

#define HEAD "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"m\xef\xbf\xbd\",\"choices\":["
#define USAGE                                                                                                          \
    "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,\"total_tokens\":13,"                                     \
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}"

static void assert_json(enum status s, char *json, size_t len, const char *expected)
{
    ck_assert_int_eq(s, OK);
    ck_assert_str_eq(json, expected);
    ck_assert_uint_eq(len, strlen(expected));
    mem_free(json);
}

START_TEST(whole_answers)
{
    char *json;
    size_t len;
    struct reply_choice choice = {.text = {"a\"b\n", 4}, .finish_reason = FINISH_STOP};
    enum status s = completion_reply_whole(&head, &choice, &usage, &json, &len);
    assert_json(s, json, len, HEAD "{\"text\":\"a\\\"b\\n\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"stop\"}]," USAGE "}");
    choice = (struct reply_choice){.text = {NULL, 0}, .finish_reason = FINISH_LENGTH};
    s = completion_reply_whole(&head, &choice, &usage, &json, &len);
    assert_json(s, json, len, HEAD "{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE "}");
}
END_TEST

START_TEST(chunks)
{
    char *json;
    size_t len;
    struct reply_choice choice = {.text = {"x", 1}, .finish_reason = FINISH_NONE};
    static const char part[] = HEAD "{\"text\":\"x\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]";
    char expected[512];
    enum status s = completion_reply_chunk(&head, &choice, NULL, false, &json, &len);
    snprintf(expected, sizeof expected, "%s}", part);
    assert_json(s, json, len, expected);
    s = completion_reply_chunk(&head, &choice, NULL, true, &json, &len);
    snprintf(expected, sizeof expected, "%s,\"usage\":null}", part);
    assert_json(s, json, len, expected);
    s = completion_reply_chunk(&head, &choice, &usage, true, &json, &len);
    snprintf(expected, sizeof expected, "%s,%s}", part, USAGE);
    assert_json(s, json, len, expected);
    s = completion_reply_chunk(&head, NULL, &usage, true, &json, &len);
    assert_json(s, json, len, HEAD "]," USAGE "}");
}
END_TEST

static struct token_output output_of(uint32_t id, bool is_prompt, float logprob, uint32_t n_top, uint32_t first_top)
{
    struct token_output output = {.id = id, .is_prompt = is_prompt, .has_logprob = !isnan(logprob), .logprob = logprob,
                                  .n_top = n_top};
    for (uint32_t i = 0; i < n_top; i++)
        output.top[i] = (struct token_logprob){.id = first_top + i, .logprob = -0.125f * (float)(i + 1)};
    return output;
}

static void assert_scores(struct token_scores *scores, const char *expected)
{
    json_t *object;
    ck_assert_int_eq(token_scores_take(scores, &object), OK);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    ck_assert_str_eq(text, expected);
    mem_free(text);
    json_decref(object);
}

static void add(struct token_scores *scores, struct token_output output)
{
    ck_assert_int_eq(token_scores_add(scores, &output), OK);
}

START_TEST(scores_in_the_old_shape)
{
    struct token_scores *scores;
    ck_assert_int_eq(token_scores_new(tokenizer, (struct token_scores_start){0}, &scores), OK);
    add(scores, output_of(VF_HELLO, true, NAN, 0, 0)); /* the first of a prompt: nothing predicted it */
    add(scores, output_of(0xc3, false, -0.5f, 2, 'a')); /* half a character */
    ck_assert_uint_eq(token_scores_pending(scores), 2);
    assert_scores(scores, "{\"tokens\":[\"hello\",\"bytes:\\\\xc3\"],\"token_logprobs\":[null,-0.5],"
                          "\"top_logprobs\":[null,{\"a\":-0.125,\"b\":-0.25,\"bytes:\\\\xc3\":-0.5}],\"text_offset\":[0,5]}");
    ck_assert_uint_eq(token_scores_pending(scores), 0);
    add(scores, output_of(0xa9, false, -1.0f, 0, 0)); /* the other half: one character in all */
    add(scores, output_of('z', false, -0.125f, 1, 'z'));
    add(scores, output_of(0xff, false, -INFINITY, 0, 0));
    add(scores, output_of(VF_IM_START, false, -3.0f, 0, 0)); /* a control token gives no text */
    add(scores, output_of('!', false, -0.0289344788f, 0, 0));
    assert_scores(scores, "{\"tokens\":[\"bytes:\\\\xa9\",\"z\",\"bytes:\\\\xff\",\"<|im_start|>\",\"!\"],"
                          "\"token_logprobs\":[-1.0,-0.125,-3.40282347e38,-3.0,-0.0289344788],"
                          "\"top_logprobs\":[{\"bytes:\\\\xa9\":-1.0},{\"z\":-0.125},{\"bytes:\\\\xff\":-3.40282347e38},"
                          "{\"<|im_start|>\":-3.0},{\"!\":-0.0289344788}],\"text_offset\":[5,6,7,8,8]}");
    assert_scores(scores, "{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[]}");
    token_scores_free(&scores);
}
END_TEST

START_TEST(a_nul_token_is_text)
{
    struct token_scores *scores;
    ck_assert_int_eq(token_scores_new(tokenizer, (struct token_scores_start){.offset = 3}, &scores), OK);
    add(scores, output_of(0, false, -1.0f, 0, 0));
    assert_scores(scores, "{\"tokens\":[\"\\u0000\"],\"token_logprobs\":[-1.0],\"top_logprobs\":[{\"\\u0000\":-1.0}],"
                          "\"text_offset\":[3]}");
    token_scores_free(&scores);
}
END_TEST

/* A prompt's BOS that the text does not have, and the space that was put before it, are not counted. */
START_TEST(offsets_are_those_of_the_text)
{
    struct vocabulary_file file;
    char *bytes;
    struct tokenizer *by_scores;
    struct token_scores *scores;
    vocabulary_file_init_spm(&file);
    file.add_space_prefix = 1;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    ck_assert_int_eq(tokenizer_new(gguf, &by_scores, NULL), OK);
    ck_assert_int_eq(token_scores_new(by_scores, (struct token_scores_start){.n_silent = 1}, &scores), OK);
    add(scores, output_of(SF_BOS, true, NAN, 0, 0));
    add(scores, output_of(SF_SPACE_HELLO, true, -1, 0, 0));
    add(scores, output_of(SF_SPACE_HELLO, false, -1, 0, 0));
    add(scores, output_of(SF_O, false, -1, 0, 0));
    assert_scores(scores, "{\"tokens\":[\"<s>\",\" hello\",\" hello\",\"o\"],\"token_logprobs\":[null,-1.0,-1.0,-1.0],"
                          "\"top_logprobs\":[null,{\" hello\":-1.0},{\" hello\":-1.0},{\"o\":-1.0}],\"text_offset\":[0,0,5,11]}");
    token_scores_free(&scores);
    tokenizer_free(&by_scores);
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

START_TEST(errors)
{
    char json[ERROR_REPLY_BYTES];
    struct why why;
    (void)why_set(&why, OK, "seed", "seed: \"x\\y\" is not an integer of 64 bits");
    size_t len = error_reply(STATUS_BAD_REQUEST, &why, json);
    ck_assert_str_eq(json, "{\"error\":{\"message\":\"seed: \\\"x\\\\y\\\" is not an integer of 64 bits\",\"type\":"
                           "\"invalid_request_error\",\"param\":\"seed\",\"code\":\"invalid_request\"}}");
    ck_assert_uint_eq(len, strlen(json));
    why.field[0] = '\0';
    (void)error_reply(STATUS_QUEUE_FULL, &why, json);
    ck_assert_ptr_nonnull(strstr(json, "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"queue_full\""));
    (void)error_reply(STATUS_NO_MEMORY, NULL, json);
    ck_assert_str_eq(json, "{\"error\":{\"message\":\"memory could not be had\",\"type\":\"server_error\",\"param\":null,"
                           "\"code\":\"out_of_memory\"}}");
}
END_TEST

START_TEST(every_error_is_json_even_the_longest)
{
    struct why why;
    memset(&why, '"', sizeof why);
    why.text[sizeof why.text - 1] = why.field[sizeof why.field - 1] = '\0';
    for (int s = OK + 1; s < STATUS_COUNT; s++) {
        char json[ERROR_REPLY_BYTES];
        size_t len = error_reply((enum status)s, &why, json);
        json_t *root = json_loadb(json, len, 0, NULL);
        const json_t *error = json_object_get(root, "error");
        ck_assert_str_eq(json_string_value(json_object_get(error, "message")), why.text);
        ck_assert_str_eq(json_string_value(json_object_get(error, "param")), why.field);
        ck_assert_str_eq(json_string_value(json_object_get(error, "code")), status_code((enum status)s));
        json_decref(root);
    }
}
END_TEST

static enum status all_of_it(void)
{
    struct token_scores *scores;
    char *json = NULL;
    size_t len;
    struct reply_choice choice = {.text = {"\xfftext", 5}, .finish_reason = FINISH_STOP};
    struct token_output output = output_of(0xc3, false, -0.5f, 2, 'a');
    enum status s = token_scores_new(tokenizer, (struct token_scores_start){0}, &scores);
    if (s == OK)
        s = token_scores_add(scores, &output);
    if (s == OK)
        s = token_scores_take(scores, &choice.scores);
    token_scores_free(&scores);
    if (s == OK)
        s = completion_reply_whole(&head, &choice, &usage, &json, &len);
    ck_assert_ptr_null(choice.scores);
    mem_free(json);
    json = NULL;
    if (s == OK)
        s = completion_reply_chunk(&head, &choice, &usage, true, &json, &len);
    ck_assert((s == OK) == (json != NULL));
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
    ck_assert_uint_gt(n, 40);
}
END_TEST

int main(void)
{
    json_memory_install();
    Suite *suite = suite_create("completion_reply");
    TCase *tcase = tcase_create("completion_reply");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, whole_answers);
    tcase_add_test(tcase, chunks);
    tcase_add_test(tcase, scores_in_the_old_shape);
    tcase_add_test(tcase, a_nul_token_is_text);
    tcase_add_test(tcase, offsets_are_those_of_the_text);
    tcase_add_test(tcase, errors);
    tcase_add_test(tcase, every_error_is_json_even_the_longest);
    tcase_add_test(tcase, every_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
