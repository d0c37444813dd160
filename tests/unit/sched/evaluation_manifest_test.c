/* evaluation_manifest_test.c: every coordinate is in the hash, and a missing one is refused by name. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_manifest.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct evaluation_manifest manifest;

static void fill_side(struct evaluation_side *side, uint8_t first)
{
    uint8_t *hashes[] = {side->checkpoint, side->architecture, side->head_map, side->identity,
                         side->kernel_plan};
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
        memset(hashes[i], (int)(first + i), SHA256_BYTES);
    side->backend_revision = "0.1.0 x86";
    side->q_dtype = "f32";
    side->kv_dtype = "f16";
    side->accumulator_dtype = "f32";
    side->page_tokens = 64;
    side->tensor_parallel_degree = 1;
}

static void setup(void)
{
    manifest = (struct evaluation_manifest){
        .n_metrics = 1,
        .metrics = {{"continuation", "negative log-probability a token"}},
        .n_slices = 2,
        .slices = {"code", "prose"},
        .hardware = "two cores",
        .topology = "one socket",
        .matrix = {{1, {512}}, {1, {4}}, {1, {1}}},
        .warmup_runs = 1,
        .repetitions = 3,
        .repetitions_max = 5};
    memset(manifest.dataset, 1, SHA256_BYTES);
    memset(manifest.request_order, 2, SHA256_BYTES);
    memset(manifest.tokenizer, 3, SHA256_BYTES);
    fill_side(&manifest.baseline, 10);
    fill_side(&manifest.candidate, 20);
    gate_thresholds_defaults(&manifest.thresholds);
}

static void hash_of(uint8_t ret_hash[SHA256_BYTES])
{
    struct why why = {0};
    char *text = NULL;
    ck_assert_msg(evaluation_manifest_write(&manifest, &text, ret_hash, &why) == OK, "%s",
                  why.text);
    mem_free(text);
}

START_TEST(the_manifest_holds_what_the_contract_lists)
{
    static const char *const keys[] = {"dataset_sha256",
                                       "request_order_sha256",
                                       "tokenizer_sha256",
                                       "metrics",
                                       "protected_slices",
                                       "checkpoint_sha256",
                                       "architecture_sha256",
                                       "head_map_sha256",
                                       "backend_revision",
                                       "kernel_plan_sha256",
                                       "hardware",
                                       "topology",
                                       "q_dtype",
                                       "kv_dtype",
                                       "accumulator_dtype",
                                       "contexts",
                                       "active_requests",
                                       "query_lengths",
                                       "page_tokens",
                                       "tensor_parallel_degree",
                                       "warmup_runs",
                                       "repetitions",
                                       "slo_tpot_ms",
                                       "slo_ttft_ms"};
    char *text = NULL;
    ck_assert_int_eq(evaluation_manifest_write(&manifest, &text, NULL, NULL), OK);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
        ck_assert_msg(strstr(text, quoted) != NULL, "%s is not in %s", quoted, text);
    }
    mem_free(text);
}
END_TEST

/* A byte or a number of each member changed: another hash. */
START_TEST(every_coordinate_is_in_the_hash)
{
    uint8_t before[SHA256_BYTES], after[SHA256_BYTES];
    uint8_t *const bytes[] = {manifest.dataset,
                              manifest.request_order,
                              manifest.tokenizer,
                              manifest.baseline.checkpoint,
                              manifest.baseline.kernel_plan,
                              manifest.candidate.architecture,
                              manifest.candidate.head_map,
                              manifest.candidate.identity};
    uint32_t *const numbers[] = {&manifest.matrix.contexts.values[0],
                                 &manifest.matrix.active_requests.values[0],
                                 &manifest.matrix.query_lengths.values[0],
                                 &manifest.candidate.page_tokens,
                                 &manifest.baseline.tensor_parallel_degree,
                                 &manifest.warmup_runs,
                                 &manifest.repetitions,
                                 &manifest.thresholds.goodput_slo_tpot_ms,
                                 &manifest.thresholds.quality_eps_ppm};
    const char **const texts[] = {&manifest.hardware, &manifest.topology,
                                  &manifest.candidate.kv_dtype, &manifest.baseline.q_dtype,
                                  &manifest.metrics[0].metric};
    hash_of(before);
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++, memcpy(before, after, sizeof before)) {
        bytes[i][31]++;
        hash_of(after);
        ck_assert(memcmp(before, after, sizeof before) != 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++, memcpy(before, after, sizeof before)) {
        (*numbers[i])++;
        hash_of(after);
        ck_assert(memcmp(before, after, sizeof before) != 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++, memcpy(before, after, sizeof before)) {
        *texts[i] = "another";
        hash_of(after);
        ck_assert(memcmp(before, after, sizeof before) != 0);
    }
    manifest.hardware_traffic_is_measurable = true;
    hash_of(after);
    ck_assert(memcmp(before, after, sizeof before) != 0);
}
END_TEST

static void refused(const char *field)
{
    struct why why = {0};
    char *text = NULL;
    ck_assert_int_eq(evaluation_manifest_write(&manifest, &text, NULL, &why), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(why.text, field) != NULL, "'%s' does not name %s", why.text, field);
    ck_assert_ptr_null(text);
    setup();
}

START_TEST(what_is_missing_is_named)
{
    memset(manifest.dataset, 0, SHA256_BYTES);
    refused("dataset");
    memset(manifest.candidate.kernel_plan, 0, SHA256_BYTES);
    refused("candidate.kernel_plan");
    manifest.baseline.q_dtype = NULL;
    refused("baseline.q_dtype");
    manifest.hardware = "";
    refused("hardware");
    manifest.candidate.page_tokens = 0;
    refused("candidate.page_tokens");
    manifest.n_metrics = 0;
    refused("metrics");
    manifest.metrics[0].metric = NULL;
    refused("metrics.metric");
    manifest.n_slices = 0;
    refused("slices");
    snprintf(manifest.slices[1], sizeof manifest.slices[1], "code");
    refused("slices[1] is 'code'");
    manifest.repetitions = 0;
    refused("repetitions");
    manifest.matrix.contexts.n = 0;
    refused("contexts");
    manifest.candidate = manifest.baseline;
    refused("candidate is the baseline");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluation_manifest");
    TCase *tc = tcase_create("evaluation_manifest");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, the_manifest_holds_what_the_contract_lists);
    tcase_add_test(tc, every_coordinate_is_in_the_hash);
    tcase_add_test(tc, what_is_missing_is_named);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
