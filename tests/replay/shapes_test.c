/* shapes_test.c: every architecture and head arrangement against facts that were not made by this program:
 * log-probabilities of a float64 forward pass over the same files.
 *
 * WHY     A reference that walks our own graph agrees with a graph that is read wrong.
 * HOW     The small files are written again and must be, byte for byte, those that the other program read: their SHA-256 stands
 *         beside its figures in tests/data/shapes-reference.json (tests/support/shapes_reference.py). They are scored by
 *         teacher forcing, over a window and over several chunks.
 */
// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <jansson.h>
#include <math.h>

#include "config/mem.h"
#include "config/sha256.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/model_shapes.h"
#include "tests/support/suite_run.h"

enum { TOKENS = 300, GGML_F32 = 0, GGML_F16 = 1, FILES = 2 * MODEL_SHAPES };

/* What the weights and the K/V are stored in, and the mean absolute difference that it may make. */
static const struct precision {
    const char *name;
    uint32_t type;
    enum kv_type kv_type;
    double mean_most;
} precisions[] = {{"F32", GGML_F32, KV_F32, 2e-5}, {"F16", GGML_F16, KV_F16, 1e-3}};

static json_t *reference;

static const char *text_of(const json_t *file, const char *key)
{
    return json_string_value(json_object_get(file, key));
}

static const struct precision *precision_of(const json_t *file)
{
    for (size_t i = 0; i < ARRAY_LEN(precisions); i++)
        if (strcmp(precisions[i].name, text_of(file, "type")) == 0)
            return &precisions[i];
    ck_abort_msg("no precision is named %s", text_of(file, "type"));
}

/* The very file that the reference read. */
static char *bytes_of(const json_t *file, const struct precision *precision, size_t *ret_len)
{
    struct small_model model;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX];
    ck_assert(model_shape_find(text_of(file, "shape"), &model));
    model.type = model.head_type = precision->type;
    char *bytes = small_model_bytes(&model, ret_len);
    ck_assert_int_eq(sha256_of(bytes, *ret_len, hash), OK);
    sha256_hex(hash, hex);
    ck_assert_msg(strcmp(hex, text_of(file, "sha256")) == 0,
                  "%s is not the file that the reference read: run tests/support/shapes_reference.py",
                  text_of(file, "shape"));
    return bytes;
}

static void score(const char *bytes, size_t len, const struct precision *precision,
                  double ret_chosen[TOKENS], uint32_t ret_top1[TOKENS])
{
    struct gguf *gguf;
    struct why why = {0};
    struct decoder_rig rig;
    uint32_t ids[TOKENS];
    const json_t *list = json_object_get(reference, "ids");
    ck_assert_uint_eq(json_array_size(list), TOKENS);
    for (uint32_t t = 0; t < TOKENS; t++)
        ids[t] = (uint32_t)json_integer_value(json_array_get(list, t));
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    decoder_rig_init(&rig, gguf, precision->kv_type, NULL, 2, TOKENS);
    decoder_rig_score(&rig, ids, TOKENS, 64, ret_chosen, ret_top1);
    decoder_rig_release(&rig);
    gguf_free(&gguf);
}

START_TEST(a_shape_is_what_another_program_makes_of_it)
{
    const json_t *file = json_array_get(json_object_get(reference, "files"), (size_t)_i);
    const json_t *chosen = json_object_get(file, "chosen"), *top1 = json_object_get(file, "top1");
    const struct precision *precision = precision_of(file);
    double got[TOKENS], sum = 0.0, largest = 0.0;
    uint32_t got_top1[TOKENS], n_agreed = 0;
    size_t len;
    char *bytes = bytes_of(file, precision, &len);
    ck_assert_uint_eq(json_array_size(chosen), TOKENS - 1);
    ck_assert_uint_eq(json_array_size(top1), TOKENS);
    score(bytes, len, precision, got, got_top1);
    for (uint32_t t = 0; t < TOKENS; t++) {
        n_agreed += got_top1[t] == (uint32_t)json_integer_value(json_array_get(top1, t));
        if (t + 1 == TOKENS)
            continue;
        double difference = fabs(got[t] - json_number_value(json_array_get(chosen, t)));
        largest = fmax(largest, difference);
        sum += difference;
    }
    double mean = sum / (TOKENS - 1);
    printf("%s, %s: mean difference %.2e (below %.0e), largest %.1e, likeliest id %u of %d\n",
           text_of(file, "shape"), precision->name, mean, precision->mean_most, largest, n_agreed,
           TOKENS);
    ck_assert_double_lt(mean, precision->mean_most);
    ck_assert_uint_ge(n_agreed, TOKENS - 3);
    mem_free(bytes);
}
END_TEST

START_TEST(every_shape_is_there_in_every_precision)
{
    const json_t *files = json_object_get(reference, "files"), *file;
    size_t i;
    ck_assert_uint_eq(json_array_size(files), FILES);
    for (size_t shape = 0; shape < MODEL_SHAPES; shape++) {
        uint32_t n = 0;
        json_array_foreach((json_t *)(uintptr_t)files, i, file)
            n += strcmp(text_of(file, "shape"), model_shape_at(shape).name) == 0;
        ck_assert_msg(n == ARRAY_LEN(precisions), "%s", model_shape_at(shape).name);
    }
}
END_TEST

int main(void)
{
    json_error_t error;
    reference = json_load_file(TESTS_DATA "/shapes-reference.json", 0, &error);
    if (reference == NULL) {
        fprintf(stderr, "shapes-reference.json: %s\n", error.text);
        return 1;
    }
    Suite *suite = suite_create("shapes");
    TCase *tc = tcase_create("shapes");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_shape_is_there_in_every_precision);
    tcase_add_loop_test(tc, a_shape_is_what_another_program_makes_of_it, 0, FILES);
    suite_add_tcase(suite, tc);
    int code = suite_run(suite);
    json_decref(reference);
    return code;
}
