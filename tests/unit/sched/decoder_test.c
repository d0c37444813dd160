/* decoder_test.c: the decoder against a float64 forward pass, and its refusals. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder.h"

#include <check.h>
#include <math.h>

#include "config/mem.h"
#include "tests/support/engine_rig.h"
#include "tests/support/reference_forward.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { TOKENS = 300, GGML_F32 = 0, GGML_F16 = 1, GGML_BF16 = 30 };

/* Mean absolute difference of the chosen tokens' logprobs. */
static double mean_difference(uint32_t type, const char *cache_type)
{
    struct small_model shape = small_model_default();
    shape.type = shape.head_type = type;
    shape.layers = 3;
    size_t len;
    char *bytes = small_model_bytes(&shape, &len);
    struct gguf *gguf;
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    struct engine_options o = rig_options();
    o.cache_type = cache_type;
    struct rig *rig = rig_new(gguf, &o);
    uint32_t ids[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 31 + i * 7) % shape.vocab;
    double chosen[TOKENS], sum = 0.0;
    reference_forward(rig_parts(rig)->model, ids, TOKENS, chosen);
    struct rig_outcome got = {0};
    struct rig_spec spec = {.ids = ids, .n_ids = TOKENS, .logprobs = 0, .prompt_logprobs = true};
    rig_submit(rig, &spec, &got);
    rig_run(rig, 1000);
    ck_assert_uint_eq(got.n_outputs, TOKENS);
    for (uint32_t t = 0; t + 1 < TOKENS; t++)
        sum += fabs(chosen[t] - (double)got.outputs[t + 1].logprob);
    rig_outcome_release(&got);
    rig_free(&rig);
    gguf_free(&gguf);
    mem_free(bytes);
    return sum / (TOKENS - 1);
}

static void check_below(uint32_t type, const char *cache_type, double bound)
{
    double mean = mean_difference(type, cache_type);
    printf("ggml type %u, %s K/V: mean difference %.2e (bound %.0e)\n", type, cache_type, mean,
           bound);
    ck_assert_double_lt(mean, bound);
    ck_assert_double_gt(mean, 0.0);
}

START_TEST(f32_weights_and_f32_pages)
{
    check_below(GGML_F32, "f32", 2e-5);
}
END_TEST

START_TEST(f16_weights_and_f16_pages)
{
    check_below(GGML_F16, "f16", 1e-3);
}
END_TEST

START_TEST(bf16_weights_and_f16_pages)
{
    check_below(GGML_BF16, "f16", 1e-3);
}
END_TEST

START_TEST(a_plan_for_other_pages_is_refused)
{
    struct small_model shape = small_model_default();
    size_t len;
    char *bytes = small_model_bytes(&shape, &len);
    struct gguf *gguf;
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    struct engine_options o = rig_options();
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
    tcase_add_test(tc, f32_weights_and_f32_pages);
    tcase_add_test(tc, f16_weights_and_f16_pages);
    tcase_add_test(tc, bf16_weights_and_f16_pages);
    tcase_add_test(tc, a_plan_for_other_pages_is_refused);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
