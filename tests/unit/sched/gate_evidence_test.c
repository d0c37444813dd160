/* gate_evidence_test.c: evidence goes through JSON and back unchanged; what could not have been counted is refused. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/gate_evidence.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct gate_evidence evidence, again;
static struct gate_thresholds thresholds;

/* Inlined, gcc 12 takes the text for the variable that held its address. */
__attribute__((noinline)) static char *text_of(const struct gate_evidence *from)
{
    struct canonical_json json;
    char *text = NULL;
    canonical_init(&json, 1 << 20);
    gate_evidence_write(from, NULL, &json);
    ck_assert_int_eq(canonical_take(&json, &text, NULL), OK);
    return text;
}

static enum status read(const char *text, struct why *ret_why)
{
    struct document *document = NULL;
    enum status s = document_parse((struct slice){text, strlen(text)}, "it", &document, ret_why);
    ck_assert_int_eq(s, OK);
    s = gate_evidence_read(document_root(document), &again, ret_why);
    document_free(&document);
    return s;
}

static void setup(void)
{
    gate_thresholds_defaults(&thresholds);
    gate_evidence_clear(&evidence);
    for (uint64_t i = 0; i < 500; i++) {
        struct request_outcome outcome = {(enum arm)(i % 3), i % 50 == 7, 1000000 + i * i * 1000,
                                          40000000 + i * 1000};
        gate_evidence_add(&evidence, &thresholds, &outcome);
    }
    gate_evidence_add_sample(&evidence, 3e-6);
    gate_evidence_add_allocation(&evidence, 1, 4096, 4097, 2);
    static const char *const names[] = {"prose", "code", "facts", "code"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct quality_slice slice = {
            .n_tokens = 10 + i, .candidate_unats = 100, .baseline_unats = 99};
        snprintf(slice.name, sizeof slice.name, "%s", names[i]);
        ck_assert(gate_evidence_add_quality(&evidence, &slice));
    }
    evidence.has_quality = evidence.has_plan_receipt = evidence.has_traffic = true;
    evidence.host_has_counters = evidence.has_hardware = true;
    evidence.n_fallbacks = 1;
    evidence.n_materialisations = 2;
    evidence.issued_kib = 3;
    evidence.logical_kib = 4;
    evidence.baseline_issued_kib = 5;
    evidence.baseline_logical_kib = 6;
    evidence.hardware_kib = 7;
    evidence.hardware_logical_kib = 8;
    evidence.baseline_hardware_kib = 9;
    evidence.baseline_hardware_logical_kib = (uint64_t)1 << 53;
}

START_TEST(slices_are_sorted_and_summed)
{
    ck_assert_uint_eq(evidence.n_slices, 3);
    ck_assert_str_eq(evidence.slices[0].name, "code");
    ck_assert_uint_eq(evidence.slices[0].n_tokens, 11 + 13);
    ck_assert_str_eq(evidence.slices[2].name, "prose");
    struct quality_slice slice = {.n_tokens = 1};
    for (int i = 3; i <= QUALITY_SLICES_MAX; i++) {
        snprintf(slice.name, sizeof slice.name, "s%d", i);
        ck_assert(gate_evidence_add_quality(&evidence, &slice) == (i < QUALITY_SLICES_MAX));
    }
}
END_TEST

START_TEST(what_is_written_is_read)
{
    char *text = text_of(&evidence);
    struct why why = {0};
    ck_assert_msg(read(text, &why) == OK, "%s", why.text);
    ck_assert_mem_eq(&evidence, &again, sizeof again);
    mem_free(text);
}
END_TEST

/* Before terms were told apart. */
START_TEST(older_evidence_comes_back_as_it_was)
{
    struct why why = {0};
    evidence.allocation_term = 0;
    char *text = text_of(&evidence);
    ck_assert_ptr_null(strstr(text, "\"term\""));
    ck_assert_msg(read(text, &why) == OK, "%s", why.text);
    ck_assert_mem_eq(&evidence, &again, sizeof again);
    char *same = text_of(&again);
    ck_assert_str_eq(text, same);
    mem_free(text);
    mem_free(same);
}
END_TEST

START_TEST(wrong_evidence_is_refused)
{
    static const struct {
        const char *from, *to, *names;
    } changes[] = {
        {"\"expected_bytes\":4096", "\"expected_bytes\":-1", "evidence.allocation.expected_bytes"},
        {"\"worst_ppb\":3000", "\"worst_ppb\":null", "evidence.numerical.worst_ppb"},
        {"\"has_hardware\":true", "\"has_hardware\":1", "evidence.traffic.has_hardware"},
        {"\"tpot\":[[", "\"tpot\":[[4096,1],[", "evidence.canary.tpot[0]"},
        {"\"tpot\":[[", "\"tpot\":[[1,0],[", "evidence.canary.tpot[0]"},
        {"\"tpot\":[[", "\"tpot\":[[1,1],[1,1],[", "evidence.canary.tpot[1]"},
        {"\"name\":\"code\"", "\"name\":\"Code\"", "slice"},
        {"\"errors\":3", "\"errors\":3000", "evidence.canary"},
    };
    char *text = text_of(&evidence);
    char *at = strstr(text, changes[_i].from);
    char wrong[65536];
    struct why why = {0};
    ck_assert_msg(at != NULL, "%s", text);
    snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - text), text, changes[_i].to,
             at + strlen(changes[_i].from));
    ck_assert_int_eq(read(wrong, &why), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(why.text, changes[_i].names) != NULL, "%s", why.text);
    mem_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate_evidence");
    TCase *tc = tcase_create("gate_evidence");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, slices_are_sorted_and_summed);
    tcase_add_test(tc, what_is_written_is_read);
    tcase_add_test(tc, older_evidence_comes_back_as_it_was);
    tcase_add_loop_test(tc, wrong_evidence_is_refused, 0, 8);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
