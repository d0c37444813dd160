/* lane_evidence.c: differences of a lane's figures, and their way into the gates' evidence.
 *
 * WHY     Several readers begin at different moments; a collector that one of them could reset would
 *         lie to the others.
 * HOW     Counters are subtracted by one list. Worst cases cannot be; they are taken as they are, which
 *         errs on the side of the stop. Snapshots and samples are judged by gate_evidence's own rules.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_evidence.h"

static const size_t counters[] = {
    offsetof(struct lane_evidence, n_steps),
    offsetof(struct lane_evidence, step_ns),
    offsetof(struct lane_evidence, n_samples),
    offsetof(struct lane_evidence, audit_ns),
    offsetof(struct lane_evidence, n_snapshots),
    offsetof(struct lane_evidence, n_fallbacks),
    offsetof(struct lane_evidence, n_materialisations),
    offsetof(struct lane_evidence, issued_bytes),
    offsetof(struct lane_evidence, logical_bytes),
    offsetof(struct lane_evidence, hardware_bytes),
    offsetof(struct lane_evidence, hardware_logical_bytes),
};

void lane_evidence_since(const struct lane_evidence *now, const struct lane_evidence *before,
                         struct lane_evidence *ret_since)
{
    struct lane_evidence since = *now;
    for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
        uint64_t *counter = (uint64_t *)(void *)((char *)&since + counters[i]);
        uint64_t then = *(const uint64_t *)(const void *)((const char *)before + counters[i]);
        ASSERT(*counter >= then);
        *counter -= then;
    }
    *ret_since = since;
}

static uint64_t kib(uint64_t bytes)
{
    return (bytes + 1023) / 1024;
}

static void set_traffic(const struct lane_evidence *candidate, const struct lane_evidence *baseline,
                        struct gate_evidence *evidence)
{
    evidence->has_traffic = candidate->logical_bytes > 0 && baseline->logical_bytes > 0;
    evidence->issued_kib = kib(candidate->issued_bytes);
    evidence->logical_kib = kib(candidate->logical_bytes);
    evidence->baseline_issued_kib = kib(baseline->issued_bytes);
    evidence->baseline_logical_kib = kib(baseline->logical_bytes);
    evidence->host_has_counters = candidate->host_has_counters && baseline->host_has_counters;
    evidence->has_hardware =
        candidate->hardware_logical_bytes > 0 && baseline->hardware_logical_bytes > 0;
    evidence->hardware_kib = kib(candidate->hardware_bytes);
    evidence->hardware_logical_kib = kib(candidate->hardware_logical_bytes);
    evidence->baseline_hardware_kib = kib(baseline->hardware_bytes);
    evidence->baseline_hardware_logical_kib = kib(baseline->hardware_logical_bytes);
}

void lane_evidence_to_gate(const struct lane_evidence *candidate,
                           const struct lane_evidence *baseline, struct gate_evidence *evidence)
{
    const struct lane_evidence none = {0};
    evidence->n_numerical_samples = candidate->n_samples;
    evidence->numerical_worst_ppb = candidate->numerical_worst_ppb;
    evidence->has_allocation = candidate->n_snapshots > 0;
    evidence->allocation_term = candidate->allocation_term;
    evidence->expected_bytes = candidate->expected_bytes;
    evidence->resident_bytes = candidate->resident_bytes;
    evidence->n_unreachable_pages = candidate->n_unreachable_pages;
    evidence->has_plan_receipt = candidate->has_plan_receipt && candidate->n_steps > 0;
    evidence->n_fallbacks = candidate->n_fallbacks;
    evidence->n_materialisations = candidate->n_materialisations;
    set_traffic(candidate, baseline != NULL ? baseline : &none, evidence);
}

void lane_evidence_add_snapshot(struct lane_evidence *evidence, const struct allocation_term *terms,
                                uint32_t n_terms, uint64_t n_unreachable_pages)
{
    struct gate_evidence worst = {.has_allocation = evidence->n_snapshots > 0,
                                  .allocation_term = evidence->allocation_term,
                                  .expected_bytes = evidence->expected_bytes,
                                  .resident_bytes = evidence->resident_bytes,
                                  .n_unreachable_pages = evidence->n_unreachable_pages};
    for (uint32_t i = 0; i < n_terms; i++)
        gate_evidence_add_allocation(&worst, i + 1, terms[i].expected_bytes,
                                     terms[i].resident_bytes, n_unreachable_pages);
    evidence->n_snapshots++;
    evidence->allocation_term = worst.allocation_term;
    evidence->expected_bytes = worst.expected_bytes;
    evidence->resident_bytes = worst.resident_bytes;
    evidence->n_unreachable_pages = worst.n_unreachable_pages;
}

void lane_evidence_add_sample(struct lane_evidence *evidence, double relative_difference)
{
    struct gate_evidence worst = {.n_numerical_samples = evidence->n_samples,
                                  .numerical_worst_ppb = evidence->numerical_worst_ppb};
    gate_evidence_add_sample(&worst, relative_difference);
    evidence->n_samples = worst.n_numerical_samples;
    evidence->numerical_worst_ppb = worst.numerical_worst_ppb;
}
