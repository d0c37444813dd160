/* evaluation_receipt_test.c: an evaluation's outcome, read back and derived again. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_receipt.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct evaluation_result result, again;
static struct gate_thresholds thresholds;

/* Everything passes: one cell of two, and equal evidence. */
static void setup(void)
{
    gate_thresholds_defaults(&thresholds);
    memset(&result, 0, sizeof result);
    memset(result.manifest, 7, SHA256_BYTES);
    result.cells.matrix = (struct evaluation_matrix){{2, {512, 4096}}, {1, {8}}, {1, {1}}};
    result.cells.has_passed[0] = true;
    for (uint64_t i = 0; i < 12000; i++) {
        struct request_outcome outcome = {i % 2 == 0 ? ARM_CANARY : ARM_CONTROL, false,
                                          300000 * (900 + i % 200), 40000 * (900 + i % 200)};
        gate_evidence_add(&result.evidence, &thresholds, &outcome);
    }
    gate_evidence_add_allocation(&result.evidence, 1, 1000, 1000, 0);
    result.evidence.has_plan_receipt = result.evidence.has_traffic = true;
    result.evidence.has_quality = true;
    result.evidence.issued_kib = result.evidence.baseline_issued_kib = 1;
    result.evidence.logical_kib = result.evidence.baseline_logical_kib = 1;
    struct quality_slice slice = {"code", 100, 1000, 1000};
    ck_assert(gate_evidence_add_quality(&result.evidence, &slice));
    for (int i = 0; i < 16; i++)
        gate_evidence_add_sample(&result.evidence, 0.0);
}

/* Inlined, gcc 12 takes the text for the variable that held its address. */
__attribute__((noinline)) static char *written(void)
{
    char *text = NULL;
    ck_assert_int_eq(evaluation_receipt_write(&result, &thresholds, &text, NULL), OK);
    return text;
}

static enum status read(const char *text, struct why *ret_why)
{
    return evaluation_receipt_read((struct slice){text, strlen(text)}, &thresholds, &again,
                                   ret_why);
}

START_TEST(a_receipt_is_read_back)
{
    struct why why = {0};
    char *text = written();
    ck_assert(evaluation_result_passes(&result, &thresholds));
    ck_assert_ptr_nonnull(strstr(text, "\"passes\":true"));
    ck_assert_msg(read(text, &why) == OK, "%s", why.text);
    ck_assert_mem_eq(&result, &again, sizeof again);
    mem_free(text);
}
END_TEST

START_TEST(why_cells_failed_is_read_back)
{
    struct why why = {0};
    result.n_failures = 1;
    result.failures[0] = (struct cell_failure){.cell = 1, .why = "3 requests were preempted"};
    char *text = written();
    ck_assert_ptr_nonnull(
        strstr(text, "\"cells_failed\":[{\"cell\":1,\"why\":\"3 requests were preempted\"}]"));
    ck_assert_msg(read(text, &why) == OK, "%s", why.text);
    ck_assert_mem_eq(&result, &again, sizeof again);
    mem_free(text);
    result.failures[0].cell = 0; /* which passed */
    text = written();
    ck_assert_int_eq(read(text, &why), STATUS_BAD_FILE);
    mem_free(text);
}
END_TEST

START_TEST(it_passes_only_whole)
{
    result.cells.has_passed[0] = false;
    ck_assert(!evaluation_result_passes(&result, &thresholds));
    setup();
    result.evidence.has_quality = false;
    ck_assert(!evaluation_result_passes(&result, &thresholds));
    setup();
    result.evidence.n_fallbacks = 1;
    ck_assert(!evaluation_result_passes(&result, &thresholds));
}
END_TEST

START_TEST(forgeries_are_found)
{
    static const char *const changes[][2] = {
        {"\"cells\":[true,false]", "\"cells\":[true]"},
        {"\"cells\":[true,false]", "\"cells\":[false,false]"},
        {"\"passes\":true", "\"passes\":false"},
        {"\"fallbacks\":0", "\"fallbacks\":1"},
        {"\"manifest_sha256\":\"07", "\"manifest_sha256\":\"0"},
        {"\"margin_ppm\":5000", "\"margin_ppm\":5001"},
        {"\"gate\":\"quality\",\"verdict\":\"pass\"", "\"gate\":\"quality\",\"verdict\":\"fail\""},
    };
    static char forged[EVALUATION_RECEIPT_BYTES_MAX];
    struct why why = {0};
    char *text = written(), *at = strstr(text, changes[_i][0]);
    ck_assert_msg(at != NULL, "'%s' is not in %s", changes[_i][0], text);
    snprintf(forged, sizeof forged, "%.*s%s%s", (int)(at - text), text, changes[_i][1],
             at + strlen(changes[_i][0]));
    ck_assert_int_eq(read(forged, &why), STATUS_BAD_FILE);
    ck_assert_uint_gt(strlen(why.text), 0);
    mem_free(text);
}
END_TEST

START_TEST(memory_that_cannot_be_had)
{
    struct why why = {0};
    char *text = written();
    for (uint64_t n = 1; n < 100; n++) {
        mem_fail_nth(n);
        enum status s = read(text, &why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, has_struck ? STATUS_NO_MEMORY : OK);
        if (!has_struck && n > 2) {
            mem_free(text);
            return;
        }
    }
    ck_abort();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluation_receipt");
    TCase *tc = tcase_create("evaluation_receipt");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_receipt_is_read_back);
    tcase_add_test(tc, why_cells_failed_is_read_back);
    tcase_add_test(tc, it_passes_only_whole);
    tcase_add_loop_test(tc, forgeries_are_found, 0, 7);
    tcase_add_test(tc, memory_that_cannot_be_had);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
