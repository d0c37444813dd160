/* completion_request_test.c: every field at and past its edges, at null and of wrong types; and what a good body becomes. */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_request.h"

#include <jansson.h>

#include "config/mem.h"
#include "server/json_memory.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { BODY_BYTES = 8192 };

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* Parses {"prompt":"p",REST}. */
static enum status parse_rest(const char *rest, struct completion_request **ret_request, struct why *why)
{
    char body[BODY_BYTES];
    snprintf(body, sizeof body, "{\"prompt\":\"p\"%s%s}", rest[0] != '\0' ? "," : "", rest);
    return completion_request_parse(slice_of(body), ret_request, why);
}

START_TEST(defaults)
{
    struct completion_request *r;
    ck_assert_int_eq(parse_rest("", &r, NULL), OK);
    ck_assert_uint_eq(r->prompt.len, 1);
    ck_assert_ptr_null(r->prompt_ids);
    ck_assert_uint_eq(r->max_tokens, 16);
    ck_assert(r->sampling.temperature == 1.0f && r->sampling.top_p == 1.0f && r->sampling.min_p == 0.0f);
    ck_assert_uint_eq(r->sampling.top_k, 0);
    ck_assert(!r->has_seed && !r->echo && !r->stream && !r->ignore_eos && !r->include_usage && !r->continuous_usage);
    ck_assert_int_eq(r->logprobs, -1);
    ck_assert_uint_eq(r->n_stops, 0);
    ck_assert(r->model.bytes == NULL && r->user.bytes == NULL && r->cache_salt.bytes == NULL);
    completion_request_free(&r);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(every_field_is_taken)
{
    static const char body[] =
        "{\"model\":\"m\",\"prompt\":[3,1,2],\"max_tokens\":0,\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.25,"
        "\"seed\":-1,\"stop\":[\"\\n\",\"END\"],\"stream\":true,\"stream_options\":{\"include_usage\":true,"
        "\"continuous_usage_stats\":true,\"other\":[]},\"logprobs\":20,\"echo\":true,\"ignore_eos\":true,"
        "\"cache_salt\":\"s\",\"user\":\"u\"}";
    struct completion_request *r;
    struct why why = {.text = ""};
    ck_assert_msg(completion_request_parse(slice_of(body), &r, &why) == OK, "%s", why.text);
    ck_assert_uint_eq(r->n_prompt_ids, 3);
    ck_assert_uint_eq(r->prompt_ids[0], 3);
    ck_assert_ptr_null(r->prompt.bytes);
    ck_assert_uint_eq(r->max_tokens, 0);
    ck_assert(r->sampling.temperature == 0.5f && r->sampling.top_p == 0.9f && r->sampling.min_p == 0.25f);
    ck_assert_uint_eq(r->sampling.top_k, 40);
    ck_assert(r->has_seed && r->sampling.seed == UINT64_MAX);
    ck_assert_uint_eq(r->n_stops, 2);
    ck_assert_mem_eq(r->stops[1].bytes, "END", 3);
    ck_assert(r->stream && r->include_usage && r->continuous_usage && r->echo && r->ignore_eos);
    ck_assert_int_eq(r->logprobs, 20);
    ck_assert(completion_request_scores_prompt(r));
    ck_assert(r->model.len == 1 && r->cache_salt.len == 1 && r->user.len == 1);
    completion_request_free(&r);
}
END_TEST

static const char *const accepted[] = {
    "\"max_tokens\":1", "\"max_tokens\":2147483647", "\"max_tokens\":0,\"echo\":true", "\"max_tokens\":null",
    "\"temperature\":0", "\"temperature\":2", "\"temperature\":2.0", "\"temperature\":null",
    "\"top_p\":1", "\"top_p\":1e-300", "\"top_p\":null", "\"min_p\":0", "\"min_p\":1", "\"top_k\":0", "\"top_k\":2147483647",
    "\"seed\":0", "\"seed\":-9223372036854775808", "\"seed\":18446744073709551615", "\"seed\":null",
    "\"stop\":null", "\"stop\":[]", "\"stop\":\"x\"", "\"stream\":false", "\"stream\":null", "\"echo\":null",
    "\"stream\":true,\"stream_options\":{\"include_usage\":null,\"chunk\":9}", "\"stream_options\":null",
    "\"stream_options\":{}", "\"stream_options\":{\"include_usage\":false}",
    "\"logprobs\":0", "\"logprobs\":20", "\"logprobs\":null", "\"user\":\"\"", "\"model\":null",
    "\"n\":1", "\"n\":1.0", "\"n\":null", "\"best_of\":1", "\"suffix\":null", "\"suffix\":\"\"", "\"presence_penalty\":0",
    "\"presence_penalty\":0.0", "\"frequency_penalty\":0", "\"repetition_penalty\":1.0", "\"logit_bias\":{}",
    "\"logit_bias\":null", "\"min_tokens\":0", "\"typical_p\":1", "\"priority\":0", "\"stop_token_ids\":[]",
    "\"return_token_ids\":false", "\"grammar\":null", "\"timeout_ms\":null", "\"max_completion_tokens\":null",
    "\"response_format\":{\"type\":\"text\"}", "\"response_format\":null", "\"store\":true", "\"metadata\":{\"a\":[1]}",
    "\"service_tier\":\"auto\"", "\"parallel_tool_calls\":true",
};

START_TEST(what_says_nothing_is_accepted)
{
    struct completion_request *r;
    struct why why = {.text = ""};
    enum status s = parse_rest(accepted[_i], &r, &why);
    ck_assert_msg(s == OK, "%s: %s", accepted[_i], why.text);
    ck_assert(r->sampling.top_p > 0);
    completion_request_free(&r);
}
END_TEST

static const struct {
    const char *rest, *field, *text;
    enum status status;
} refused[] = {
    {"\"max_tokens\":0", "max_tokens", "0 without echo", STATUS_BAD_REQUEST},
    {"\"max_tokens\":-1", "max_tokens", "max_tokens: -1 is not an integer from 0 to 2147483647", STATUS_BAD_REQUEST},
    {"\"max_tokens\":2147483648", "max_tokens", "2147483648 is not", STATUS_BAD_REQUEST},
    {"\"max_tokens\":-2147483648", "max_tokens", "-2147483648 is not", STATUS_BAD_REQUEST},
    {"\"max_tokens\":9007199254740993", "max_tokens", "9007199254740993 is not", STATUS_BAD_REQUEST},
    {"\"max_tokens\":1e308", "max_tokens", "1e+308 is not an integer", STATUS_BAD_REQUEST},
    {"\"max_tokens\":1.5", "max_tokens", "1.5 is not an integer", STATUS_BAD_REQUEST},
    {"\"max_tokens\":\"7\"", "max_tokens", "\"7\" is not an integer", STATUS_BAD_REQUEST},
    {"\"max_tokens\":true", "max_tokens", "true is not an integer", STATUS_BAD_REQUEST},
    {"\"temperature\":2.0001", "temperature", "temperature: 2.0001 is not a number from 0 to 2", STATUS_BAD_REQUEST},
    {"\"temperature\":-0.1", "temperature", "-0.1 is not", STATUS_BAD_REQUEST},
    {"\"temperature\":\"hot\"", "temperature", "\"hot\" is not a number", STATUS_BAD_REQUEST},
    {"\"temperature\":[1]", "temperature", "an array of 1 is not a number", STATUS_BAD_REQUEST},
    {"\"temperature\":1e308", "temperature", "1e+308 is not", STATUS_BAD_REQUEST},
    {"\"top_p\":0", "top_p", "top_p: 0 is not a number above 0 to 1", STATUS_BAD_REQUEST},
    {"\"top_p\":1.01", "top_p", "1.01 is not", STATUS_BAD_REQUEST},
    {"\"top_p\":false", "top_p", "false is not a number", STATUS_BAD_REQUEST},
    {"\"min_p\":-1", "min_p", "-1 is not a number from 0 to 1", STATUS_BAD_REQUEST},
    {"\"min_p\":1.5", "min_p", "1.5 is not", STATUS_BAD_REQUEST},
    {"\"top_k\":-1", "top_k", "-1 is not an integer from 0", STATUS_BAD_REQUEST},
    {"\"top_k\":4294967296", "top_k", "4294967296 is not", STATUS_BAD_REQUEST},
    {"\"seed\":1.0", "seed", "1 is not an integer of 64 bits", STATUS_BAD_REQUEST},
    {"\"seed\":\"1\"", "seed", "\"1\" is not an integer", STATUS_BAD_REQUEST},
    {"\"seed\":18446744073709551616", "seed", "over 64 bits", STATUS_BAD_REQUEST},
    {"\"stop\":\"\"", "stop", "stop: a string of 0 bytes is not one of 1 to 256", STATUS_BAD_REQUEST},
    {"\"stop\":5", "stop", "stop: 5 is not a string", STATUS_BAD_REQUEST},
    {"\"stop\":[\"a\",\"\"]", "stop[1]", "a string of 0 bytes", STATUS_BAD_REQUEST},
    {"\"stop\":[\"a\",null]", "stop[1]", "stop[1]: null is not a string", STATUS_BAD_REQUEST},
    {"\"stop\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "stop", "17 strings; at most 16", STATUS_BAD_REQUEST},
    {"\"stream\":1", "stream", "1 is not true or false", STATUS_BAD_REQUEST},
    {"\"stream\":\"true\"", "stream", "\"true\" is not true or false", STATUS_BAD_REQUEST},
    {"\"stream_options\":{\"include_usage\":true}", "stream_options", "without stream", STATUS_BAD_REQUEST},
    {"\"stream\":true,\"stream_options\":7", "stream_options", "7 is not an object", STATUS_BAD_REQUEST},
    {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", "stream_options.include_usage", "1 is not true or false",
     STATUS_BAD_REQUEST},
    {"\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}", "stream_options.continuous_usage_stats",
     "without include_usage", STATUS_BAD_REQUEST},
    {"\"logprobs\":21", "logprobs", "21 is not an integer from 0 to 20", STATUS_BAD_REQUEST},
    {"\"logprobs\":-1", "logprobs", "-1 is not", STATUS_BAD_REQUEST},
    {"\"logprobs\":true", "logprobs", "true is not an integer", STATUS_BAD_REQUEST},
    {"\"echo\":0", "echo", "0 is not true or false", STATUS_BAD_REQUEST},
    {"\"ignore_eos\":\"no\"", "ignore_eos", "is not true or false", STATUS_BAD_REQUEST},
    {"\"cache_salt\":\"\"", "cache_salt", "a string of 0 bytes is not one of 1 to 1024", STATUS_BAD_REQUEST},
    {"\"cache_salt\":{}", "cache_salt", "an object is not a string", STATUS_BAD_REQUEST},
    {"\"user\":4", "user", "4 is not a string", STATUS_BAD_REQUEST},
    {"\"model\":\"\"", "model", "a string of 0 bytes", STATUS_BAD_REQUEST},
    {"\"n\":2", "n", "n: 2 is not served; 1 or null is", STATUS_UNSUPPORTED_FIELD},
    {"\"n\":1000000000", "n", "1000000000 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"n\":\"1\"", "n", "\"1\" is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"best_of\":2", "best_of", "2 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"suffix\":\"x\"", "suffix", "suffix: \"x\" is not served; an empty one or null is", STATUS_UNSUPPORTED_FIELD},
    {"\"presence_penalty\":0.1", "presence_penalty", "0.1 is not served; 0 or null is", STATUS_UNSUPPORTED_FIELD},
    {"\"frequency_penalty\":-2", "frequency_penalty", "-2 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"repetition_penalty\":1.1", "repetition_penalty", "1.1 is not served; 1 or null is", STATUS_UNSUPPORTED_FIELD},
    {"\"logit_bias\":{\"5\":1}", "logit_bias", "an object is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"min_tokens\":1", "min_tokens", "1 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"typical_p\":0.5", "typical_p", "0.5 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"priority\":1", "priority", "1 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"stop_token_ids\":[2]", "stop_token_ids", "an array of 1 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"return_token_ids\":true", "return_token_ids", "true is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"grammar\":\"root ::= x\"", "grammar", "is not served; null is", STATUS_UNSUPPORTED_FIELD},
    {"\"timeout_ms\":5", "timeout_ms", "5 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"max_completion_tokens\":5", "max_completion_tokens", "5 is not served", STATUS_UNSUPPORTED_FIELD},
    {"\"response_format\":{\"type\":\"json_object\"}", "response_format", "\"json_object\" is not served",
     STATUS_UNSUPPORTED_FIELD},
    {"\"response_format\":{}", "response_format", "an object with a type", STATUS_BAD_REQUEST},
    {"\"store\":1", "store", "1 is not true or false", STATUS_BAD_REQUEST},
    {"\"metadata\":[]", "metadata", "an array of 0 is not an object", STATUS_BAD_REQUEST},
    {"\"service_tier\":1", "service_tier", "1 is not a string", STATUS_BAD_REQUEST},
    {"\"tools\":[]", "tools", "tools: there is no such field", STATUS_BAD_REQUEST},
    {"\"Temperature\":null", "Temperature", "there is no such field", STATUS_BAD_REQUEST},
    {"\"\":1", "", "there is no such field", STATUS_BAD_REQUEST},
};

START_TEST(what_is_wrong_is_refused_by_name)
{
    struct completion_request *r;
    struct why why = {.text = ""};
    ck_assert_int_eq(parse_rest(refused[_i].rest, &r, &why), refused[_i].status);
    ck_assert_ptr_null(r);
    ck_assert_str_eq(why.field, refused[_i].field);
    ck_assert_msg(strstr(why.text, refused[_i].text) != NULL, "said: %s", why.text);
    ck_assert_int_eq(parse_rest(refused[_i].rest, &r, NULL), refused[_i].status);
}
END_TEST

static const struct {
    const char *body, *text;
    enum status status;
} prompts[] = {
    {"{}", "prompt: absent", STATUS_BAD_REQUEST},
    {"{\"prompt\":null}", "prompt: absent", STATUS_BAD_REQUEST},
    {"{\"prompt\":7}", "7 is not a string or an array of 1 or more token ids", STATUS_BAD_REQUEST},
    {"{\"prompt\":{}}", "an object is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[]}", "an array of 0 is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[1,-1]}", "prompt[1]: -1 is not a token id", STATUS_BAD_REQUEST},
    {"{\"prompt\":[1,4294967296]}", "prompt[1]: 4294967296 is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[1,2.5]}", "prompt[1]: 2.5 is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[1,\"a\"]}", "prompt[1]: \"a\" is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[true]}", "prompt[0]: true is not", STATUS_BAD_REQUEST},
    {"{\"prompt\":[\"a\"]}", "an array of prompts is not served", STATUS_UNSUPPORTED_FIELD},
    {"{\"prompt\":[[1]]}", "an array of prompts is not served", STATUS_UNSUPPORTED_FIELD},
};

START_TEST(prompts_that_are_none)
{
    struct completion_request *r;
    struct why why = {.text = ""};
    ck_assert_int_eq(completion_request_parse(slice_of(prompts[_i].body), &r, &why), prompts[_i].status);
    ck_assert_str_eq(why.field, "prompt");
    ck_assert_msg(strstr(why.text, prompts[_i].text) != NULL, "said: %s", why.text);
}
END_TEST

START_TEST(stops_at_their_limits)
{
    char rest[BODY_BYTES] = "\"stop\":[", stop[STOP_BYTES_MAX + 2];
    memset(stop, 's', sizeof stop);
    stop[STOP_BYTES_MAX] = '\0';
    size_t len = strlen(rest);
    for (int i = 0; i < STOP_STRINGS_MAX; i++)
        len += (size_t)snprintf(rest + len, sizeof rest - len, "%s\"%s\"", i > 0 ? "," : "", stop);
    snprintf(rest + len, sizeof rest - len, "]");
    struct completion_request *r;
    ck_assert_int_eq(parse_rest(rest, &r, NULL), OK);
    ck_assert_uint_eq(r->n_stops, STOP_STRINGS_MAX);
    ck_assert_uint_eq(r->stops[15].len, STOP_BYTES_MAX);
    completion_request_free(&r);
    stop[STOP_BYTES_MAX] = 's';
    stop[STOP_BYTES_MAX + 1] = '\0';
    snprintf(rest, sizeof rest, "\"stop\":\"%s\"", stop);
    struct why why;
    ck_assert_int_eq(parse_rest(rest, &r, &why), STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(why.text, "a string of 257 bytes is not one of 1 to 256"));
}
END_TEST

static struct tokenizer *small_tokenizer(void)
{
    static struct vocabulary_file file;
    vocabulary_file_init(&file);
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    struct tokenizer *tokenizer;
    ck_assert_int_eq(tokenizer_new(gguf, &tokenizer, NULL), OK);
    gguf_free(&gguf);
    mem_free(bytes);
    return tokenizer;
}

static const struct {
    const char *body, *text;
    enum status status;
    uint32_t context, n_ids;
} encodings[] = {
    {"{\"prompt\":\"hello w<|im_end|>\"}", NULL, OK, 3, 3},
    {"{\"prompt\":[5,265]}", NULL, OK, 2, 2},
    {"{\"prompt\":\"\"}", "prompt: it has no token", STATUS_BAD_REQUEST, 9, 0},
    {"{\"prompt\":\"abcd\"}", "prompt: 4 tokens; the context holds 3", STATUS_CONTEXT_LENGTH, 3, 0},
    {"{\"prompt\":[1,2,3,4]}", "prompt: 4 tokens; the context holds 3", STATUS_CONTEXT_LENGTH, 3, 0},
    {"{\"prompt\":[1,266]}", "prompt[1]: 266 is no token; 0 to 265 are", STATUS_BAD_REQUEST, 9, 0},
    {"{\"prompt\":[4294967295]}", "prompt[0]: 4294967295 is no token", STATUS_BAD_REQUEST, 9, 0},
};

START_TEST(prompts_become_tokens)
{
    struct tokenizer *tokenizer = small_tokenizer();
    struct completion_request *r;
    struct token_ids ids = {0};
    struct why why = {.text = ""};
    ck_assert_int_eq(completion_request_parse(slice_of(encodings[_i].body), &r, NULL), OK);
    ck_assert_int_eq(completion_request_encode(r, tokenizer, encodings[_i].context, &ids, &why), encodings[_i].status);
    if (encodings[_i].text == NULL)
        ck_assert_uint_eq(ids.count, encodings[_i].n_ids);
    else
        ck_assert_str_eq(why.field, "prompt");
    ck_assert_msg(encodings[_i].text == NULL || strstr(why.text, encodings[_i].text) != NULL, "said: %s", why.text);
    token_ids_release(&ids);
    completion_request_free(&r);
    tokenizer_free(&tokenizer);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const char body[] = "{\"prompt\":[1,2,3],\"stop\":[\"a\"],\"seed\":18446744073709551615,\"user\":\"u\"}";
    struct tokenizer *tokenizer = small_tokenizer();
    uint64_t n = 0;
    for (bool struck = true; struck;) {
        struct completion_request *r;
        struct token_ids ids = {0};
        struct why why = {.text = ""};
        mem_fail_nth(++n);
        enum status s = completion_request_parse(slice_of(body), &r, &why);
        if (s == OK)
            s = completion_request_encode(r, tokenizer, 10, &ids, &why);
        struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        ck_assert(struck == (why.text[0] != '\0'));
        token_ids_release(&ids);
        completion_request_free(&r);
    }
    ck_assert_uint_gt(n, 20);
    tokenizer_free(&tokenizer);
}
END_TEST

int main(void)
{
    json_memory_install();
    Suite *suite = suite_create("completion_request");
    TCase *tcase = tcase_create("completion_request");
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, every_field_is_taken);
    tcase_add_loop_test(tcase, what_says_nothing_is_accepted, 0, (int)ARRAY_LEN(accepted));
    tcase_add_loop_test(tcase, what_is_wrong_is_refused_by_name, 0, (int)ARRAY_LEN(refused));
    tcase_add_loop_test(tcase, prompts_that_are_none, 0, (int)ARRAY_LEN(prompts));
    tcase_add_test(tcase, stops_at_their_limits);
    tcase_add_loop_test(tcase, prompts_become_tokens, 0, (int)ARRAY_LEN(encodings));
    tcase_add_test(tcase, every_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
