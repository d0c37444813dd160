/* bpe_test.c: merges of random vocabularies against the definition: again and again, the pair of least rank, leftmost first. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/bpe.h"
#include "tests/support/suite_run.h"
#include "tests/support/vocabulary_file.h"

enum { WORD_MAX = 200 };

static struct vocabulary_file file;
static uint32_t state;

static uint32_t below(uint32_t n)
{
    state = state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)state * n) >> 32);
}

static int token_id(const char *text)
{
    for (int id = 0; id < file.n_tokens; id++)
        if (strcmp(file.tokens[id], text) == 0)
            return id;
    return -1;
}

/* Merges of two random tokens over a, b and c, whose result is new. */
static void random_merges(void)
{
    vocabulary_file_init(&file);
    file.n_merges = 0;
    int first = file.n_tokens;
    for (int tries = 0; tries < 400 && file.n_merges < VOCABULARY_FILE_MERGES; tries++) {
        const char *part[2];
        for (int i = 0; i < 2; i++) {
            uint32_t pick = below(3 + (uint32_t)(file.n_tokens - first));
            part[i] = file.tokens[pick < 3 ? (int)('a' + pick) : first + (int)pick - 3];
        }
        char joined[2 * VOCABULARY_FILE_TEXT], merge[2 * VOCABULARY_FILE_TEXT];
        snprintf(joined, sizeof joined, "%s%s", part[0], part[1]);
        snprintf(merge, sizeof merge, "%s %s", part[0], part[1]);
        if (strlen(joined) > 9 || token_id(joined) >= 0)
            continue;
        vocabulary_file_set(file.merges[file.n_merges++], merge);
        vocabulary_file_set(file.tokens[file.n_tokens], joined);
        file.kinds[file.n_tokens++] = 1;
        file.n_kinds = file.n_tokens;
    }
}

/* Ids of what each merge joins and makes. */
static void read_merges(int ret_ids[VOCABULARY_FILE_MERGES][3])
{
    for (int rank = 0; rank < file.n_merges; rank++) {
        char left[VOCABULARY_FILE_TEXT], right[VOCABULARY_FILE_TEXT], joined[2 * VOCABULARY_FILE_TEXT];
        ck_assert_int_eq(sscanf(file.merges[rank], "%23s %23s", left, right), 2);
        snprintf(joined, sizeof joined, "%s%s", left, right);
        ret_ids[rank][0] = token_id(left);
        ret_ids[rank][1] = token_id(right);
        ret_ids[rank][2] = token_id(joined);
    }
}

/* The definition. */
static int merge_plainly(const char *word, int ids[WORD_MAX])
{
    int n = (int)strlen(word), merges[VOCABULARY_FILE_MERGES][3];
    read_merges(merges);
    for (int i = 0; i < n; i++)
        ids[i] = (uint8_t)word[i];
    for (int rank = 0; rank < file.n_merges;) {
        int at = 0;
        while (at + 1 < n && (ids[at] != merges[rank][0] || ids[at + 1] != merges[rank][1]))
            at++;
        if (at + 1 >= n) {
            rank++;
            continue;
        }
        ids[at] = merges[rank][2];
        memmove(&ids[at + 1], &ids[at + 2], (size_t)(n - at - 2) * sizeof ids[0]);
        n--;
        rank = 0;
    }
    return n;
}

struct made {
    char *bytes;
    struct gguf *gguf;
    struct token_index *index;
    struct vocabulary *vocabulary;
    struct bpe *bpe;
};

static struct made make(void)
{
    static const struct vocabulary_rules rules = {
        .spelling = SPELLING_BYTES, .bos = TOKEN_NONE, .eos = TOKEN_NONE, .unknown = TOKEN_NONE};
    struct made m = {0};
    m.gguf = vocabulary_file_gguf(&file, &m.bytes);
    ck_assert_int_eq(token_index_new(m.gguf, &m.index, NULL), OK);
    ck_assert_int_eq(vocabulary_new(m.gguf, m.index, &rules, &m.vocabulary, NULL), OK);
    ck_assert_int_eq(bpe_new(m.gguf, m.index, m.vocabulary, &m.bpe, NULL), OK);
    return m;
}

static void unmake(struct made *m)
{
    bpe_free(&m->bpe);
    vocabulary_free(&m->vocabulary);
    token_index_free(&m->index);
    gguf_free(&m->gguf);
    mem_free(m->bytes);
}

START_TEST(agrees_with_the_definition)
{
    state = (uint32_t)_i + 1;
    random_merges();
    struct made m = make();
    struct merging merging = {0};
    for (int words = 0; words < 40; words++) {
        char word[WORD_MAX] = "";
        for (uint32_t i = 0, n = below(WORD_MAX); i < n; i++)
            word[i] = (char)('a' + below(3));
        int expected[WORD_MAX], n = merge_plainly(word, expected);
        struct token_ids ids;
        token_ids_init(&ids, WORD_MAX);
        ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){word, strlen(word)}, &ids, NULL), OK);
        ck_assert_uint_eq(ids.count, (size_t)n);
        for (int i = 0; i < n; i++)
            ck_assert_uint_eq(ids.ids[i], (uint32_t)expected[i]);
        token_ids_release(&ids);
    }
    merging_release(&merging);
    unmake(&m);
}
END_TEST

START_TEST(a_missing_byte_is_the_unknown_token)
{
    vocabulary_file_init(&file);
    vocabulary_file_set(file.tokens['z'], "zzz");
    file.unknown = VF_END_OF_TEXT;
    struct made m = make();
    struct merging merging = {0};
    struct token_ids ids;
    token_ids_init(&ids, 10);
    ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){"az", 2}, &ids, NULL), OK);
    ck_assert_uint_eq(ids.count, 2);
    ck_assert_uint_eq(ids.ids[1], VF_END_OF_TEXT);
    token_ids_release(&ids);
    merging_release(&merging);
    unmake(&m);
}
END_TEST

START_TEST(a_control_byte_without_a_token_is_refused_in_a_text)
{
    vocabulary_file_init(&file);
    vocabulary_file_set(file.tokens[0x04], "zzz");
    struct made m = make();
    struct merging merging = {0};
    struct token_ids ids;
    struct why why;
    token_ids_init(&ids, 10);
    ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){"a", 1}, &ids, &why), OK);
    ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){"a\x04", 2}, &ids, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.text, "prompt: this vocabulary has no token for byte 0x04");
    token_ids_release(&ids);
    merging_release(&merging);
    unmake(&m);
}
END_TEST

START_TEST(the_longest_word_and_one_byte_more)
{
    vocabulary_file_init(&file);
    struct made m = make();
    struct merging merging = {0};
    struct token_ids ids;
    struct why why;
    char *word = mem_alloc(MERGING_SYMBOLS_MAX + 1);
    ck_assert_ptr_nonnull(word);
    memset(word, 'l', MERGING_SYMBOLS_MAX + 1);
    token_ids_init(&ids, 10);
    ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){word, MERGING_SYMBOLS_MAX}, &ids, NULL), OK);
    ck_assert_uint_eq(ids.count, MERGING_SYMBOLS_MAX / 2);
    ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){word, MERGING_SYMBOLS_MAX + 1}, &ids, &why),
                     STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(why.text, "1048577 bytes; at most 1048576"));
    token_ids_release(&ids);
    merging_release(&merging);
    mem_free(word);
    unmake(&m);
}
END_TEST

START_TEST(no_memory_is_told)
{
    vocabulary_file_init(&file);
    struct made m = make();
    for (uint64_t n = 1; n <= 3; n++) {
        struct merging merging = {0};
        struct token_ids ids;
        token_ids_init(&ids, 10);
        mem_fail_nth(n);
        ck_assert_int_eq(bpe_encode(m.bpe, &merging, (struct slice){"hello", 5}, &ids, NULL), STATUS_NO_MEMORY);
        mem_fail_nth(0);
        token_ids_release(&ids);
        merging_release(&merging);
    }
    unmake(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bpe");
    TCase *tcase = tcase_create("bpe");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_missing_byte_is_the_unknown_token);
    tcase_add_test(tcase, a_control_byte_without_a_token_is_refused_in_a_text);
    tcase_add_test(tcase, the_longest_word_and_one_byte_more);
    tcase_add_test(tcase, no_memory_is_told);
    tcase_add_loop_test(tcase, agrees_with_the_definition, 0, 30);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
