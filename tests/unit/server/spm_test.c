/* spm_test.c: merges by score of random vocabularies against the definition: again and again, of all tokens that two
 * symbols make, the one of the highest score, leftmost first. */
// SPDX-License-Identifier: Apache-2.0
#include "server/spm.h"

#include <math.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { TEXT_MAX = 50, PART_MAX = 2 * VOCABULARY_FILE_TEXT };

static struct vocabulary_file file;
static uint32_t state;

static uint32_t below(uint32_t n)
{
    state = state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)state * n) >> 32);
}

static int spelt_id(const char *text)
{
    for (int id = SF_SPACE; id < file.n_tokens; id++)
        if (strcmp(file.tokens[id], text) == 0)
            return id;
    return -1;
}

/* A control token is no token of a text. */
static int token_id(const char *text)
{
    int id = spelt_id(text);
    return id < 0 || file.kinds[id] == TOKEN_CONTROL ? -1 : id;
}

static void append(char *text, size_t room, const char *more)
{
    size_t len = strlen(text);
    ck_assert_uint_lt(len + strlen(more), room);
    memcpy(text + len, more, strlen(more) + 1);
}

/* Characters of one, two and three bytes; the last is no token. */
static const char *const letters[] = {"a", "b", "\xc3\xa9", "\xe2\x96\x81", "\xe2\x82\xac"};

/* Strings over the letters with scores of which many are equal, some infinite, some of either sign. */
static void random_tokens(void)
{
    static const float scores[] = {-3, -2, -1, -0.0f, 0, 1.5f, -1e30f, -INFINITY, INFINITY};
    vocabulary_file_init_spm(&file);
    file.n_tokens = file.n_kinds = file.n_scores = SF_SPACE;
    while (file.n_tokens < VOCABULARY_FILE_TOKENS - 40) {
        char text[VOCABULARY_FILE_TEXT] = "";
        uint32_t first = (uint32_t)(file.n_tokens - SF_SPACE);
        if (first < 4)
            append(text, sizeof text, letters[first]);
        else
            for (uint32_t k = 0, len = 2 + below(5); k < len; k++)
                append(text, sizeof text, letters[below(4)]);
        if (spelt_id(text) >= 0)
            continue;
        vocabulary_file_set(file.tokens[file.n_tokens], text);
        file.kinds[file.n_tokens] = below(20) == 0 && first > 4 ? TOKEN_CONTROL : TOKEN_NORMAL;
        file.scores[file.n_tokens++] = scores[below(ARRAY_LEN(scores))];
        file.n_kinds = file.n_scores = file.n_tokens;
    }
}

/* The definition, by spellings; returns the number of parts. */
static int merge_plainly(char parts[TEXT_MAX][PART_MAX], int n)
{
    for (;;) {
        int best = -1;
        float best_score = 0;
        for (int i = 0; i + 1 < n; i++) {
            char joined[PART_MAX] = "";
            append(joined, sizeof joined, parts[i]);
            append(joined, sizeof joined, parts[i + 1]);
            int id = token_id(joined);
            if (id >= 0 && (best < 0 || file.scores[id] > best_score)) {
                best = i;
                best_score = file.scores[id];
            }
        }
        if (best < 0)
            return n;
        append(parts[best], PART_MAX, parts[best + 1]);
        memmove(parts[best + 1], parts[best + 2], (size_t)(n - best - 2) * PART_MAX);
        n--;
    }
}

struct made {
    char *bytes;
    struct gguf *gguf;
    struct token_index *index;
    struct vocabulary *vocabulary;
    struct spm *spm;
};

static struct made make(void)
{
    static const struct vocabulary_rules rules = {
        .spelling = SPELLING_SPACES, .bos = TOKEN_NONE, .eos = TOKEN_NONE, .unknown = TOKEN_NONE};
    struct made m = {0};
    struct why why = {.text = ""};
    m.gguf = vocabulary_file_gguf(&file, &m.bytes);
    ck_assert_int_eq(token_index_new(m.gguf, &m.index, NULL), OK);
    ck_assert_int_eq(vocabulary_new(m.gguf, m.index, &rules, &m.vocabulary, NULL), OK);
    ck_assert_msg(spm_new(m.gguf, m.vocabulary, &m.spm, &why) == OK, "%s", why.text);
    return m;
}

static void unmake(struct made *m)
{
    spm_free(&m->spm);
    vocabulary_free(&m->vocabulary);
    token_index_free(&m->index);
    gguf_free(&m->gguf);
    mem_free(m->bytes);
}

static void assert_agrees(const struct made *m, struct merging *merging)
{
    static char parts[TEXT_MAX][PART_MAX];
    char text[TEXT_MAX * 4] = "";
    int n = (int)below(TEXT_MAX);
    for (int i = 0; i < n; i++) {
        parts[i][0] = '\0';
        append(parts[i], PART_MAX, letters[below(10) == 0 ? 4 : below(4)]);
        append(text, sizeof text, strcmp(parts[i], letters[3]) == 0 && below(2) ? " " : parts[i]);
    }
    n = merge_plainly(parts, n);
    struct token_ids ids;
    token_ids_init(&ids, 4 * TEXT_MAX);
    ck_assert_int_eq(spm_encode(m->spm, merging, (struct slice){text, strlen(text)}, false, &ids, NULL), OK);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int id = token_id(parts[i]);
        if (id >= 0)
            ck_assert_uint_eq(ids.ids[at++], (uint32_t)id);
        for (size_t k = 0; id < 0 && k < strlen(parts[i]); k++)
            ck_assert_uint_eq(ids.ids[at++], SF_BYTES + (uint8_t)parts[i][k]);
    }
    ck_assert_uint_eq(at, ids.count);
    token_ids_release(&ids);
}

START_TEST(agrees_with_the_definition)
{
    state = (uint32_t)_i + 1;
    random_tokens();
    struct made m = make();
    struct merging merging = {0};
    for (int texts = 0; texts < 25; texts++)
        assert_agrees(&m, &merging);
    merging_release(&merging);
    unmake(&m);
}
END_TEST

START_TEST(the_longest_part_and_one_character_more)
{
    vocabulary_file_init_spm(&file);
    struct made m = make();
    struct merging merging = {0};
    struct token_ids ids;
    struct why why = {.text = ""};
    enum { N = MERGING_SYMBOLS_MAX };
    char *text = mem_alloc(N + 3);
    ck_assert_ptr_nonnull(text);
    memset(text, 'l', N + 3);
    text[N] = 'x'; /* in no token, so that the text is cut beside it */
    token_ids_init(&ids, 10);
    ck_assert_int_eq(spm_encode(m.spm, &merging, (struct slice){text, N + 3}, false, &ids, NULL), OK);
    ck_assert_uint_eq(ids.count, N / 2 + 2);
    text[N] = 'l';
    ck_assert_int_eq(spm_encode(m.spm, &merging, (struct slice){text, N + 1}, false, &ids, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "prompt: 1048577 characters without a break; at most 1048576 are served");
    token_ids_release(&ids);
    merging_release(&merging);
    mem_free(text);
    unmake(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spm");
    TCase *tcase = tcase_create("spm");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, the_longest_part_and_one_character_more);
    tcase_add_loop_test(tcase, agrees_with_the_definition, 0, 30);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
