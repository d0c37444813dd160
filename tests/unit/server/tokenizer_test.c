/* tokenizer_test.c: the real checkpoint's vocabulary against golden ids, bytes back from them, special tokens, and several threads. */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer.h"

#include <jansson.h>
#include <pthread.h>
#include <time.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { GOLDEN = 481, IDS_MAX = 10000, N_THREADS = 4 };

/* Processor time, on a machine that others use too; alone it is a quarter of a second. Under a sanitizer or an emulator a
 * sixteenth of the text shows the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__aarch64__)
enum { LONG_BYTES = 1 << 16 };
#define LONG_S 10.0
#else
enum { LONG_BYTES = 1 << 20 };
#define LONG_S 1.0
#endif

/* The checkpoints that the golden ids are of. */
static const struct checkpoint {
    const char *variable, *golden;
    uint32_t n_tokens, stop_ids[3], n_stop_ids;
    bool adds_bos;
} checkpoints[] = {
    {"FOLDKV_TEST_MODEL", TESTS_DATA "/smollm2-tokens.json", 49152, {2}, 1, false},
    {"FOLDKV_TEST_GEMMA", TESTS_DATA "/gemma3-tokens.json", 262144, {1, 106}, 2, true},
    {"FOLDKV_TEST_QWEN", TESTS_DATA "/qwen2-tokens.json", 151936, {151645}, 1, false},
};

static struct gguf *model_gguf;
static struct tokenizer *model;
static json_t *golden;
static struct vocabulary_file file;
static char *file_bytes;
static struct gguf *file_gguf;
static struct tokenizer *small;

static void setup_model(const struct checkpoint *checkpoint)
{
    const char *path = getenv(checkpoint->variable);
    ck_assert_msg(path != NULL, "%s must name the checkpoint", checkpoint->variable);
    struct why why = {.text = ""};
    ck_assert_msg(gguf_open(path, &model_gguf, &why) == OK, "%s", why.text);
    ck_assert_msg(tokenizer_new(model_gguf, &model, &why) == OK, "%s", why.text);
    golden = json_load_file(checkpoint->golden, JSON_ALLOW_NUL, NULL);
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

static void setup_spm(void)
{
    vocabulary_file_init_spm(&file);
    file_gguf = vocabulary_file_gguf(&file, &file_bytes);
    ck_assert_int_eq(tokenizer_new(file_gguf, &small, NULL), OK);
}

/* One that puts a space before each text. */
static void setup_prefix(void)
{
    vocabulary_file_init_spm(&file);
    file.add_space_prefix = -1;
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

/* U+2581 in a text is the space for a vocabulary with scores, and comes back as one. */
static bool is_equal_text(const struct byte_buffer *back, struct slice text)
{
    static const char mark[] = "\xe2\x96\x81";
    size_t at = 0;
    for (size_t i = 0; i < back->len; i++) {
        bool is_mark = back->bytes[i] == ' ' && text.len - at >= 3 && memcmp(text.bytes + at, mark, 3) == 0;
        if (!is_mark && (at >= text.len || text.bytes[at] != back->bytes[i]))
            return false;
        at += is_mark ? 3 : 1;
    }
    return at == text.len;
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
    is_equal = is_equal && tokenizer_decode(model, ids.ids, ids.count, &back, NULL) == OK && is_equal_text(&back, text);
    token_ids_release(&ids);
    byte_buffer_release(&back);
    return is_equal;
}

START_TEST(golden_strings)
{
    setup_model(&checkpoints[_i]);
    for (size_t i = 0; i < GOLDEN; i++) {
        ck_assert_msg(is_golden(i, false), "string %zu, special tokens as text", i);
        ck_assert_msg(is_golden(i, true), "string %zu, special tokens recognised", i);
    }
    teardown_model();
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
    setup_model(&checkpoints[_i]);
    pthread_t threads[N_THREADS];
    size_t n_wrong[N_THREADS] = {0};
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_all, &n_wrong[i]), 0);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(n_wrong[i], 0);
    }
    teardown_model();
}
END_TEST

START_TEST(the_checkpoint_ends_at_its_own_tokens)
{
    setup_model(&checkpoints[_i]);
    const struct vocabulary *vocabulary = tokenizer_vocabulary(model);
    uint32_t n;
    const uint32_t *ids = vocabulary_stop_ids(vocabulary, &n);
    ck_assert_uint_eq(vocabulary_count(vocabulary), checkpoints[_i].n_tokens);
    ck_assert_uint_eq(n, checkpoints[_i].n_stop_ids);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(ids[i], checkpoints[_i].stop_ids[i]);
    ck_assert(vocabulary_adds_bos(vocabulary) == checkpoints[_i].adds_bos);
    teardown_model();
}
END_TEST

START_TEST(every_token_is_bytes_that_are_text_or_part_of_it)
{
    setup_model(&checkpoints[0]);
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
    teardown_model();
}
END_TEST

/* Encodes and decodes; the seconds that encoding took. */
static double there_and_back(const char *text, size_t len)
{
    struct token_ids ids;
    struct byte_buffer back;
    struct timespec from, to;
    struct why why = {.text = ""};
    token_ids_init(&ids, len);
    byte_buffer_init(&back, len);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    enum status s = tokenizer_encode(model, (struct slice){text, len}, (struct tokenizer_mode){0}, &ids, &why);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    ck_assert_msg(s == OK, "%s", why.text);
    ck_assert_int_eq(tokenizer_decode(model, ids.ids, ids.count, &back, NULL), OK);
    ck_assert_uint_eq(back.len, len);
    ck_assert_int_eq(memcmp(back.bytes, text, len), 0);
    byte_buffer_release(&back);
    token_ids_release(&ids);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

/* A megabyte of one thing is the worst that a word, or white space, can be. */
START_TEST(a_megabyte_without_a_break)
{
    static const char *const parts[] = {"a", "ab", " ", "\n", " \n", "\r\n\t ", "'", "<", "=", "7", "\xc3\xa9", "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80", "\xc2\xa0", "aaaaaaaab"};
    setup_model(&checkpoints[_i]);
    char *text = mem_alloc(LONG_BYTES);
    ck_assert_ptr_nonnull(text);
    for (size_t part = 0; part <= ARRAY_LEN(parts); part++) {
        size_t n = part < ARRAY_LEN(parts) ? strlen(parts[part]) : 1, len = LONG_BYTES / n * n;
        for (size_t i = 0; i < len; i++)
            text[i] = part < ARRAY_LEN(parts) ? parts[part][i % n] : (char)('a' + (i * 7919 >> 3) % 26);
        double seconds = there_and_back(text, len);
        ck_assert_msg(seconds < LONG_S, "part %zu took %.2f s", part, seconds);
    }
    mem_free(text);
    teardown_model();
}
END_TEST

struct row {
    const char *text;
    bool add, parse;
    uint32_t ids[16];
};

static const struct row rows[] = {
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

static const struct row spm_rows[] = {
    {"hello hello", false, true, {SF_HELLO, SF_SPACE_HELLO}},
    {"hello", true, true, {SF_BOS, SF_HELLO}},
    {"", true, true, {SF_BOS}},
    {"<s>hello</s>", false, true, {SF_BOS, SF_HELLO, SF_EOS}},
    {"<s>h", false, false, {SF_BYTES + '<', SF_BYTES + 's', SF_BYTES + '>', SF_H}},
    {"<unk>", false, false, {SF_BYTES + '<', SF_BYTES + 'u', SF_BYTES + 'n', SF_BYTES + 'k', SF_BYTES + '>'}},
    {"h<tool>e", false, false, {SF_H, SF_TOOL, SF_E}},
    {"\xe2\x96\x81hello\xe2\x96\x81", false, true, {SF_SPACE_HELLO, SF_SPACE}}, /* U+2581 is the space */
    {"\xc3\xa9lo", false, true, {SF_BYTES + 0xc3, SF_BYTES + 0xa9, SF_L, SF_O}},
    {"<0x41>", false, true, {SF_BYTES + '<', SF_BYTES + '0', SF_BYTES + 'x', SF_BYTES + '4', SF_BYTES + '1', SF_BYTES + '>'}},
    {"helloo", false, true, {SF_HELLO, SF_O}},
    {"hehell", false, true, {SF_HE, SF_HELL}},
};

static const struct row prefix_rows[] = {
    {"hello", false, true, {SF_SPACE_HELLO}},
    {" hello", false, true, {SF_SPACE, SF_SPACE_HELLO}},
    {"", true, true, {SF_BOS}},
    {"hello<tool>hello", true, true, {SF_BOS, SF_SPACE_HELLO, SF_TOOL, SF_SPACE_HELLO}},
    {"<s><s>o", false, true, {SF_BOS, SF_BOS, SF_SPACE, SF_O}},
};

static void assert_row(const struct row *row)
{
    struct token_ids ids;
    token_ids_init(&ids, 16);
    struct slice text = {row->text, strlen(row->text)};
    struct tokenizer_mode mode = {.add_special = row->add, .parse_special = row->parse};
    ck_assert_int_eq(tokenizer_encode(small, text, mode, &ids, NULL), OK);
    for (size_t i = 0; i < 16; i++)
        ck_assert_uint_eq(i < ids.count ? ids.ids[i] : 0, row->ids[i]);
    struct byte_buffer back;
    byte_buffer_init(&back, 100);
    size_t n_added = row->add ? 1 : 0;
    if (file.n_scores > 0) {
        ck_assert_int_eq(tokenizer_decode(small, ids.ids + n_added, ids.count - n_added, &back, NULL), OK);
        ck_assert(is_equal_text(&back, text));
    }
    byte_buffer_release(&back);
    token_ids_release(&ids);
}

START_TEST(special_tokens_in_text)
{
    assert_row(&rows[_i]);
}
END_TEST

START_TEST(text_by_scores)
{
    assert_row(&spm_rows[_i]);
}
END_TEST

START_TEST(a_space_before_each_text)
{
    assert_row(&prefix_rows[_i]);
}
END_TEST

/* Under llama3 a word that is a token is taken whole; the merges alone would not make it. */
START_TEST(words_taken_whole)
{
    static const uint32_t whole[] = {VF_HELLO, ' ', 'h'}, merged[] = {VF_HELL, 'o', ' ', 'h'};
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        vocabulary_file_init(&file);
        file.pre = is_whole ? "llama-bpe" : "qwen2";
        file.n_merges = 3; /* up to "hell" */
        struct gguf *gguf = vocabulary_file_gguf(&file, &file_bytes);
        ck_assert_int_eq(tokenizer_new(gguf, &small, NULL), OK);
        struct token_ids ids;
        token_ids_init(&ids, 16);
        ck_assert_int_eq(tokenizer_encode(small, (struct slice){"hello h", 7}, (struct tokenizer_mode){0}, &ids, NULL), OK);
        ck_assert_uint_eq(ids.count, is_whole ? ARRAY_LEN(whole) : ARRAY_LEN(merged));
        ck_assert_mem_eq(ids.ids, is_whole ? whole : merged, ids.count * sizeof ids.ids[0]);
        token_ids_release(&ids);
        tokenizer_free(&small);
        gguf_free(&gguf);
        mem_free(file_bytes);
    }
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
    ck_assert_uint_gt(n, 3);
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
    TCase *by_scores = tcase_create("scores");
    tcase_add_checked_fixture(by_scores, setup_spm, teardown_small);
    tcase_add_loop_test(by_scores, text_by_scores, 0, (int)ARRAY_LEN(spm_rows));
    tcase_add_test(by_scores, every_allocation_may_fail);
    suite_add_tcase(suite, by_scores);
    TCase *by_prefix = tcase_create("prefix");
    tcase_add_checked_fixture(by_prefix, setup_prefix, teardown_small);
    tcase_add_loop_test(by_prefix, a_space_before_each_text, 0, (int)ARRAY_LEN(prefix_rows));
    tcase_add_test(by_prefix, every_allocation_may_fail);
    suite_add_tcase(suite, by_prefix);
    TCase *by_model = tcase_create("model");
    tcase_set_timeout(by_model, 60);
    tcase_add_test(by_model, words_taken_whole);
    tcase_add_test(by_model, every_token_is_bytes_that_are_text_or_part_of_it);
    tcase_add_loop_test(by_model, the_checkpoint_ends_at_its_own_tokens, 0, (int)ARRAY_LEN(checkpoints));
    tcase_add_loop_test(by_model, golden_strings, 0, (int)ARRAY_LEN(checkpoints));
    tcase_add_loop_test(by_model, a_megabyte_without_a_break, 0, (int)ARRAY_LEN(checkpoints));
    tcase_add_loop_test(by_model, threads_do_not_meet, 0, (int)ARRAY_LEN(checkpoints));
    suite_add_tcase(suite, by_model);
    return suite_run(suite);
}
