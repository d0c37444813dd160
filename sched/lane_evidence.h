/* lane_evidence.h: what a lane's collector has measured: figures that only rise, and what gates make of them.
 *
 * A value without pointers; lane_collector_copy fills it on any thread. Counters begin with the lane and only rise, so that each
 * reader (the rollout's driver, an evaluation) has a beginning of its own: it keeps the copy made then and
 * takes lane_evidence_since. What is a worst case stays one: a breach before the beginning is a breach. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LANE_EVIDENCE_H
#define FOLDKV_SCHED_LANE_EVIDENCE_H

#include "sched/judge/gate_evidence.h"

struct lane_evidence {
    uint64_t n_steps, step_ns; /* steps with rows of the lane, and how long they took */

    /* Sampled rows against the oracle, and the time that took: at most 1 % of step_ns. */
    uint64_t n_samples, numerical_worst_ppb; /* NaN and inf: NUMERICAL_WORST_PPB */
    uint64_t audit_ns;

    /* Snapshots of the books against the ledger, term by term; the worst term is kept. */
    uint64_t n_snapshots;
    uint64_t allocation_term, expected_bytes, resident_bytes, n_unreachable_pages;

    bool has_plan_receipt;       /* the receipt's kernel names have been told */
    uint64_t n_fallbacks;        /* steps run with a kernel that the receipt does not name */
    uint64_t n_materialisations; /* allocations during steps: a step makes none */

    /* K/V that attention_run addressed, and what was there to be read once, for sequences with one row
     * in a step: with more rows the ratio would say what clients asked for, not how they were served. */
    uint64_t issued_bytes, logical_bytes;
    bool host_has_counters; /* settled when the collector is made */
    uint64_t hardware_bytes,
        hardware_logical_bytes; /* sampled steps: cache misses; K/V and weights */
};

/* now less before, counter by counter; worst cases and flags are now's. */
void lane_evidence_since(const struct lane_evidence *now, const struct lane_evidence *before,
                         struct lane_evidence *ret_since);
/* Sets what lanes can say of a step: numerical, allocation, fallback and traffic. The other members
 * (arms, stable, quality) stay. baseline is the control lane's or stable's; NULL: no traffic. */
void lane_evidence_to_gate(const struct lane_evidence *candidate,
                           const struct lane_evidence *baseline, struct gate_evidence *evidence);

/* For collectors: a snapshot. Of each term (a cache group, in order) the wider of what is kept and this is kept: what is too much
 * in one and too little in another does not cancel out. Unreachable pages are kept. */
struct allocation_term {
    uint64_t expected_bytes, resident_bytes;
};
void lane_evidence_add_snapshot(struct lane_evidence *evidence, const struct allocation_term *terms,
                                uint32_t n_terms, uint64_t n_unreachable_pages);
/* One sampled row: its largest difference / its largest value. */
void lane_evidence_add_sample(struct lane_evidence *evidence, double relative_difference);

#endif
