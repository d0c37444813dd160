/* gate_thresholds.h: the limits of all gates, settled and hashed before a rollout starts. A value. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GATE_THRESHOLDS_H
#define FOLDKV_SCHED_GATE_THRESHOLDS_H

#include "config/canonical_json.h"
#include "config/document.h"

/* Slices with a tolerance of their own; the others have quality.eps_ppm. */
enum { SLICE_TOLERANCES_MAX = 32, SLICE_NAME_MAX = 47 };

struct slice_tolerance {
    char name[SLICE_NAME_MAX + 1];
    uint32_t eps_ppm;
};

/* One member a row of gate_threshold.def: gate_name. */
struct gate_thresholds {
#define THRESHOLD(gate, name, value, least, most, unit, prose) uint32_t gate##_##name;
#include "sched/judge/gate_threshold.def"
#undef THRESHOLD
    uint32_t n_slices;
    struct slice_tolerance slices[SLICE_TOLERANCES_MAX]; /* names rise */
};

/* A row of the table, for pages and listings. */
struct gate_threshold_row {
    const char *gate, *name, *unit, *prose;
    uint32_t value, least, most;
};
extern const struct gate_threshold_row gate_threshold_rows[];
extern const size_t gate_threshold_count;
/* The i-th row's member. */
uint32_t gate_threshold_value(const struct gate_thresholds *thresholds, size_t i);

void gate_thresholds_defaults(struct gate_thresholds *ret_thresholds);
/* Changes what the object names (a plan's "gates", the "thresholds" of an evaluation: key says which); quality may have
 * "slices": {"code": 10000}. A failure names the threshold, the value and what is right, and leaves thresholds partly changed. */
enum status gate_thresholds_read(struct gate_thresholds *thresholds,
                                 const struct document_value *gates, const char *key,
                                 struct why *ret_why) MUST_USE;
/* Every threshold, under key. */
void gate_thresholds_write(const struct gate_thresholds *thresholds, const char *key,
                           struct canonical_json *json);
/* What a slice may lose. */
uint32_t gate_thresholds_slice(const struct gate_thresholds *thresholds, const char *slice);
/* A slice's name: 1 to 47 of a-z 0-9 _ . - */
bool slice_name_is_valid(const char *name);

#endif
