/* gate.c: the verdict of each gate.
 *
 * WHY     Triggers that are thought up after the damage are no contract; here each is a row and a
 *         function, settled before the start.
 * HOW     A bound compares whole numbers. A test has two sides: evidence that the candidate is over its
 *         threshold (fail, at the gate's share of alpha) and evidence that it is not (pass, at beta); if
 *         neither is there yet it is inconclusive, and more requests decide.
 * ALWAYS  (1) Without data no gate passes.                                        gate_judge
 *         (2) The same evidence and thresholds give the same verdict.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/gate.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "sched/judge/sequential_test.h"

const struct gate_row gate_rows[GATE_COUNT] = {
#define GATE(NAME, key, judged, without, trigger, against, rule)                                   \
    {#key, trigger, against, rule, GATE_JUDGED_##judged, GATE_WITHOUT_##without},
#include "sched/judge/gate.def"
#undef GATE
};

/* What a judge sees. */
struct bench {
    const struct gate_evidence *evidence;
    const struct gate_thresholds *thresholds;
    double needed_to_fail;
    struct gate_judgement *judgement;
};

enum gate gate_find(const char *key)
{
    int i = 0;
    while (i < GATE_COUNT && (key == NULL || strcmp(gate_rows[i].key, key) != 0))
        i++;
    return (enum gate)i;
}

uint32_t gate_test_count(void)
{
    uint32_t n = 0;
    for (int i = 0; i < GATE_COUNT; i++)
        n += gate_rows[i].judged == GATE_JUDGED_TEST;
    return n;
}

const char *gate_verdict_name(enum gate_verdict verdict)
{
    static const char *const names[] = {"pass", "fail", "inconclusive", "no_data"};
    ASSERT(verdict < ARRAY_LEN(names));
    return names[verdict];
}

double gate_needed_to_fail(uint32_t n_steps)
{
    ASSERT(n_steps > 0);
    return log(1e6 / GATE_ALPHA_PPM * gate_test_count() * n_steps);
}

double gate_needed_to_pass(void)
{
    return log(1e6 / GATE_BETA_PPM);
}

static void PRINTF_LIKE(3, 4)
    judge(const struct bench *bench, enum gate_verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(bench->judgement->text, sizeof bench->judgement->text, format, args);
    va_end(args);
    bench->judgement->verdict = verdict;
}

static enum gate_verdict of_test(const struct bench *bench, double to_fail, double to_pass)
{
    if (to_fail >= bench->needed_to_fail)
        return VERDICT_FAIL;
    return to_pass >= gate_needed_to_pass() ? VERDICT_PASS : VERDICT_INCONCLUSIVE;
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100.0 * (double)part / (double)whole;
}

static void judge_allocator_drift(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    if (e->n_unreachable_pages > 0) {
        judge(bench, VERDICT_FAIL, "%" PRIu64 " pages are not free and not reachable",
              e->n_unreachable_pages);
        return;
    }
    if (!e->has_allocation) {
        judge(bench, VERDICT_NO_DATA, "no snapshot of the allocator");
        return;
    }
    uint64_t off = e->expected_bytes > e->resident_bytes ? e->expected_bytes - e->resident_bytes
                                                         : e->resident_bytes - e->expected_bytes;
    bool is_within =
        (unsigned __int128)off * 1000000 <=
        (unsigned __int128)e->expected_bytes * bench->thresholds->allocator_drift_eps_ppm;
    char term[48] = "";
    if (e->allocation_term > 0)
        snprintf(term, sizeof term, "cache group %" PRIu64 ": ", e->allocation_term - 1);
    judge(bench, is_within ? VERDICT_PASS : VERDICT_FAIL,
          "%sexpected %" PRIu64 " bytes, resident %" PRIu64, term, e->expected_bytes,
          e->resident_bytes);
}

static void judge_error_rate(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    struct trials canary = {e->canary.n_errors, e->canary.n_requests};
    struct trials stable = {e->n_stable_errors, e->n_stable_requests};
    if (canary.n == 0 || stable.n == 0) {
        judge(bench, VERDICT_NO_DATA, "%" PRIu64 " candidate and %" PRIu64 " stable requests",
              canary.n, stable.n);
        return;
    }
    struct sequential_line line = {1.0, bench->thresholds->error_rate_margin_ppm / 1e6};
    double to_fail = sequential_over_line(canary, stable, line);
    double to_pass = sequential_under_line(canary, stable, line);
    judge(bench, of_test(bench, to_fail, to_pass),
          "%.3f %% of %" PRIu64 ", stable %.3f %% of %" PRIu64
          "; evidence against %.1f of %.1f, for %.1f of %.1f",
          percent(canary.n_hits, canary.n), canary.n, percent(stable.n_hits, stable.n), stable.n,
          to_fail, bench->needed_to_fail, to_pass, gate_needed_to_pass());
}

static void judge_fallback(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    uint64_t n = e->n_fallbacks + e->n_materialisations;
    enum gate_verdict verdict = n > bench->thresholds->fallback_count_max ? VERDICT_FAIL
                                : e->has_plan_receipt                     ? VERDICT_PASS
                                                                          : VERDICT_NO_DATA;
    judge(bench, verdict, "%" PRIu64 " fallbacks, K/V materialised %" PRIu64 " times%s",
          e->n_fallbacks, e->n_materialisations, e->has_plan_receipt ? "" : ", no plan receipt");
}

static void judge_goodput(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    struct trials canary = {e->canary.n_good, e->canary.n_requests};
    struct trials control = {e->control.n_good, e->control.n_requests};
    if (canary.n == 0 || control.n == 0) {
        judge(bench, VERDICT_NO_DATA, "%" PRIu64 " candidate and %" PRIu64 " control requests",
              canary.n, control.n);
        return;
    }
    struct sequential_line line = {1.0 - bench->thresholds->goodput_eps_ppm / 1e6, 0.0};
    double to_fail = sequential_under_line(canary, control, line);
    double to_pass = sequential_over_line(canary, control, line);
    judge(bench, of_test(bench, to_fail, to_pass),
          "%.2f %% of %" PRIu64 " good, control %.2f %% of %" PRIu64
          "; evidence against %.1f of %.1f, for %.1f of %.1f",
          percent(canary.n_hits, canary.n), canary.n, percent(control.n_hits, control.n), control.n,
          to_fail, bench->needed_to_fail, to_pass, gate_needed_to_pass());
}

static void judge_numerical(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    enum gate_verdict verdict =
        e->numerical_worst_ppb > bench->thresholds->numerical_bound_ppb      ? VERDICT_FAIL
        : e->n_numerical_samples >= bench->thresholds->numerical_samples_min ? VERDICT_PASS
                                                                             : VERDICT_NO_DATA;
    judge(bench, verdict, "worst of %" PRIu64 " samples is %" PRIu64 " ppb, the bound %" PRIu32,
          e->n_numerical_samples, e->numerical_worst_ppb, bench->thresholds->numerical_bound_ppb);
}

/* candidate <= baseline * (1 + eps), in whole numbers. */
static bool is_no_worse(uint64_t candidate, uint64_t baseline, uint32_t eps_ppm)
{
    return (unsigned __int128)candidate * 1000000 <=
           (unsigned __int128)baseline * (1000000 + (uint64_t)eps_ppm);
}

/* The first slice the plan names and the evidence lacks, or that has too few tokens; NULL if all
 * speak. */
static const char *silent_slice(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    for (uint32_t i = 0; i < e->n_slices; i++)
        if (e->slices[i].n_tokens < bench->thresholds->quality_slice_tokens_min)
            return e->slices[i].name;
    for (uint32_t t = 0; t < bench->thresholds->n_slices; t++) {
        uint32_t i = 0;
        while (i < e->n_slices && strcmp(e->slices[i].name, bench->thresholds->slices[t].name) != 0)
            i++;
        if (i == e->n_slices)
            return bench->thresholds->slices[t].name;
    }
    return NULL;
}

static void judge_quality(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    const char *silent = silent_slice(bench);
    if (!e->has_quality || e->n_slices == 0) {
        judge(bench, VERDICT_NO_DATA, "the fixed prompts were not scored");
        return;
    }
    struct quality_slice all = {.name = "all slices together"};
    for (uint32_t i = 0; i <= e->n_slices; i++) {
        const struct quality_slice *slice = i < e->n_slices ? &e->slices[i] : &all;
        uint32_t eps_ppm = i < e->n_slices ? gate_thresholds_slice(bench->thresholds, slice->name)
                                           : bench->thresholds->quality_eps_ppm;
        if (!is_no_worse(slice->candidate_unats, slice->baseline_unats, eps_ppm)) {
            judge(bench, VERDICT_FAIL,
                  "%s: %" PRIu64 " micro-nats over %" PRIu64 " tokens, baseline %" PRIu64
                  ", allowed %" PRIu32 " ppm more",
                  slice->name, slice->candidate_unats, slice->n_tokens, slice->baseline_unats,
                  eps_ppm);
            return;
        }
        if (slice == &all)
            break;
        all.candidate_unats += slice->candidate_unats;
        all.baseline_unats += slice->baseline_unats;
        all.n_tokens += slice->n_tokens;
    }
    if (silent != NULL)
        judge(bench, VERDICT_NO_DATA, "slice %s has too few scored tokens", silent);
    else
        judge(bench, VERDICT_PASS,
              "%" PRIu32 " slices, %" PRIu64 " tokens: none worse than allowed", e->n_slices,
              all.n_tokens);
}

static void judge_p99(const struct bench *bench, const struct latency_sketch *canary,
                      const struct latency_sketch *control, uint32_t eps_ppm)
{
    if (canary->n == 0 || control->n == 0) {
        judge(bench, VERDICT_NO_DATA, "%" PRIu64 " candidate and %" PRIu64 " control latencies",
              canary->n, control->n);
        return;
    }
    double to_fail = sequential_p99_over(canary, control, 1000000 + eps_ppm);
    double to_pass = sequential_p99_under(canary, control, 1000000 + eps_ppm);
    judge(bench, of_test(bench, to_fail, to_pass),
          "p99 %.3f ms of %" PRIu64 ", control %.3f ms of %" PRIu64
          "; evidence against %.1f of %.1f, for %.1f of %.1f",
          (double)latency_sketch_quantile(canary, 990000) / 1e6, canary->n,
          (double)latency_sketch_quantile(control, 990000) / 1e6, control->n, to_fail,
          bench->needed_to_fail, to_pass, gate_needed_to_pass());
}

static void judge_tpot_p99(const struct bench *bench)
{
    judge_p99(bench, &bench->evidence->canary.tpot, &bench->evidence->control.tpot,
              bench->thresholds->tpot_p99_eps_ppm);
}

static void judge_ttft_p99(const struct bench *bench)
{
    judge_p99(bench, &bench->evidence->canary.ttft, &bench->evidence->control.ttft,
              bench->thresholds->ttft_p99_eps_ppm);
}

/* moved / logical <= baseline's * (1 + eps), in whole numbers below 2^126. */
static bool moves_no_more(const uint64_t kib[4], uint32_t eps_ppm)
{
    return (unsigned __int128)kib[0] * kib[3] * 1000000 <=
           (unsigned __int128)kib[2] * kib[1] * (1000000 + (uint64_t)eps_ppm);
}

static void judge_traffic(const struct bench *bench)
{
    const struct gate_evidence *e = bench->evidence;
    const uint64_t issued[4] = {e->issued_kib, e->logical_kib, e->baseline_issued_kib,
                                e->baseline_logical_kib};
    const uint64_t hardware[4] = {e->hardware_kib, e->hardware_logical_kib,
                                  e->baseline_hardware_kib, e->baseline_hardware_logical_kib};
    uint32_t eps_ppm = bench->thresholds->traffic_eps_ppm;
    bool needs_hardware = e->host_has_counters && bench->thresholds->traffic_hardware_unproven == 0;
    const char *said = needs_hardware         ? ""
                       : e->host_has_counters ? "; hardware declared unproven"
                                              : "; host has no counters";
    if (!e->has_traffic || issued[1] == 0 || issued[3] == 0)
        judge(bench, VERDICT_NO_DATA, "no bytes were counted%s", said);
    else if (!moves_no_more(issued, eps_ppm))
        judge(bench, VERDICT_FAIL, "%.4f issued a logical byte, baseline %.4f",
              (double)issued[0] / (double)issued[1], (double)issued[2] / (double)issued[3]);
    else if (needs_hardware && (!e->has_hardware || hardware[1] == 0 || hardware[3] == 0))
        judge(bench, VERDICT_NO_DATA, "the host's counters gave nothing");
    else if (needs_hardware && !moves_no_more(hardware, eps_ppm))
        judge(bench, VERDICT_FAIL, "%.4f read from memory a logical byte, baseline %.4f",
              (double)hardware[0] / (double)hardware[1], (double)hardware[2] / (double)hardware[3]);
    else
        judge(bench, VERDICT_PASS, "%.4f issued a logical byte, baseline %.4f%s",
              (double)issued[0] / (double)issued[1], (double)issued[2] / (double)issued[3], said);
}

void gate_judge(enum gate gate, const struct gate_evidence *evidence,
                const struct gate_thresholds *thresholds, uint32_t n_steps,
                struct gate_judgement *ret_judgement)
{
    static void (*const judges[GATE_COUNT])(const struct bench *) = {
#define GATE(NAME, key, judged, without, trigger, against, rule) judge_##key,
#include "sched/judge/gate.def"
#undef GATE
    };
    ASSERT(gate < GATE_COUNT);
    struct bench bench = {evidence, thresholds, gate_needed_to_fail(n_steps), ret_judgement};
    judges[gate](&bench);
}
