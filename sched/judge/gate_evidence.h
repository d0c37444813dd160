/* gate_evidence.h: all that gates judge by: counts, sums and sketches of one step, in whole numbers.
 *
 * Whoever watches fills it; gate.h judges it; its canonical JSON goes into the decision's receipt, and read back from there
 * it gives the same verdicts. A step begins with empty evidence; a pause keeps it. About 68 KiB, no
 * pointers: it may be copied. One owner. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GATE_EVIDENCE_H
#define FOLDKV_SCHED_GATE_EVIDENCE_H

#include "sched/judge/arm.h"
#include "sched/judge/gate_thresholds.h"
#include "sched/judge/latency_sketch.h"

enum { QUALITY_SLICES_MAX = 32 };
#define NUMERICAL_WORST_PPB ((uint64_t)1 << 50)

/* Requests of one arm that ended. */
struct arm_evidence {
    uint64_t n_requests; /* ended for any reason but the client's */
    uint64_t n_errors;   /* 5xx, aborted by us, NaN or inf logits, could not be admitted */
    uint64_t n_good;     /* no error, and both times within the SLO */
    struct latency_sketch ttft, tpot;
};

/* Sums over the fixed prompts: negative log-probability of their continuations. */
struct quality_slice {
    char name[SLICE_NAME_MAX + 1];
    uint64_t n_tokens; /* the same for both by construction: same tokenizer, same continuations */
    uint64_t candidate_unats, baseline_unats; /* sums in micro-nats */
};

struct gate_evidence {
    struct arm_evidence canary, control;
    /* All requests under stable's weights, control's too: only errors are judged against them. */
    uint64_t n_stable_requests, n_stable_errors;

    /* A row's largest difference from the oracle / its largest value; NaN counts as NUMERICAL_WORST_PPB. */
    uint64_t n_numerical_samples, numerical_worst_ppb;

    uint32_t n_slices;
    struct quality_slice slices[QUALITY_SLICES_MAX]; /* names rise; all slices of the set */
    bool has_quality;                                /* one whole run over the set */

    bool has_allocation;
    /* The term that was furthest from the ledger in the step's worst snapshot: cache group allocation_term - 1; 0: the sum of
     * all, as receipts of before have it. */
    uint64_t allocation_term, expected_bytes, resident_bytes, n_unreachable_pages;

    bool has_plan_receipt;
    uint64_t n_fallbacks, n_materialisations;

    bool has_traffic; /* candidate and baseline were both measured */
    uint64_t issued_kib, logical_kib, baseline_issued_kib, baseline_logical_kib;
    /* Whether this host has the counters is settled before the start. */
    bool host_has_counters, has_hardware;
    uint64_t hardware_kib, hardware_logical_kib;
    uint64_t baseline_hardware_kib, baseline_hardware_logical_kib;
};

/* How one request ended. */
struct request_outcome {
    enum arm arm;
    bool is_error;
    uint64_t ttft_ns; /* 0: no first token */
    uint64_t tpot_ns; /* 0: fewer than two tokens */
};

void gate_evidence_clear(struct gate_evidence *evidence);
/* Errors give no times. A good request is one without an error whose times, as far as it has them, are
 * within the SLO. */
void gate_evidence_add(struct gate_evidence *evidence, const struct gate_thresholds *thresholds,
                       const struct request_outcome *outcome);
/* One sampled row; a difference that is NaN or infinite is the worst there is. */
void gate_evidence_add_sample(struct gate_evidence *evidence, double relative_difference);
/* One term of a snapshot. Keeps the one that is further from the ledger; any unreachable page is kept. */
void gate_evidence_add_allocation(struct gate_evidence *evidence, uint64_t term,
                                  uint64_t expected_bytes, uint64_t resident_bytes,
                                  uint64_t n_unreachable_pages);
/* Adds a slice's sums; false if there are QUALITY_SLICES_MAX others. */
bool gate_evidence_add_quality(struct gate_evidence *evidence,
                               const struct quality_slice *slice) MUST_USE;

/* Under key; what is read back is equal in every member. */
void gate_evidence_write(const struct gate_evidence *evidence, const char *key,
                         struct canonical_json *json);
enum status gate_evidence_read(const struct document_value *value,
                               struct gate_evidence *ret_evidence, struct why *ret_why) MUST_USE;

#endif
