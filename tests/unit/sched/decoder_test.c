/* decoder_test.c: the decoder against a float64 forward pass, and its refusals. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder.h"

#include <check.h>
#include <math.h>

#include "config/mem.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/engine_rig.h"
#include "tests/support/model_shapes.h"
#include "tests/support/reference_forward.h"
#include "tests/support/suite_run.h"

enum { TOKENS = 300, GGML_F32 = 0, GGML_F16 = 1, GGML_BF16 = 30 };

static struct gguf *make_model(int shape, uint32_t type, char **ret_bytes)
{
    struct small_model model = model_shape_at((size_t)shape).model;
    model.type = model.head_type = type;
    return small_model_open(&model, ret_bytes);
}

/* Mean absolute difference of the chosen tokens' logprobs. */
static double mean_difference(int shape, uint32_t type, enum kv_type kv_type)
{
    char *bytes;
    struct gguf *gguf = make_model(shape, type, &bytes);
    struct decoder_rig rig;
    decoder_rig_init(&rig, gguf, kv_type, NULL, 2, TOKENS);
    uint32_t ids[TOKENS], top1[TOKENS], vocab = rig.model->graph->vocab;
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 31 + i * 7) % vocab;
    double want[TOKENS], got[TOKENS], sum = 0.0;
    reference_forward(rig.model, ids, TOKENS, want);
    decoder_rig_score(&rig, ids, TOKENS, 64, got, top1);
    for (uint32_t t = 0; t + 1 < TOKENS; t++)
        sum += fabs(want[t] - got[t]);
    decoder_rig_release(&rig);
    gguf_free(&gguf);
    mem_free(bytes);
    return sum / (TOKENS - 1);
}

static void check_below(int shape, uint32_t type, enum kv_type kv_type, double bound)
{
    double mean = mean_difference(shape, type, kv_type);
    printf("%s, ggml type %u, K/V type %d: mean difference %.2e (bound %.0e)\n",
           model_shape_at((size_t)shape).name, type, (int)kv_type, mean, bound);
    ck_assert_double_lt(mean, bound);
    ck_assert_double_gt(mean, 0.0);
}

START_TEST(f32_weights_and_f32_pages)
{
    check_below(_i, GGML_F32, KV_F32, 2e-5);
}
END_TEST

START_TEST(f16_weights_and_f16_pages)
{
    check_below(_i, GGML_F16, KV_F16, 1e-3);
}
END_TEST

START_TEST(bf16_weights_and_f16_pages)
{
    check_below(_i, GGML_BF16, KV_F16, 1e-3);
}
END_TEST

/* The rounding of K and V to eight bits is the whole of the difference. */
START_TEST(f16_weights_and_int8_pages)
{
    check_below(_i, GGML_F16, KV_I8, 2e-2);
}
END_TEST

/* Rows alone, in twos, in large chunks; one thread and three; scalar and vectors. */
START_TEST(chunks_threads_and_sets_change_no_bit)
{
    enum { FEW = 150 };
    static const struct {
        const char *isa;
        uint32_t threads, chunk;
    } ways[] = {{"scalar", 1, FEW}, {NULL, 1, 1}, {NULL, 3, 1}, {NULL, 2, 2}, {NULL, 3, 37}};
    char *bytes;
    struct gguf *gguf = make_model(_i, GGML_F16, &bytes);
    double want[FEW], got[FEW];
    uint32_t ids[FEW], top1[FEW];
    for (uint32_t i = 0; i < FEW; i++)
        ids[i] = (i * 37 + i / 3) % 256;
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct decoder_rig rig;
        decoder_rig_init(&rig, gguf, KV_F16, ways[w].isa, ways[w].threads, FEW);
        decoder_rig_score(&rig, ids, FEW, ways[w].chunk, w == 0 ? want : got, top1);
        for (uint32_t t = 0; w > 0 && t + 1 < FEW; t++)
            ck_assert_msg(memcmp(&want[t], &got[t], sizeof got[t]) == 0,
                          "%s, way %zu, token %u: %a and %a", model_shape_at((size_t)_i).name, w, t, want[t],
                          got[t]);
        decoder_rig_release(&rig);
    }
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

/* The last layer is worked through for the last row of each chunk alone. */
START_TEST(rows_not_asked_for_change_no_bit)
{
    enum { FEW = 150, CHUNK = 37 };
    char *bytes;
    struct gguf *gguf = make_model(_i, GGML_F16, &bytes);
    struct decoder_rig all, last;
    uint32_t ids[FEW];
    for (uint32_t i = 0; i < FEW; i++)
        ids[i] = (i * 37 + i / 3) % 256;
    decoder_rig_init(&all, gguf, KV_F16, NULL, 2, FEW);
    decoder_rig_init(&last, gguf, KV_F16, NULL, 3, FEW);
    last.asks_last_only = true;
    for (uint32_t first = 0; first < FEW; first += CHUNK) {
        uint32_t n = FEW - first < CHUNK ? FEW - first : CHUNK, row = n - 1;
        decoder_rig_step(&all, ids, first, n);
        decoder_rig_step(&last, ids, first, n);
        ck_assert_mem_eq(decoder_logits(all.decoder, &row, 1),
                         decoder_logits(last.decoder, &row, 1), 256 * sizeof(float));
    }
    decoder_rig_release(&all);
    decoder_rig_release(&last);
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

START_TEST(a_plan_for_other_pages_is_refused)
{
    struct small_model shape = small_model_default();
    size_t len;
    char *bytes = small_model_bytes(&shape, &len);
    struct gguf *gguf;
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    struct rig_options o = rig_options();
    struct rig *rig = rig_new(gguf, &o);
    struct rig_outcome got = {0};
    uint32_t ids[3] = {1, 2, 3};
    struct rig_spec spec = {.ids = ids, .n_ids = 3, .max_tokens = 4, .logprobs = -1};
    rig_parts(rig)->model->manifest->architecture_hash[0] ^= 1; /* the plan was made for another */
    rig_submit(rig, &spec, &got);
    rig_run(rig, 1000);
    ck_assert_int_eq(got.reason, FINISH_ERROR);
    ck_assert_int_eq(got.error, STATUS_STALE_PLAN);
    ck_assert_uint_eq(got.n_outputs, 0);
    rig_outcome_release(&got);
    rig_free(&rig);
    gguf_free(&gguf);
    mem_free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder");
    TCase *tc = tcase_create("decoder");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, f32_weights_and_f32_pages, 0, MODEL_SHAPES);
    tcase_add_loop_test(tc, f16_weights_and_f16_pages, 0, MODEL_SHAPES);
    tcase_add_loop_test(tc, bf16_weights_and_f16_pages, 0, 1);
    tcase_add_loop_test(tc, f16_weights_and_int8_pages, 0, MODEL_SHAPES);
    tcase_add_loop_test(tc, chunks_threads_and_sets_change_no_bit, 0, MODEL_SHAPES);
    tcase_add_loop_test(tc, rows_not_asked_for_change_no_bit, 0, MODEL_SHAPES);
    tcase_add_test(tc, a_plan_for_other_pages_is_refused);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
