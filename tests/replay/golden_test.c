/* golden_test.c: checkpoints against facts that were not made by this program: log-probabilities of
 * a float64 forward pass over the exact weights.
 *
 * HOW     The lists of tests/data are scored by teacher forcing in chunks of 256. The bounds are
 *         what llama.cpp reaches on the same files and lists (f16 K/V): the mean absolute
 *         difference of the ids that follow, and the share of positions whose likeliest id is the
 *         reference's.
 */
// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <jansson.h>
#include <math.h>

#include "config/mem.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/suite_run.h"

enum { TOKENS_MAX = 2048, CHUNK = 256, POSITIONS_LEAST = 2500 };

static const struct checkpoint {
    const char *name;
    const char *path_from; /* the environment */
    double mean_most, top1_least;
} checkpoints[] = {
    {"gemma3", "FOLDKV_TEST_GEMMA", 0.0275, 0.980},
    {"qwen2", "FOLDKV_TEST_QWEN", 0.0095, 0.993},
};

struct tally {
    double sum, largest;
    uint32_t n, agreed, n_top1;
};

static json_t *load(const char *name, const char *what)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, TESTS_DATA "/%s-%s.json", name, what);
    json_t *json = json_load_file(path, 0, &error);
    ck_assert_msg(json != NULL, "%s: %s", path, error.text);
    return json;
}

static void score_list(struct decoder_rig *rig, const json_t *list, const json_t *chosen,
                       const json_t *top1, struct tally *tally)
{
    static uint32_t ids[TOKENS_MAX], got_top1[TOKENS_MAX];
    static double got[TOKENS_MAX];
    uint32_t n = (uint32_t)json_array_size(list);
    ck_assert_uint_le(n, TOKENS_MAX);
    ck_assert_uint_eq(json_array_size(chosen), n - 1);
    ck_assert_uint_eq(json_array_size(top1), n);
    for (uint32_t t = 0; t < n; t++)
        ids[t] = (uint32_t)json_integer_value(json_array_get(list, t));
    decoder_rig_score(rig, ids, n, CHUNK, got, got_top1);
    for (uint32_t t = 0; t < n; t++) {
        tally->agreed += got_top1[t] == (uint32_t)json_integer_value(json_array_get(top1, t));
        tally->n_top1++;
        if (t + 1 == n)
            continue;
        double difference = fabs(got[t] - json_number_value(json_array_get(chosen, t)));
        tally->largest = fmax(tally->largest, difference);
        tally->sum += difference;
        tally->n++;
    }
}

static void check_checkpoint(const struct checkpoint *c)
{
    const char *path = getenv(c->path_from);
    ck_assert_msg(path != NULL, "%s is not set", c->path_from);
    struct gguf *gguf;
    struct why why = {0};
    ck_assert_msg(gguf_open(path, &gguf, &why) == OK, "%s", why.text);
    struct decoder_rig rig;
    decoder_rig_init(&rig, gguf, KV_F16, NULL, 2, TOKENS_MAX);
    gguf_free(&gguf);
    json_t *lists = load(c->name, "ids"), *reference = load(c->name, "reference");
    const json_t *chosen = json_object_get(reference, "chosen");
    const json_t *top1 = json_object_get(reference, "top1");
    struct tally tally = {0};
    for (size_t i = 0; i < json_array_size(lists); i++)
        score_list(&rig, json_array_get(lists, i), json_array_get(chosen, i),
                   json_array_get(top1, i), &tally);
    double mean = tally.sum / tally.n, share = (double)tally.agreed / tally.n_top1;
    printf("%s: mean difference %.5f (at most %.4f), largest %.3f, top-1 %.4f (at least %.3f), %u "
           "positions\n",
           c->name, mean, c->mean_most, tally.largest, share, c->top1_least, tally.n);
    ck_assert_uint_gt(tally.n, POSITIONS_LEAST);
    ck_assert_double_le(mean, c->mean_most);
    ck_assert_double_ge(share, c->top1_least);
    json_decref(lists);
    json_decref(reference);
    decoder_rig_release(&rig);
}

START_TEST(gemma3)
{
    check_checkpoint(&checkpoints[0]);
}
END_TEST

START_TEST(qwen2)
{
    check_checkpoint(&checkpoints[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    const struct {
        const char *name;
        const TTest *test;
    } cases[] = {{"gemma", gemma3}, {"qwen", qwen2}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        TCase *tc = tcase_create(cases[i].name);
        tcase_set_timeout(tc, 300);
        tcase_add_test(tc, cases[i].test);
        suite_add_tcase(suite, tc);
    }
    return suite_run(suite);
}
