/* tokenizer_test.c: the real checkpoint's vocabulary against golden ids, bytes back from them, special tokens, and several threads. */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer.h"

#include <jansson.h>
#include <pthread.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { GOLDEN = 481, IDS_MAX = 10000, N_THREADS = 4 };

static struct gguf *model_gguf;
static struct tokenizer *model;
static json_t *golden;
static struct vocabulary_file file;
static char *file_bytes;
static struct gguf *file_gguf;
static struct tokenizer *small;

static void setup_model(void)
{
    const char *path = getenv("FOLDKV_TEST_MODEL");
    ck_assert_msg(path != NULL, "FOLDKV_TEST_MODEL must name the checkpoint");
    struct why why = {.text = ""};
    ck_assert_msg(gguf_open(path, &model_gguf, &why) == OK, "%s", why.text);
    ck_assert_msg(tokenizer_new(model_gguf, &model, &why) == OK, "%s", why.text);
    golden = json_load_file(TESTS_DATA "/smollm2-tokens.json", JSON_ALLOW_NUL, NULL);
    ck_assert_uint_eq(json_array_size(golden), GOLDEN);
}

static void teardown_model(void)
{
    tokenizer_free(&model);
    gguf_free(&model_gguf);
    json_decref(golden);
}

static void setup_small(void)
{
    vocabulary_file_init(&file);
    file.bos = VF_END_OF_TEXT;
    file.add_bos = 1;
    file.add_eos = 1;
    file_gguf = vocabulary_file_gguf(&file, &file_bytes);
    ck_assert_int_eq(tokenizer_new(file_gguf, &small, NULL), OK);
}

static void teardown_small(void)
{
    tokenizer_free(&small);
    gguf_free(&file_gguf);
    mem_free(file_bytes);
}

static struct slice golden_text(size_t i)
{
    const json_t *text = json_object_get(json_array_get(golden, i), "text");
    return (struct slice){json_string_value(text), json_string_length(text)};
}

/* True if the text gives the golden ids and they give the text. */
static bool is_golden(size_t i, bool special)
{
    const json_t *expected = json_object_get(json_array_get(golden, i), special ? "ids_special" : "ids");
    struct slice text = golden_text(i);
    struct token_ids ids;
    struct byte_buffer back;
    token_ids_init(&ids, IDS_MAX);
    byte_buffer_init(&back, IDS_MAX);
    bool is_equal = tokenizer_encode(model, text, (struct tokenizer_mode){.parse_special = special}, &ids, NULL) == OK &&
                    ids.count == json_array_size(expected);
    for (size_t k = 0; is_equal && k < ids.count; k++)
        is_equal = ids.ids[k] == (uint32_t)json_integer_value(json_array_get(expected, k));
    is_equal = is_equal && tokenizer_decode(model, ids.ids, ids.count, &back, NULL) == OK && back.len == text.len &&
               (text.len == 0 || memcmp(back.bytes, text.bytes, text.len) == 0);
    token_ids_release(&ids);
    byte_buffer_release(&back);
    return is_equal;
}

START_TEST(golden_strings)
{
    for (size_t i = 0; i < GOLDEN; i++) {
        ck_assert_msg(is_golden(i, false), "string %zu, special tokens as text", i);
        ck_assert_msg(is_golden(i, true), "string %zu, special tokens recognised", i);
    }
}
END_TEST

static void *encode_all(void *user)
{
    size_t *n_wrong = user;
    for (size_t i = 0; i < GOLDEN; i++)
        *n_wrong += !is_golden(i, true);
    return NULL;
}

START_TEST(threads_do_not_meet)
{
    pthread_t threads[N_THREADS];
    size_t n_wrong[N_THREADS] = {0};
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_all, &n_wrong[i]), 0);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(n_wrong[i], 0);
    }
}
END_TEST

START_TEST(the_checkpoint_ends_at_its_own_tokens)
{
    const struct vocabulary *vocabulary = tokenizer_vocabulary(model);
    uint32_t n;
    ck_assert_uint_eq(vocabulary_count(vocabulary), 49152);
    ck_assert_uint_eq(vocabulary_stop_ids(vocabulary, &n)[0], 2);
    ck_assert_uint_eq(n, 1);
    ck_assert(!vocabulary_adds_bos(vocabulary));
}
END_TEST

START_TEST(every_token_is_bytes_that_are_text_or_part_of_it)
{
    struct byte_buffer text;
    byte_buffer_init(&text, 1 << 22);
    for (uint32_t id = 0; id < vocabulary_count(tokenizer_vocabulary(model)); id++)
        ck_assert_uint_gt(tokenizer_piece(model, id).len, 0);
    uint32_t ids[] = {19556, 905, 49152};
    struct why why;
    ck_assert_int_eq(tokenizer_decode(model, ids, 2, &text, &why), OK);
    ck_assert_uint_eq(text.len, 11);
    ck_assert_mem_eq(text.bytes, "Hello world", 11);
    ck_assert_int_eq(tokenizer_decode(model, ids, 3, &text, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "tokens[2]: 49152 is no token; 0 to 49151 are");
    byte_buffer_release(&text);
}
END_TEST

START_TEST(a_megabyte_without_a_break)
{
    enum { LEN = 1 << 20 };
    char *text = mem_alloc(LEN);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < LEN; i++)
        text[i] = (char)('a' + (i * 7919 >> 3) % 26);
    struct token_ids ids;
    struct byte_buffer back;
    token_ids_init(&ids, LEN);
    byte_buffer_init(&back, LEN);
    ck_assert_int_eq(tokenizer_encode(model, (struct slice){text, LEN}, (struct tokenizer_mode){0}, &ids, NULL), OK);
    ck_assert_int_eq(tokenizer_decode(model, ids.ids, ids.count, &back, NULL), OK);
    ck_assert_uint_eq(back.len, LEN);
    ck_assert_int_eq(memcmp(back.bytes, text, LEN), 0);
    byte_buffer_release(&back);
    token_ids_release(&ids);
    mem_free(text);
}
END_TEST

static const struct {
    const char *text;
    bool add, parse;
    uint32_t ids[16];
} rows[] = {
    {"hello", false, true, {VF_HELLO}},
    {"hello", true, true, {VF_END_OF_TEXT, VF_HELLO, VF_END_OF_TEXT}},
    {"", true, true, {VF_END_OF_TEXT, VF_END_OF_TEXT}},
    {"<|im_start|>hell<|im_end|>", false, true, {VF_IM_START, VF_HELL, VF_IM_END}},
    {"<|im_end|>>>", false, true, {VF_LONGER, '>'}},          /* the longest at a place */
    {"<<|im_end|>", false, true, {'<', VF_IM_END}},
    {"<|im_en<tool>", false, true, {'<', '|', 'i', 'm', '_', 'e', 'n', VF_TOOL}},
    {"a<|im_end", false, true, {'a', '<', '|', 'i', 'm', '_', 'e', 'n', 'd'}},
    {"<|im_end|><tool>", false, false, {'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', VF_TOOL}},
    {"he<tool> w", false, false, {VF_HE, VF_TOOL, VF_SPACE_W}},
};

START_TEST(special_tokens_in_text)
{
    struct token_ids ids;
    token_ids_init(&ids, 16);
    struct slice text = {rows[_i].text, strlen(rows[_i].text)};
    struct tokenizer_mode mode = {.add_special = rows[_i].add, .parse_special = rows[_i].parse};
    ck_assert_int_eq(tokenizer_encode(small, text, mode, &ids, NULL), OK);
    for (size_t i = 0; i < 16; i++)
        ck_assert_uint_eq(i < ids.count ? ids.ids[i] : 0, rows[_i].ids[i]);
    token_ids_release(&ids);
}
END_TEST

START_TEST(what_is_refused)
{
    struct token_ids ids;
    struct why why;
    token_ids_init(&ids, 3);
    struct tokenizer_mode mode = {0};
    ck_assert_int_eq(tokenizer_encode(small, (struct slice){"ab\xf0\x9f", 4}, mode, &ids, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "prompt: not UTF-8 at byte 2 of 4");
    ck_assert_int_eq(tokenizer_encode(small, (struct slice){"abc", 3}, mode, &ids, &why), OK);
    token_ids_release(&ids);
    ck_assert_int_eq(tokenizer_encode(small, (struct slice){"abcdefg", 7}, mode, &ids, &why), STATUS_CONTEXT_LENGTH);
    ck_assert_str_eq(why.field, "prompt");
    ck_assert_str_eq(why.text, "prompt: 7 tokens; the context holds 3");
    token_ids_release(&ids);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    uint64_t n = 0;
    for (bool struck = true; struck;) {
        struct token_ids ids;
        token_ids_init(&ids, 100);
        mem_fail_nth(++n);
        enum status s = tokenizer_encode(small, (struct slice){"hello there", 11}, (struct tokenizer_mode){0}, &ids, NULL);
        struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        token_ids_release(&ids);
    }
    ck_assert_uint_gt(n, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *by_small = tcase_create("small");
    tcase_add_checked_fixture(by_small, setup_small, teardown_small);
    tcase_add_loop_test(by_small, special_tokens_in_text, 0, (int)ARRAY_LEN(rows));
    tcase_add_test(by_small, what_is_refused);
    tcase_add_test(by_small, every_allocation_may_fail);
    suite_add_tcase(suite, by_small);
    TCase *by_model = tcase_create("model");
    tcase_set_timeout(by_model, 60);
    tcase_add_checked_fixture(by_model, setup_model, teardown_model);
    tcase_add_test(by_model, the_checkpoint_ends_at_its_own_tokens);
    tcase_add_test(by_model, golden_strings);
    tcase_add_test(by_model, every_token_is_bytes_that_are_text_or_part_of_it);
    tcase_add_test(by_model, a_megabyte_without_a_break);
    tcase_add_test(by_model, threads_do_not_meet);
    suite_add_tcase(suite, by_model);
    return suite_run(suite);
}
