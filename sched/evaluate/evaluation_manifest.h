/* evaluation_manifest.h: everything that an evaluation holds fixed, as canonical JSON with a hash, settled before the run.
 *
 * A comparison is worth something only if all but the treatment stayed as it was; so each coordinate
 * is written down first, and the receipt of the run names this hash. Texts are loans. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_MANIFEST_H
#define FOLDKV_SCHED_EVALUATION_MANIFEST_H

#include "sched/evaluate/evaluation_cells.h"
#include "sched/judge/gate_thresholds.h"

enum { EVALUATION_METRICS_MAX = 16, EVALUATION_MANIFEST_BYTES_MAX = 1 << 17 };

/* A quality task and what it is scored by: {"continuation", "negative log-probability a token"}. */
struct evaluation_metric {
    const char *task, *metric;
};

/* One side of the comparison. */
struct evaluation_side {
    uint8_t checkpoint[SHA256_BYTES], architecture[SHA256_BYTES], head_map[SHA256_BYTES];
    uint8_t identity[SHA256_BYTES], kernel_plan[SHA256_BYTES];
    const char *backend_revision; /* of the program and its kernels */
    const char *q_dtype, *kv_dtype, *accumulator_dtype;
    uint32_t page_tokens, tensor_parallel_degree;
};

struct evaluation_manifest {
    uint8_t dataset[SHA256_BYTES];       /* evaluation_set's hash */
    uint8_t request_order[SHA256_BYTES]; /* prompts and requests in the order in which they run */
    uint8_t tokenizer[SHA256_BYTES];
    uint32_t n_metrics;
    struct evaluation_metric metrics[EVALUATION_METRICS_MAX]; /* tasks rise */
    uint32_t n_slices;
    char slices[SLICE_TOLERANCES_MAX][SLICE_NAME_MAX + 1]; /* protected; names rise */
    struct evaluation_side baseline, candidate;
    const char *hardware, *topology; /* "Zen 4, 2 cores, AVX-512 VNNI", "one socket" */
    struct evaluation_matrix matrix;
    uint32_t warmup_runs, repetitions, repetitions_max; /* the last bounds how often it goes on */
    bool hardware_traffic_is_measurable; /* settled now: the traffic gate's hardware part */
    struct gate_thresholds thresholds;   /* the SLO's among them */
};

/* ret_text is the caller's (mem_free). BAD_REQUEST names a member that is missing or out of order, and
 * the coordinates in which the sides must agree and do not; NO_MEMORY. */
enum status evaluation_manifest_write(const struct evaluation_manifest *manifest, char **ret_text,
                                      uint8_t ret_hash[SHA256_BYTES], struct why *ret_why) MUST_USE;

/* What a receipt that names the manifest is held against. */
struct evaluation_subject {
    uint8_t dataset[SHA256_BYTES];
    uint8_t checkpoint[SHA256_BYTES], identity[SHA256_BYTES]; /* the candidate's */
    uint8_t kernel_plan[SHA256_BYTES];
    uint8_t baseline_identity[SHA256_BYTES], baseline_plan[SHA256_BYTES];
    struct gate_thresholds thresholds;
};
/* From the text of a manifest. BAD_FILE names what is missing; NO_MEMORY. */
enum status evaluation_subject_read(struct slice manifest, struct evaluation_subject *ret_subject,
                                    struct why *ret_why) MUST_USE;

#endif
