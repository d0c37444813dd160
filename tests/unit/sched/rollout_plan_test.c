/* rollout_plan_test.c: plan files: what is taken, each refusal in its words, and one hash for one meaning. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_plan.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

#define STEP(weight) "{\"weight_bp\":" weight ",\"min_requests\":1000,\"max_seconds\":60}"
#define PLAN(more) "{\"steps\":[" STEP("100") "]," more "}"

static enum status parse(const char *text, struct rollout_plan *ret_plan, struct why *ret_why)
{
    return rollout_plan_parse((struct slice){text, strlen(text)}, ret_plan, ret_why);
}

static char *written(const struct rollout_plan *plan, uint8_t ret_hash[SHA256_BYTES])
{
    char *text = NULL;
    ck_assert_int_eq(rollout_plan_write(plan, &text, ret_hash), OK);
    return text;
}

START_TEST(a_plan_is_read)
{
    struct rollout_plan plan;
    struct why why = {0};
    enum status s =
        parse("{\"cap_bp\":1000,\"auto_approve\":true,\"steps\":[" STEP("100") "," STEP(
                  "9000") "],"
                          "\"gates\":{\"tpot_p99\":{\"eps_ppm\":50000},"
                          "\"quality\":{\"eps_ppm\":5,\"slices\":{\"prose\":7,\"code\":0}}}}",
              &plan, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    ck_assert_uint_eq(plan.n_steps, 2);
    ck_assert_uint_eq(plan.steps[1].weight_bp, 9000);
    ck_assert_uint_eq(plan.steps[1].min_requests, 1000);
    ck_assert_uint_eq(plan.cap_bp, 1000);
    ck_assert(plan.auto_approve);
    ck_assert_uint_eq(plan.thresholds.tpot_p99_eps_ppm, 50000);
    ck_assert_uint_eq(plan.thresholds.ttft_p99_eps_ppm, 250000);
    ck_assert_uint_eq(gate_thresholds_slice(&plan.thresholds, "code"), 0);
    ck_assert_uint_eq(gate_thresholds_slice(&plan.thresholds, "prose"), 7);
    ck_assert_uint_eq(gate_thresholds_slice(&plan.thresholds, "other"), 5);
}
END_TEST

/* Names of gates, thresholds and slices come sorted, whatever the file's order was. */
START_TEST(the_canonical_form_is_a_plan_with_the_same_hash)
{
    struct rollout_plan plan, again, other;
    uint8_t hash[SHA256_BYTES], hash_again[SHA256_BYTES];
    struct why why = {0};
    ck_assert_int_eq(
        parse(PLAN("\"gates\":{\"quality\":{\"slices\":{\"b\":1,\"a\":2}}}"), &plan, &why), OK);
    char *text = written(&plan, hash);
    ck_assert_ptr_nonnull(strstr(text, "\"slices\":{\"a\":2,\"b\":1}"));
    for (size_t i = 0; i < gate_threshold_count; i++)
        ck_assert_ptr_nonnull(strstr(text, gate_threshold_rows[i].name));
    ck_assert_msg(parse(text, &again, &why) == OK, "%s", why.text);
    char *text_again = written(&again, hash_again);
    ck_assert_str_eq(text, text_again);
    ck_assert_mem_eq(hash, hash_again, SHA256_BYTES);
    ck_assert_int_eq(
        parse(PLAN("\"gates\":{\"quality\":{\"slices\":{\"a\":2,\"b\":1}}}"), &other, &why), OK);
    mem_free(text_again);
    text_again = written(&other, hash_again);
    ck_assert_mem_eq(hash, hash_again, SHA256_BYTES);
    mem_free(text_again);
    other.thresholds.numerical_bound_ppb++;
    text_again = written(&other, hash_again);
    ck_assert(memcmp(hash, hash_again, SHA256_BYTES) != 0);
    mem_free(text_again);
    mem_free(text);
}
END_TEST

START_TEST(the_default_plan_is_a_plan)
{
    struct rollout_plan plan, again;
    struct why why = {0};
    rollout_plan_defaults(&plan);
    char *text = written(&plan, NULL);
    ck_assert_msg(parse(text, &again, &why) == OK, "%s", why.text);
    ck_assert_uint_eq(again.n_steps, 3);
    mem_free(text);
}
END_TEST

static const struct {
    const char *text, *says;
} refusals[] = {
    {"[]", "the plan is []: an object is needed"},
    {"{}", "steps is missing: an array of 1 to 16 elements is needed"},
    {"{\"steps\":[]}", "steps is []: an array of 1 to 16 elements is needed"},
    {"{\"steps\":[{\"min_requests\":1000,\"max_seconds\":60}]}",
     "steps[0].weight_bp is missing: a whole number"},
    {"{\"steps\":[" STEP("0") "]}", "steps[0].weight_bp is 0: a whole number from 1"},
    {"{\"steps\":[" STEP("100.5") "]}", "steps[0].weight_bp is 100.5: a whole number"},
    {"{\"steps\":[" STEP("\"100\"") "]}", "steps[0].weight_bp is \"100\": a whole number"},
    {"{\"steps\":[" STEP("10001") "]}",
     "steps[0].weight_bp is 10001: 10000 basis points are 100 %"},
    {"{\"steps\":[" STEP("9501") "]}",
     "steps[0].weight_bp is 9501: a judged step ends at 9500 (10000 - cap_bp)"},
    {"{\"cap_bp\":1000,\"steps\":[" STEP("9001") "]}", "ends at 9000"},
    {"{\"steps\":[" STEP("500") "," STEP("100") "]}",
     "steps[1].weight_bp is 100: weights rise: more than the 500 before it is needed"},
    {"{\"steps\":[" STEP("500") "," STEP("500") "]}", "steps[1].weight_bp is 500: weights rise"},
    {"{\"steps\":[{\"weight_bp\":1,\"min_requests\":99,\"max_seconds\":60}]}",
     "steps[0].min_requests is 99: a whole number from 100"},
    {"{\"steps\":[{\"weight_bp\":1,\"min_requests\":100}]}",
     "steps[0].max_seconds is missing: a whole number from 1"},
    {"{\"steps\":[{\"weight_bp\":1,\"min_requests\":100,\"max_seconds\":60,\"pace\":1}]}",
     "steps[0].pace is unknown: there are weight_bp, min_requests, max_seconds"},
    {PLAN("\"alpha\":1"), "alpha is unknown: there are steps, cap_bp"},
    {PLAN("\"alpha_ppm\":5"), "alpha_ppm is 5: a whole number from 1000 to 1000"},
    {PLAN("\"schema\":\"foldkv.rollout_plan/2\""), "schema is \"foldkv.rollout_plan/2\""},
    {PLAN("\"cap_bp\":0"), "cap_bp is 0: a whole number from 1 to 5000"},
    {PLAN("\"auto_approve\":1"), "auto_approve is 1: true or false"},
    {PLAN("\"gates\":null"), "gates is null: an object is needed"},
    {PLAN("\"gates\":{\"tpot\":{}}"), "gates.tpot is unknown: there are allocator_drift"},
    {PLAN("\"gates\":{\"tpot_p99\":null}"), "gates.tpot_p99 is null: an object is needed"},
    {PLAN("\"gates\":{\"tpot_p99\":{\"eps_ppm\":null}}"),
     "gates.tpot_p99.eps_ppm is null: a whole number from 10000 to 1000000000"},
    {PLAN("\"gates\":{\"tpot_p99\":{\"eps_ppm\":\"\"}}"), "gates.tpot_p99.eps_ppm is \"\""},
    {PLAN("\"gates\":{\"tpot_p99\":{\"eps_ppm\":1}}"),
     "gates.tpot_p99.eps_ppm is 1: a whole number"},
    {PLAN("\"gates\":{\"tpot_p99\":{\"eps\":1}}"),
     "gates.tpot_p99.eps is unknown: the gate has eps_ppm"},
    {PLAN("\"gates\":{\"fallback\":{\"count_max\":1}}"),
     "gates.fallback.count_max is 1: a whole number from 0 to 0"},
    {PLAN("\"gates\":{\"quality\":{\"slices\":{\"Code\":1}}}"), "gates.quality.slices.Code"},
    {PLAN("\"gates\":{\"quality\":{\"slices\":{\"code\":-1}}}"), "gates.quality.slices.code is -1"},
    {PLAN("\"gates\":{\"quality\":{\"slices\":[]}}"), "gates.quality.slices is []"},
    {"{\"steps\":1,\"steps\":2}", "the plan is not JSON"},
};

START_TEST(refusals_name_field_value_and_what_is_right)
{
    struct rollout_plan plan;
    struct why why = {0};
    ck_assert_int_eq(parse(refusals[_i].text, &plan, &why), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(why.text, refusals[_i].says) != NULL, "'%s' is not in '%s'",
                  refusals[_i].says, why.text);
}
END_TEST

/* Every threshold: least and most are taken, one beyond is not. */
START_TEST(every_threshold_keeps_its_range)
{
    const struct gate_threshold_row *row = &gate_threshold_rows[_i];
    const int64_t values[] = {row->least, row->most, (int64_t)row->least - 1,
                              (int64_t)row->most + 1};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct rollout_plan plan;
        struct why why = {0};
        char text[256];
        snprintf(text, sizeof text, PLAN("\"gates\":{\"%s\":{\"%s\":%lld}}"), row->gate, row->name,
                 (long long)values[i]);
        enum status s = parse(text, &plan, &why);
        ck_assert_msg((s == OK) == (i < 2), "%s: %s", text, why.text);
        if (i < 2)
            ck_assert_int_eq(gate_threshold_value(&plan.thresholds, (size_t)_i), values[i]);
        else
            ck_assert_ptr_nonnull(strstr(why.text, row->name));
    }
    ck_assert_uint_ge(row->value, row->least);
    ck_assert_uint_le(row->value, row->most);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
    struct rollout_plan plan;
    struct why why = {0};
    ck_assert_int_eq(rollout_plan_read_file("/nowhere/plan.json", &plan, &why), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/plan.json"));
    ck_assert_int_eq(rollout_plan_read_file("/dev/zero", &plan, &why), STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(why.text, "more than 65536 bytes"));
    ck_assert_int_eq(rollout_plan_read_file("/dev/null", &plan, &why), STATUS_BAD_REQUEST);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rollout_plan");
    TCase *tc = tcase_create("rollout_plan");
    tcase_add_test(tc, a_plan_is_read);
    tcase_add_test(tc, the_canonical_form_is_a_plan_with_the_same_hash);
    tcase_add_test(tc, the_default_plan_is_a_plan);
    tcase_add_loop_test(tc, refusals_name_field_value_and_what_is_right, 0,
                        (int)ARRAY_LEN(refusals));
    tcase_add_loop_test(tc, every_threshold_keeps_its_range, 0, (int)gate_threshold_count);
    tcase_add_test(tc, a_file_that_cannot_be_read_is_named);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
