/* gate_evidence.c: filling evidence, and its two ways through JSON.
 *
 * WHY     A decision is only as good as what it rested on; so that goes into the receipt whole, and
 *         comes back whole.
 * HOW     Scalars by one table for both directions, in the order of canonical JSON; a sketch as pairs of
 *         bucket and count. A scalar that came later is optional, and written only if it is not 0: evidence of before
 *         comes back, and goes out again, byte by byte.
 * ALWAYS  (1) Nothing that was read is out of the range of what could have been counted.
 *                                                                        gate_evidence_read
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/gate_evidence.h"

#include <math.h>

enum { FIELD_ROOM = 96 };
#define COUNT_MAX ((uint64_t)1 << 53)

static const struct scalar {
    const char *section, *key;
    size_t offset;
    bool is_flag, is_optional;
} scalars[] = {
#define COUNT(section, key, member)                                                                \
    {                                                                                              \
#section, #key, offsetof(struct gate_evidence, member), false, false                       \
    }
#define LATER(section, key, member)                                                                \
    {                                                                                              \
#section, #key, offsetof(struct gate_evidence, member), false, true                        \
    }
#define FLAG(section, key, member)                                                                 \
    {                                                                                              \
#section, #key, offsetof(struct gate_evidence, member), true, false                        \
    }
    COUNT(allocation, expected_bytes, expected_bytes),
    FLAG(allocation, has, has_allocation),
    COUNT(allocation, resident_bytes, resident_bytes),
    LATER(allocation, term, allocation_term),
    COUNT(allocation, unreachable_pages, n_unreachable_pages),
    COUNT(canary, errors, canary.n_errors),
    COUNT(canary, good, canary.n_good),
    COUNT(canary, requests, canary.n_requests),
    COUNT(control, errors, control.n_errors),
    COUNT(control, good, control.n_good),
    COUNT(control, requests, control.n_requests),
    COUNT(fallback, fallbacks, n_fallbacks),
    FLAG(fallback, has, has_plan_receipt),
    COUNT(fallback, materialisations, n_materialisations),
    COUNT(numerical, samples, n_numerical_samples),
    COUNT(numerical, worst_ppb, numerical_worst_ppb),
    FLAG(quality, has, has_quality),
    COUNT(stable, errors, n_stable_errors),
    COUNT(stable, requests, n_stable_requests),
    COUNT(traffic, baseline_hardware_kib, baseline_hardware_kib),
    COUNT(traffic, baseline_hardware_logical_kib, baseline_hardware_logical_kib),
    COUNT(traffic, baseline_issued_kib, baseline_issued_kib),
    COUNT(traffic, baseline_logical_kib, baseline_logical_kib),
    COUNT(traffic, hardware_kib, hardware_kib),
    COUNT(traffic, hardware_logical_kib, hardware_logical_kib),
    FLAG(traffic, has, has_traffic),
    FLAG(traffic, has_hardware, has_hardware),
    FLAG(traffic, host_has_counters, host_has_counters),
    COUNT(traffic, issued_kib, issued_kib),
    COUNT(traffic, logical_kib, logical_kib),
#undef COUNT
#undef LATER
#undef FLAG
};

void gate_evidence_clear(struct gate_evidence *evidence)
{
    memset(evidence, 0, sizeof *evidence);
}

static bool is_within(const struct gate_thresholds *thresholds,
                      const struct request_outcome *outcome)
{
    return outcome->ttft_ns <= (uint64_t)thresholds->goodput_slo_ttft_ms * 1000000 &&
           outcome->tpot_ns <= (uint64_t)thresholds->goodput_slo_tpot_ms * 1000000;
}

void gate_evidence_add(struct gate_evidence *evidence, const struct gate_thresholds *thresholds,
                       const struct request_outcome *outcome)
{
    if (outcome->arm != ARM_CANARY) {
        evidence->n_stable_requests++;
        evidence->n_stable_errors += outcome->is_error;
    }
    if (outcome->arm == ARM_STABLE)
        return;
    struct arm_evidence *arm = outcome->arm == ARM_CANARY ? &evidence->canary : &evidence->control;
    arm->n_requests++;
    arm->n_errors += outcome->is_error;
    if (outcome->is_error)
        return;
    arm->n_good += is_within(thresholds, outcome);
    if (outcome->ttft_ns > 0)
        latency_sketch_add(&arm->ttft, outcome->ttft_ns);
    if (outcome->tpot_ns > 0)
        latency_sketch_add(&arm->tpot, outcome->tpot_ns);
}

void gate_evidence_add_sample(struct gate_evidence *evidence, double relative_difference)
{
    double ppb = fabs(relative_difference) * 1e9;
    uint64_t whole = ppb < (double)NUMERICAL_WORST_PPB ? (uint64_t)ceil(ppb) : NUMERICAL_WORST_PPB;
    evidence->n_numerical_samples++;
    if (whole > evidence->numerical_worst_ppb)
        evidence->numerical_worst_ppb = whole;
}

static uint64_t drift(uint64_t expected, uint64_t resident)
{
    return expected > resident ? expected - resident : resident - expected;
}

void gate_evidence_add_allocation(struct gate_evidence *evidence, uint64_t term,
                                  uint64_t expected_bytes, uint64_t resident_bytes,
                                  uint64_t n_unreachable_pages)
{
    long double before = (long double)drift(evidence->expected_bytes, evidence->resident_bytes) *
                         (long double)expected_bytes;
    long double now =
        (long double)drift(expected_bytes, resident_bytes) * (long double)evidence->expected_bytes;
    if (!evidence->has_allocation || now > before) {
        evidence->allocation_term = term;
        evidence->expected_bytes = expected_bytes;
        evidence->resident_bytes = resident_bytes;
    }
    evidence->has_allocation = true;
    if (n_unreachable_pages > evidence->n_unreachable_pages)
        evidence->n_unreachable_pages = n_unreachable_pages;
}

bool gate_evidence_add_quality(struct gate_evidence *evidence, const struct quality_slice *slice)
{
    uint32_t at = 0;
    ASSERT(slice_name_is_valid(slice->name));
    while (at < evidence->n_slices && strcmp(evidence->slices[at].name, slice->name) < 0)
        at++;
    if (at == evidence->n_slices || strcmp(evidence->slices[at].name, slice->name) != 0) {
        if (evidence->n_slices == QUALITY_SLICES_MAX)
            return false;
        memmove(&evidence->slices[at + 1], &evidence->slices[at],
                (evidence->n_slices - at) * sizeof evidence->slices[0]);
        evidence->n_slices++;
        evidence->slices[at] = *slice;
        return true;
    }
    evidence->slices[at].n_tokens += slice->n_tokens;
    evidence->slices[at].candidate_unats += slice->candidate_unats;
    evidence->slices[at].baseline_unats += slice->baseline_unats;
    return true;
}

static void write_sketch(const struct latency_sketch *sketch, const char *key,
                         struct canonical_json *json)
{
    canonical_open_array(json, key);
    for (uint32_t i = 0; i < SKETCH_BUCKETS; i++) {
        if (sketch->bucket[i] == 0)
            continue;
        canonical_open_array(json, NULL);
        canonical_integer(json, NULL, i);
        canonical_integer(json, NULL, sketch->bucket[i]);
        canonical_close_array(json);
    }
    canonical_close_array(json);
}

static void write_slices(const struct gate_evidence *evidence, struct canonical_json *json)
{
    canonical_open_array(json, "slices");
    for (uint32_t i = 0; i < evidence->n_slices; i++) {
        const struct quality_slice *slice = &evidence->slices[i];
        canonical_open_object(json, NULL);
        canonical_integer(json, "baseline_unats", (int64_t)slice->baseline_unats);
        canonical_integer(json, "candidate_unats", (int64_t)slice->candidate_unats);
        canonical_text(json, "name", slice->name);
        canonical_integer(json, "tokens", (int64_t)slice->n_tokens);
        canonical_close_object(json);
    }
    canonical_close_array(json);
}

/* What stands behind a section's scalars. */
static void write_rest(const struct gate_evidence *evidence, const char *section,
                       struct canonical_json *json)
{
    if (strcmp(section, "quality") == 0)
        write_slices(evidence, json);
    bool is_canary = strcmp(section, "canary") == 0;
    if (!is_canary && strcmp(section, "control") != 0)
        return;
    const struct arm_evidence *arm = is_canary ? &evidence->canary : &evidence->control;
    write_sketch(&arm->tpot, "tpot", json);
    write_sketch(&arm->ttft, "ttft", json);
}

void gate_evidence_write(const struct gate_evidence *evidence, const char *key,
                         struct canonical_json *json)
{
    canonical_open_object(json, key);
    for (size_t i = 0; i < ARRAY_LEN(scalars); i++) {
        const struct scalar *scalar = &scalars[i];
        const char *at = (const char *)evidence + scalar->offset;
        if (i == 0 || strcmp(scalars[i - 1].section, scalar->section) != 0)
            canonical_open_object(json, scalar->section);
        if (scalar->is_flag)
            canonical_bool(json, scalar->key, *(const bool *)at);
        else if (!scalar->is_optional || *(const uint64_t *)at != 0)
            canonical_integer(json, scalar->key, (int64_t) * (const uint64_t *)at);
        if (i + 1 < ARRAY_LEN(scalars) && strcmp(scalars[i + 1].section, scalar->section) == 0)
            continue;
        write_rest(evidence, scalar->section, json);
        canonical_close_object(json);
    }
    canonical_close_object(json);
}

static enum status read_sketch(const struct document_value *pairs, const char *field,
                               struct latency_sketch *sketch, struct why *ret_why)
{
    TRY(document_array(pairs, field, 0, SKETCH_BUCKETS, ret_why));
    for (size_t i = 0; i < document_count(pairs); i++) {
        const struct document_value *pair = document_at(pairs, i);
        char name[FIELD_ROOM];
        uint64_t bucket, count;
        snprintf(name, sizeof name, "%.48s[%zu]", field, i);
        TRY(document_array(pair, name, 2, 2, ret_why));
        TRY(document_number(document_at(pair, 0), name, 0, SKETCH_BUCKETS - 1, &bucket, ret_why));
        TRY(document_number(document_at(pair, 1), name, 1, UINT32_MAX, &count, ret_why));
        if (sketch->bucket[bucket] != 0)
            return document_refuse(document_at(pair, 0), name, "each bucket is there once",
                                   ret_why);
        sketch->bucket[bucket] = (uint32_t)count;
        sketch->n += count;
    }
    return OK;
}

static enum status read_slice(const struct document_value *value, const char *field,
                              struct gate_evidence *evidence, struct why *ret_why)
{
    struct quality_slice slice = {0};
    const char *name;
    TRY(document_object(value, field, ret_why));
    TRY(document_text(document_find(value, "name"), field, 1, SLICE_NAME_MAX, &name, ret_why));
    if (!slice_name_is_valid(name))
        return document_refuse(document_find(value, "name"), field,
                               "a slice's name is of a-z 0-9 _ . -", ret_why);
    snprintf(slice.name, sizeof slice.name, "%s", name);
    TRY(document_number(document_find(value, "tokens"), field, 0, COUNT_MAX, &slice.n_tokens,
                        ret_why));
    TRY(document_number(document_find(value, "candidate_unats"), field, 0, COUNT_MAX,
                        &slice.candidate_unats, ret_why));
    TRY(document_number(document_find(value, "baseline_unats"), field, 0, COUNT_MAX,
                        &slice.baseline_unats, ret_why));
    bool is_added = gate_evidence_add_quality(evidence, &slice);
    ASSERT(is_added); /* the array is no longer than there is room */
    return OK;
}

static enum status read_arm(const struct document_value *value, const char *name,
                            struct arm_evidence *arm, struct why *ret_why)
{
    char field[FIELD_ROOM];
    snprintf(field, sizeof field, "evidence.%s", name);
    if (arm->n_errors + arm->n_good > arm->n_requests)
        return document_refuse(document_find(value, "requests"), field,
                               "no fewer requests than errors and good ones are needed", ret_why);
    snprintf(field, sizeof field, "evidence.%s.tpot", name);
    TRY(read_sketch(document_find(value, "tpot"), field, &arm->tpot, ret_why));
    snprintf(field, sizeof field, "evidence.%s.ttft", name);
    return read_sketch(document_find(value, "ttft"), field, &arm->ttft, ret_why);
}

enum status gate_evidence_read(const struct document_value *value,
                               struct gate_evidence *ret_evidence, struct why *ret_why)
{
    char field[FIELD_ROOM];
    gate_evidence_clear(ret_evidence);
    TRY(document_object(value, "evidence", ret_why));
    for (size_t i = 0; i < ARRAY_LEN(scalars); i++) {
        const struct document_value *section = document_find(value, scalars[i].section);
        const struct document_value *found = document_find(section, scalars[i].key);
        char *at = (char *)ret_evidence + scalars[i].offset;
        snprintf(field, sizeof field, "evidence.%s.%s", scalars[i].section, scalars[i].key);
        if (scalars[i].is_optional && found == NULL)
            continue;
        if (scalars[i].is_flag)
            TRY(document_bool(found, field, (bool *)at, ret_why));
        else
            TRY(document_number(found, field, 0, COUNT_MAX, (uint64_t *)at, ret_why));
    }
    TRY(read_arm(document_find(value, "canary"), "canary", &ret_evidence->canary, ret_why));
    TRY(read_arm(document_find(value, "control"), "control", &ret_evidence->control, ret_why));
    const struct document_value *slices = document_find(document_find(value, "quality"), "slices");
    TRY(document_array(slices, "evidence.quality.slices", 0, QUALITY_SLICES_MAX, ret_why));
    for (size_t i = 0; i < document_count(slices); i++)
        TRY(read_slice(document_at(slices, i), "evidence.quality.slices", ret_evidence, ret_why));
    return OK;
}
