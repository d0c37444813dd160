/* lane_collector_test.c: a served lane fills its evidence by itself, within its share of time; and each fault
 * that is put in for real shows in its own figure. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_collector.h"

#include "cache/cache_state.h"
#include "config/mem.h"
#include "sched/judge/gate.h"
#include "sched/kernel_use.h"
#include "tests/support/engine_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { STEP_NS = 20000000 };

static char *bytes;
static struct gguf *gguf;
static struct rig *rig;
static struct kernels kernels;
static struct lane_collector *collector;

static void set_up(void)
{
    struct small_model shape = small_model_default();
    struct why why = {0};
    size_t len;
    bytes = small_model_bytes(&shape, &len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    rig = rig_new(gguf, &(__typeof__(rig_options())){.n_threads = 2,
                                                     .running_max = 8,
                                                     .prefill_chunk = 64,
                                                     .cache_bytes = 8 << 20,
                                                     .cache_type = "f16"});
    kernels_pick(isa_available(), &kernels);
    struct lane_collector_parts parts = {.model = rig_parts(rig)->model,
                                         .cache = rig_parts(rig)->cache,
                                         .kernels = &kernels};
    ck_assert_int_eq(lane_collector_new(&parts, &collector, &why), OK);
    lane_collector_attach(collector, pass_decoder(rig_parts(rig)->pass),
                          pass_pool(rig_parts(rig)->pass, rig_parts(rig)->scheduler));
}

static void tear_down(void)
{
    lane_collector_free(&collector);
    rig_free(&rig);
    gguf_free(&gguf);
    mem_free(bytes);
}

static struct lane_evidence evidence(void)
{
    struct lane_evidence e;
    lane_collector_copy(collector, &e);
    return e;
}

static enum gate_verdict verdict(enum gate gate)
{
    struct lane_evidence e = evidence();
    struct gate_evidence of_gates = {0};
    struct gate_thresholds thresholds;
    struct gate_judgement judgement;
    gate_thresholds_defaults(&thresholds);
    lane_evidence_to_gate(&e, &e, &of_gates);
    gate_judge(gate, &of_gates, &thresholds, 1, &judgement);
    return judgement.verdict;
}

/* Requests of several lengths to their ends, a turn a step. */
static void serve(uint32_t n_requests, uint32_t max_tokens)
{
    uint32_t ids[200];
    struct rig_outcome *outcomes = mem_zalloc(n_requests, sizeof *outcomes);
    for (uint32_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = (i * 37 + n_requests) % 256;
    for (uint32_t i = 0; i < n_requests; i++)
        (void)rig_submit(rig,
                         &(struct rig_spec){.ids = ids,
                                            .n_ids = 20 + i * 23 % 150,
                                            .max_tokens = max_tokens,
                                            .logprobs = -1},
                         &outcomes[i]);
    while (rig_step(rig, STEP_NS))
        lane_collector_turn(collector, STEP_NS);
    for (uint32_t i = 0; i < n_requests; i++) {
        ck_assert(outcomes[i].is_done);
        rig_outcome_release(&outcomes[i]);
    }
    mem_free(outcomes);
}

static void expect(const struct kernels *planned)
{
    const char *names[KERNEL_USE_MAX];
    lane_collector_expect(collector, names,
                          kernel_use_names(rig_parts(rig)->model, planned, names));
}

START_TEST(a_sound_lane_passes)
{
    struct kernels best;
    kernels_pick(isa_available(), &best);
    expect(&best);
    serve(12, 40);
    struct lane_evidence e = evidence();
    ck_assert_uint_gt(e.n_steps, 40);
    ck_assert_uint_eq(e.step_ns, e.n_steps * (uint64_t)STEP_NS);
    ck_assert_uint_ge(e.n_samples, 16);
    ck_assert_uint_eq(e.numerical_worst_ppb, 0);
    ck_assert_uint_gt(e.n_snapshots, 0);
    ck_assert_uint_eq(e.expected_bytes, e.resident_bytes);
    ck_assert_uint_eq(e.n_unreachable_pages, 0);
    ck_assert_uint_eq(e.n_fallbacks + e.n_materialisations, 0);
    ck_assert_uint_gt(e.logical_bytes, 0);
    ck_assert_uint_eq(e.issued_bytes, e.logical_bytes);
    ck_assert_int_eq(verdict(GATE_NUMERICAL), VERDICT_PASS);
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT), VERDICT_PASS);
    ck_assert_int_eq(verdict(GATE_FALLBACK), VERDICT_PASS);
    if (!e.host_has_counters)
        ck_assert_int_eq(verdict(GATE_TRAFFIC), VERDICT_PASS);
}
END_TEST

START_TEST(turns_allocate_nothing)
{
    uint64_t asked = mem_asked_bytes();
    for (int i = 0; i < 50; i++)
        lane_collector_turn(collector, STEP_NS);
    lane_collector_idle(collector);
    ck_assert_uint_eq(mem_asked_bytes(), asked);
}
END_TEST

/* Steps that are said to have been short save up little. */
START_TEST(the_oracle_keeps_to_its_share)
{
    uint32_t ids[100] = {0};
    struct rig_outcome outcomes[4] = {0};
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
            (void)rig_submit(rig,
                             &(struct rig_spec){.ids = ids, .n_ids = 100, .max_tokens = 60, .logprobs = -1},
                             &outcomes[i]);
        while (rig_step(rig, STEP_NS))
            lane_collector_turn(collector, 200000);
        for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
            rig_outcome_release(&outcomes[i]);
    }
    struct lane_evidence e = evidence();
    printf("%llu steps of 0.2 ms: %llu rows in %.3f ms, %.2f %% of the time\n",
           (unsigned long long)e.n_steps, (unsigned long long)e.n_samples, (double)e.audit_ns / 1e6,
           100.0 * (double)e.audit_ns / (double)e.step_ns);
    ck_assert_uint_gt(e.n_samples, 0);
    /* 1 % and the credit, and one row more */
    ck_assert_uint_lt(e.audit_ns, e.step_ns / 100 + 5000000);
}
END_TEST

START_TEST(a_lost_page_is_drift)
{
    serve(2, 4);
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT), VERDICT_PASS);
    struct block_store *store = &((struct cache *)rig_parts(rig)->cache)->groups[0].store;
    ck_assert_uint_ne(block_store_take(store, NO_PAGE), NO_PAGE);
    /* The walk before may have been held up, and the next one comes after a thousand times as long. */
    for (int i = 0; i < 4000 && verdict(GATE_ALLOCATOR_DRIFT) == VERDICT_PASS; i++) {
        lane_collector_idle(collector);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT), VERDICT_FAIL);
    ck_assert_uint_eq(evidence().n_unreachable_pages, 1);
}
END_TEST

START_TEST(a_pool_that_took_more_than_the_ledger_says_is_drift)
{
    struct cache *cache = (struct cache *)rig_parts(rig)->cache;
    cache->groups[0].memory.mapped_bytes *= 2; /* what unmapping goes by is the view */
    serve(2, 4);
    ck_assert_int_eq(verdict(GATE_ALLOCATOR_DRIFT), VERDICT_FAIL);
    ck_assert_uint_eq(evidence().resident_bytes, 2 * evidence().expected_bytes);
    cache->groups[0].memory.mapped_bytes /= 2;
}
END_TEST

START_TEST(a_masked_kernel_is_a_fallback)
{
    struct kernels best;
    kernels_pick(isa_available(), &best);
    expect(&best);
    serve(1, 4);
    ck_assert_int_eq(verdict(GATE_FALLBACK), VERDICT_PASS);
    kernels_pick(1u << ISA_SCALAR, &kernels);
    serve(1, 4);
    ck_assert_int_eq(verdict(GATE_FALLBACK),
                     best.isa == ISA_SCALAR ? VERDICT_PASS : VERDICT_FAIL);
}
END_TEST

START_TEST(without_a_receipt_there_is_no_data)
{
    serve(1, 4);
    ck_assert_int_eq(verdict(GATE_FALLBACK), VERDICT_NO_DATA);
}
END_TEST

START_TEST(a_lane_in_no_pass_asks_nobody)
{
    lane_collector_detach(collector);
    lane_collector_detach(collector);
    lane_collector_turn(collector, STEP_NS);
    ck_assert_uint_eq(evidence().n_steps, 1);
    ck_assert_uint_eq(evidence().n_samples, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_collector");
    TCase *tc = tcase_create("collector");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_sound_lane_passes);
    tcase_add_test(tc, turns_allocate_nothing);
    tcase_add_test(tc, the_oracle_keeps_to_its_share);
    tcase_add_test(tc, a_lost_page_is_drift);
    tcase_add_test(tc, a_pool_that_took_more_than_the_ledger_says_is_drift);
    tcase_add_test(tc, a_masked_kernel_is_a_fallback);
    tcase_add_test(tc, without_a_receipt_there_is_no_data);
    tcase_add_test(tc, a_lane_in_no_pass_asks_nobody);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
