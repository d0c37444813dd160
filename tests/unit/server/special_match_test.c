/* special_match_test.c: the walk over sorted spellings against a plain search, over random vocabularies and texts. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/special_match.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { TEXT_MAX = 60 };

static struct vocabulary_file file;
static uint32_t state;

static uint32_t below(uint32_t n)
{
    state = state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)state * n) >> 32);
}

/* Up to 40 more special tokens over "<", "a" and "b", many the head of another. */
static void random_vocabulary(void)
{
    vocabulary_file_init(&file);
    for (uint32_t i = 0, n = below(40); i < n; i++) {
        char text[VOCABULARY_FILE_TEXT] = "";
        for (uint32_t k = 0, len = 2 + below(5); k < len; k++)
            text[k] = "<ab"[below(3)];
        bool is_new = true;
        for (int id = 0; id < file.n_tokens; id++)
            is_new = is_new && strcmp(file.tokens[id], text) != 0;
        if (!is_new)
            continue;
        vocabulary_file_set(file.tokens[file.n_tokens], text);
        file.kinds[file.n_tokens++] = below(2) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        file.n_kinds = file.n_tokens;
    }
}

/* The leftmost place, the longest there; -1 if there is none. */
static int find_plainly(const char *text, size_t from, bool with_control, size_t *ret_start)
{
    for (size_t at = from; text[at] != '\0'; at++) {
        int found = -1;
        for (int id = 256; id < file.n_tokens; id++) {
            size_t len = strlen(file.tokens[id]);
            bool is_looked_for = file.kinds[id] == TOKEN_USER_DEFINED || (with_control && file.kinds[id] == TOKEN_CONTROL);
            if (is_looked_for && strncmp(text + at, file.tokens[id], len) == 0 &&
                (found < 0 || len > strlen(file.tokens[found])))
                found = id;
        }
        *ret_start = at;
        if (found >= 0)
            return found;
    }
    return -1;
}

static void assert_agrees(const struct special_match *match, const char *text, bool with_control)
{
    for (size_t from = 0; from <= strlen(text); from++) {
        size_t start = 0, expected_start = 0;
        uint32_t id = 0;
        int expected = find_plainly(text, from, with_control, &expected_start);
        bool is_found = special_match_find(match, (struct slice){text, strlen(text)}, from, with_control, &start, &id);
        if (is_found != (expected >= 0) || (is_found && (start != expected_start || id != (uint32_t)expected)))
            ck_abort_msg("'%s' from %zu: token %u at %zu, not %d at %zu", text, from, id, start, expected, expected_start);
    }
}

START_TEST(agrees_with_a_plain_search)
{
    state = (uint32_t)_i + 1;
    random_vocabulary();
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    struct token_index *index;
    struct vocabulary *vocabulary;
    struct special_match *match;
    static const struct vocabulary_rules rules = {
        .spelling = SPELLING_BYTES, .bos = TOKEN_NONE, .eos = TOKEN_NONE, .unknown = TOKEN_NONE};
    ck_assert_int_eq(token_index_new(gguf, &index, NULL), OK);
    ck_assert_int_eq(vocabulary_new(gguf, index, &rules, &vocabulary, NULL), OK);
    ck_assert_int_eq(special_match_new(vocabulary, &match), OK);
    for (int texts = 0; texts < 50; texts++) {
        char text[TEXT_MAX + 1] = "";
        for (uint32_t k = 0, len = below(TEXT_MAX); k < len; k++)
            text[k] = "<abc"[below(4)];
        assert_agrees(match, text, true);
        assert_agrees(match, text, false);
    }
    special_match_free(&match);
    vocabulary_free(&vocabulary);
    token_index_free(&index);
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("special_match");
    TCase *tcase = tcase_create("special_match");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, agrees_with_a_plain_search, 0, 40);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
