/* vocabulary_test.c: a small vocabulary is read right, and every way in which a file can contradict itself is refused by name. */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "config/mem.h"
#include "server/tokenizer.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

static struct vocabulary_file file;

static void setup(void)
{
    vocabulary_file_init(&file);
}

static void setup_spm(void)
{
    vocabulary_file_init_spm(&file);
}

static struct tokenizer *made(void)
{
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    struct tokenizer *tokenizer = NULL;
    struct why why = {.text = ""};
    enum status s = tokenizer_new(gguf, &tokenizer, &why);
    gguf_free(&gguf);
    mem_free(bytes); /* what was made must not look back */
    ck_assert_msg(s == OK, "%s", why.text);
    return tokenizer;
}

static void assert_piece(const struct vocabulary *vocabulary, uint32_t id, const char *bytes, size_t len)
{
    struct slice piece = vocabulary_piece(vocabulary, id);
    ck_assert_uint_eq(piece.len, len);
    ck_assert_mem_eq(piece.bytes, bytes, len);
}

START_TEST(pieces_and_kinds)
{
    struct tokenizer *tokenizer = made();
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    ck_assert_uint_eq(vocabulary_count(vocabulary), VF_COUNT);
    for (uint32_t byte = 0; byte < 256; byte++)
        assert_piece(vocabulary, byte, &(char){(char)byte}, 1);
    assert_piece(vocabulary, VF_SPACE_W, " w", 2);
    assert_piece(vocabulary, VF_IM_END, "<|im_end|>", 10);
    ck_assert_int_eq(vocabulary_kind(vocabulary, VF_HELLO), TOKEN_NORMAL);
    ck_assert_int_eq(vocabulary_kind(vocabulary, VF_IM_END), TOKEN_CONTROL);
    ck_assert_int_eq(vocabulary_kind(vocabulary, VF_TOOL), TOKEN_USER_DEFINED);
    ck_assert_int_eq(vocabulary_bos(vocabulary), TOKEN_NONE);
    ck_assert_int_eq(vocabulary_eos(vocabulary), VF_END_OF_TEXT);
    ck_assert(!vocabulary_adds_bos(vocabulary) && !vocabulary_adds_eos(vocabulary));
    tokenizer_free(&tokenizer);
}
END_TEST

START_TEST(pieces_and_kinds_of_a_vocabulary_with_scores)
{
    vocabulary_file_set(file.tokens[SF_TOOL], "<a\xe2\x96\x81tool>"); /* user-defined: as it is written */
    vocabulary_file_set(file.tokens[SF_HELL], "he l"); /* a space as it is leaves the spelling */
    struct tokenizer *tokenizer = made();
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    ck_assert_uint_eq(vocabulary_count(vocabulary), SF_COUNT);
    for (uint32_t byte = 0; byte < 256; byte++)
        assert_piece(vocabulary, SF_BYTES + byte, &(char){(char)byte}, 1);
    assert_piece(vocabulary, SF_SPACE, " ", 1);
    assert_piece(vocabulary, SF_SPACE_HELLO, " hello", 6);
    assert_piece(vocabulary, SF_TOOL, "<a\xe2\x96\x81tool>", 10);
    assert_piece(vocabulary, SF_HELL, "he l", 4);
    ck_assert(vocabulary_is_text(vocabulary, SF_SPACE) && vocabulary_is_text(vocabulary, SF_HELLO));
    ck_assert(!vocabulary_is_text(vocabulary, SF_HELL) && !vocabulary_is_text(vocabulary, SF_TOOL));
    ck_assert(!vocabulary_is_text(vocabulary, SF_BOS) && !vocabulary_is_text(vocabulary, SF_BYTES));
    ck_assert_int_eq(vocabulary_search(vocabulary, SF_TOOL), SEARCH_ALWAYS);
    ck_assert_int_eq(vocabulary_search(vocabulary, SF_TURN), SEARCH_SPECIAL);
    ck_assert_int_eq(vocabulary_search(vocabulary, SF_HELLO), SEARCH_NEVER);
    tokenizer_free(&tokenizer);
}
END_TEST

START_TEST(what_a_file_with_scores_need_not_say)
{
    file.bos = file.eos = file.unknown = -1;
    struct tokenizer *tokenizer = made();
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    uint32_t n;
    ck_assert_int_eq(vocabulary_unknown(vocabulary), SF_UNKNOWN);
    ck_assert_int_eq(vocabulary_bos(vocabulary), SF_BOS);
    ck_assert_int_eq(vocabulary_eos(vocabulary), SF_EOS);
    ck_assert(vocabulary_adds_bos(vocabulary) && !vocabulary_adds_eos(vocabulary));
    ck_assert_uint_eq(vocabulary_stop_ids(vocabulary, &n)[0], SF_EOS);
    ck_assert_uint_eq(vocabulary_stop_ids(vocabulary, &n)[1], SF_TURN);
    ck_assert_uint_eq(n, 2);
    tokenizer_free(&tokenizer);
    file.add_bos = 0;
    tokenizer = made();
    ck_assert(!vocabulary_adds_bos(tokenizer_vocabulary(tokenizer)));
    tokenizer_free(&tokenizer);
}
END_TEST

START_TEST(llama3_begins_with_bos_if_there_is_one)
{
    file.pre = "llama-bpe";
    struct tokenizer *tokenizer = made();
    ck_assert(!vocabulary_adds_bos(tokenizer_vocabulary(tokenizer)));
    tokenizer_free(&tokenizer);
    file.bos = VF_END_OF_TEXT;
    tokenizer = made();
    ck_assert(vocabulary_adds_bos(tokenizer_vocabulary(tokenizer)));
    tokenizer_free(&tokenizer);
}
END_TEST

/* "</s>" as user-defined or normal text is a special token where those are parsed, and no end. */
START_TEST(end_tokens_of_another_kind)
{
    vocabulary_file_set(file.tokens[VF_TOOL], "</s>");
    vocabulary_file_set(file.tokens[VF_LONGER], "[EOS]");
    file.kinds[VF_LONGER] = TOKEN_NORMAL;
    struct tokenizer *tokenizer = made();
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    uint32_t n;
    ck_assert_int_eq(vocabulary_kind(vocabulary, VF_TOOL), TOKEN_USER_DEFINED);
    ck_assert_int_eq(vocabulary_search(vocabulary, VF_TOOL), SEARCH_SPECIAL);
    ck_assert_int_eq(vocabulary_search(vocabulary, VF_LONGER), SEARCH_SPECIAL);
    (void)vocabulary_stop_ids(vocabulary, &n);
    ck_assert_uint_eq(n, 2);
    tokenizer_free(&tokenizer);
}
END_TEST

START_TEST(spellings_by_kind)
{
    vocabulary_file_set(file.tokens[VF_HELLO], "hello world"); /* leaves the alphabet: stands for itself */
    vocabulary_file_set(file.tokens[VF_TOOL], "<0xe2>");
    vocabulary_file_set(file.tokens[VF_LONGER], "\xc4\xa0x"); /* a control token is never decoded */
    file.kinds[VF_TOOL] = TOKEN_BYTE;
    file.n_merges = 3;
    struct tokenizer *tokenizer = made();
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    assert_piece(vocabulary, VF_HELLO, "hello world", 11);
    assert_piece(vocabulary, VF_TOOL, "\xe2", 1);
    assert_piece(vocabulary, VF_LONGER, "\xc4\xa0x", 3);
    tokenizer_free(&tokenizer);
}
END_TEST

static void assert_stops(const uint32_t *expected, uint32_t n_expected)
{
    struct tokenizer *tokenizer = made();
    uint32_t n;
    const uint32_t *ids = vocabulary_stop_ids(tokenizer_vocabulary(tokenizer), &n);
    ck_assert_uint_eq(n, n_expected);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(ids[i], expected[i]);
    tokenizer_free(&tokenizer);
}

START_TEST(tokens_that_end_a_generation)
{
    assert_stops((uint32_t[]){VF_END_OF_TEXT, VF_IM_END}, 2);
    file.eos = VF_IM_END;
    assert_stops((uint32_t[]){VF_IM_END}, 1);
    file.eot = VF_TOOL;
    file.eom = VF_HE;
    vocabulary_file_set(file.tokens[VF_IM_START], "<|eot_id|>");
    vocabulary_file_set(file.tokens[VF_LONGER], "<end_of_turn>");
    assert_stops((uint32_t[]){VF_HE, VF_IM_START, VF_IM_END, VF_LONGER, VF_TOOL}, 5);
    file.eos = file.eot = file.eom = -1;
    file.kinds[VF_IM_END] = file.kinds[VF_IM_START] = file.kinds[VF_LONGER] = TOKEN_NORMAL;
    assert_stops(NULL, 0);
}
END_TEST

START_TEST(without_kinds_all_are_normal)
{
    file.n_kinds = -1;
    struct tokenizer *tokenizer = made();
    ck_assert_int_eq(vocabulary_kind(tokenizer_vocabulary(tokenizer), VF_IM_END), TOKEN_NORMAL);
    tokenizer_free(&tokenizer);
}
END_TEST

static void no_model(void) { file.model = NULL; }
static void other_model(void) { file.model = "bert"; }
static void other_pre(void) { file.pre = "default"; }
static void no_pre(void) { file.pre = NULL; }
static void prefix(void) { file.add_space_prefix = 1; }
static void no_tokens(void) { file.n_tokens = -1; }
static void zero_tokens(void) { file.n_tokens = 0; }
static void int_tokens(void) { file.tokens_are_ints = true; }
static void empty_token(void) { vocabulary_file_set(file.tokens[9], ""); }
static void same_token(void) { vocabulary_file_set(file.tokens[VF_TOOL], "hell"); }
static void bad_utf8(void) { vocabulary_file_set(file.tokens[VF_TOOL], "ab\xff"); }
static void few_kinds(void) { file.n_kinds--; }
static void float_kinds(void) { file.kinds_are_floats = true; }
static void kind_zero(void) { file.kinds[5] = 0; }
static void kind_seven(void) { file.kinds[5] = 7; }
static void kind_negative(void) { file.kinds[5] = INT32_MIN; }
static void byte_sign(void) { vocabulary_file_set(file.tokens[VF_TOOL], "<0x-1>"); file.kinds[VF_TOOL] = TOKEN_BYTE; }
static void byte_letters(void) { vocabulary_file_set(file.tokens[VF_TOOL], "<0xGG>"); file.kinds[VF_TOOL] = TOKEN_BYTE; }
static void byte_three(void) { vocabulary_file_set(file.tokens[VF_TOOL], "<0x100>"); file.kinds[VF_TOOL] = TOKEN_BYTE; }
static void byte_short(void) { vocabulary_file_set(file.tokens[VF_TOOL], "<0x"); file.kinds[VF_TOOL] = TOKEN_BYTE; }
static void bos_high(void) { file.bos = VF_COUNT; }
static void eos_high(void) { file.eos = UINT32_MAX; }
static void eot_high(void) { file.eot = VF_COUNT; }
static void eom_high(void) { file.eom = VF_COUNT; }
static void unknown_high(void) { file.unknown = VF_COUNT; }
static void padding_high(void) { file.padding = VF_COUNT; }
static void bos_absent(void) { file.add_bos = 1; }
static void eos_absent(void) { file.add_eos = 1; file.eos = -1; }
static void no_merges(void) { file.n_merges = -1; }
static void int_merges(void) { file.merges_are_ints = true; }
static void merge_one_word(void) { vocabulary_file_set(file.merges[1], "hello"); }
static void merge_empty(void) { vocabulary_file_set(file.merges[1], ""); }
static void merge_no_right(void) { vocabulary_file_set(file.merges[1], "l "); }
static void merge_left(void) { vocabulary_file_set(file.merges[1], "zz l"); }
static void merge_right(void) { vocabulary_file_set(file.merges[1], "l zz"); }
static void merge_three(void) { vocabulary_file_set(file.merges[1], "l l l"); }
static void merge_result(void) { vocabulary_file_set(file.merges[1], "l h"); }
static void merge_twice(void) { vocabulary_file_set(file.merges[1], "h e"); }
static void no_byte(void) { vocabulary_file_set(file.tokens['z'], "zzz"); }

#define KEY(name) "tokenizer.ggml." name
static const struct refusal {
    void (*change)(void);
    const char *field, *text; /* a part of what is said */
} refusals[] = {
    {no_model, KEY("model"), "absent"},
    {other_model, KEY("model"), "'bert' is not served; served are gpt2"},
    {other_pre, KEY("pre"), "'default' is not served; served are smollm"},
    {no_pre, KEY("pre"), "absent"},
    {prefix, KEY("add_space_prefix"), "true is not served"},
    {no_tokens, KEY("tokens"), "absent"},
    {zero_tokens, KEY("tokens"), "0 tokens"},
    {int_tokens, KEY("tokens"), "strings"},
    {empty_token, KEY("tokens"), "token 9 is empty"},
    {same_token, KEY("tokens"), "tokens 258 and 265 are both 'hell'"},
    {bad_utf8, KEY("tokens"), "token 265 is not UTF-8 at byte 2"},
    {few_kinds, KEY("token_type"), "265 kinds for 266 tokens"},
    {float_kinds, KEY("token_type"), "integers are needed"},
    {kind_zero, KEY("token_type"), "token 5 is of kind 0"},
    {kind_seven, KEY("token_type"), "token 5 is of kind 7"},
    {kind_negative, KEY("token_type"), "token 5 is of kind -2147483648"},
    {byte_sign, KEY("tokens"), "'<0x-1>'"},
    {byte_letters, KEY("tokens"), "'<0xGG>'"},
    {byte_three, KEY("tokens"), "'<0x100>'"},
    {byte_short, KEY("tokens"), "'<0x'"},
    {bos_high, KEY("bos_token_id"), "266 is no token; the file has 266"},
    {eos_high, KEY("eos_token_id"), "4294967295 is no token"},
    {eot_high, KEY("eot_token_id"), "266 is no token"},
    {eom_high, KEY("eom_token_id"), "266 is no token"},
    {unknown_high, KEY("unknown_token_id"), "266 is no token"},
    {padding_high, KEY("padding_token_id"), "266 is no token"},
    {bos_absent, KEY("add_bos_token"), "bos_token_id is absent"},
    {eos_absent, KEY("add_eos_token"), "eos_token_id is absent"},
    {no_merges, KEY("merges"), "absent"},
    {int_merges, KEY("merges"), "strings"},
    {merge_one_word, KEY("merges"), "merge 1 'hello' is not two tokens"},
    {merge_empty, KEY("merges"), "merge 1 '' is not two tokens"},
    {merge_no_right, KEY("merges"), "merge 1 'l ' is not two tokens"},
    {merge_left, KEY("merges"), "merge 1 'zz l' begins with an unknown token"},
    {merge_right, KEY("merges"), "merge 1 'l zz' ends with an unknown token"},
    {merge_three, KEY("merges"), "merge 1 'l l l' ends with an unknown token"},
    {merge_result, KEY("merges"), "merge 1 'l h' makes an unknown token"},
    {merge_twice, KEY("merges"), "merge 1 'h e' is there twice"},
    {no_byte, KEY("tokens"), "no token for byte 0x7a ('z')"},
};

static void no_scores(void) { file.n_scores = -1; }
static void few_scores(void) { file.n_scores--; }
static void int_scores(void) { file.scores_are_ints = true; }
static void nan_score(void) { file.scores[SF_LL] = NAN; }
static void no_byte_token(void) { file.kinds[SF_BYTES + 0x41] = TOKEN_NORMAL; }
static void same_spm_token(void) { vocabulary_file_set(file.tokens[SF_TOOL], "hell"); }
static void kindless(void) { file.n_kinds = -1; }

static const struct refusal spm_refusals[] = {
    {no_scores, KEY("scores"), "absent"},
    {few_scores, KEY("scores"), "271 scores for 272 tokens"},
    {int_scores, KEY("scores"), "f32 (6) is needed"},
    {nan_score, KEY("scores"), "token 265 has the score nan"},
    {no_byte_token, KEY("tokens"), "no byte token (kind 6) '<0x41>'"},
    {kindless, KEY("tokens"), "no byte token (kind 6) '<0x00>'"},
    {kind_seven, KEY("token_type"), "token 5 is of kind 7"},
    {same_spm_token, KEY("tokens"), "are both 'hell'"},
};

static void assert_refused(const struct refusal *refusal)
{
    refusal->change();
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    struct tokenizer *tokenizer = NULL;
    struct why why = {.text = ""};
    ck_assert_int_eq(tokenizer_new(gguf, &tokenizer, &why), STATUS_BAD_FILE);
    ck_assert_ptr_null(tokenizer);
    ck_assert_str_eq(why.field, refusal->field);
    ck_assert_msg(strstr(why.text, refusal->text) != NULL, "said: %s", why.text);
    ck_assert_int_eq(tokenizer_new(gguf, &tokenizer, NULL), STATUS_BAD_FILE);
    gguf_free(&gguf);
    mem_free(bytes);
}

START_TEST(contradictions_are_refused_by_name)
{
    assert_refused(&refusals[_i]);
}
END_TEST

START_TEST(contradictions_with_scores_are_refused_by_name)
{
    assert_refused(&spm_refusals[_i]);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    uint64_t n = 0;
    for (bool struck = true; struck;) {
        struct tokenizer *tokenizer = NULL;
        struct why why = {.text = ""};
        mem_fail_nth(++n);
        enum status s = tokenizer_new(gguf, &tokenizer, &why);
        struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        ck_assert(struck == (tokenizer == NULL));
        ck_assert(struck == (why.text[0] != '\0'));
        tokenizer_free(&tokenizer);
    }
    ck_assert_uint_gt(n, 10);
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocabulary");
    TCase *tcase = tcase_create("vocabulary");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, pieces_and_kinds);
    tcase_add_test(tcase, spellings_by_kind);
    tcase_add_test(tcase, tokens_that_end_a_generation);
    tcase_add_test(tcase, without_kinds_all_are_normal);
    tcase_add_loop_test(tcase, contradictions_are_refused_by_name, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(tcase, every_allocation_may_fail);
    tcase_add_test(tcase, llama3_begins_with_bos_if_there_is_one);
    tcase_add_test(tcase, end_tokens_of_another_kind);
    suite_add_tcase(suite, tcase);
    TCase *spm = tcase_create("spm");
    tcase_add_checked_fixture(spm, setup_spm, NULL);
    tcase_add_test(spm, pieces_and_kinds_of_a_vocabulary_with_scores);
    tcase_add_test(spm, what_a_file_with_scores_need_not_say);
    tcase_add_loop_test(spm, contradictions_with_scores_are_refused_by_name, 0, (int)ARRAY_LEN(spm_refusals));
    tcase_add_test(spm, every_allocation_may_fail);
    suite_add_tcase(suite, spm);
    return suite_run(suite);
}
