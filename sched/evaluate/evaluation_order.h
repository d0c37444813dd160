/* evaluation_order.h: the inside of a plan, for what makes and runs it: every request of the evaluation. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_ORDER_H
#define FOLDKV_SCHED_EVALUATION_ORDER_H

#include "sched/evaluate/evaluation_plan.h"

/* One line of the set: prompt and continuation as one run of tokens. */
struct planned_item {
    uint32_t slice;
    uint32_t n_ids, n_scored; /* the last n_scored are the continuation */
    uint32_t *ids;
};

struct evaluation_plan {
    char *manifest;
    uint8_t hash[SHA256_BYTES], prompts_hash[SHA256_BYTES];
    struct gate_thresholds thresholds;
    struct evaluation_matrix matrix;
    uint32_t warmup_runs, repetitions, repetitions_max;
    bool hardware_traffic_is_measurable;
    uint64_t seed; /* of the matrix's tokens */
    uint32_t vocab;
    uint32_t
        *stream; /* what all prefixes of the matrix begin with: as long as its largest context */
    uint32_t n_slices, n_items;
    char slices[QUALITY_SLICES_MAX][SLICE_NAME_MAX + 1];
    struct planned_item *items;
};

/* What a cell runs on each side. SIDE requests keep active_requests - 1 busy (all of them where the
 * query is one token: decoding alone is what such a cell is about), each with a query of one token behind
 * a prefix that is in the cache; PROBES come one after another, with the cell's query each. Both end at
 * the cell's context. */
struct cell_shape {
    bool fits; /* false: query and answer do not fit in the context */
    uint32_t query;
    uint32_t n_side, side_prefix, side_answer;
    uint32_t n_probes, probe_prefix, probe_answer;
};
struct cell_shape cell_shape_of(struct evaluation_cell cell);
/* The same with side answers of twice the length, for a cell whose requests ended before all of them were
 * there. */
void cell_shape_stretch(struct cell_shape *shape, struct evaluation_cell cell);
/* Requests of a cell on one side. */
uint32_t cell_shape_requests(const struct cell_shape *shape);

/* Fills ids with the first n_prefix tokens of the stream, then n_query that no other request has: those of
 * request number `serial` of the cell in that repetition. */
struct cell_request {
    uint32_t repetition, cell, serial;
};
void evaluation_plan_tokens(const struct evaluation_plan *plan, struct cell_request request,
                            uint32_t n_prefix, uint32_t n_query, uint32_t *ret_ids);

/* Makes plan->stream. NO_MEMORY. */
enum status evaluation_plan_stream(struct evaluation_plan *plan) MUST_USE;

/* deploy/evaluation_small.jsonl, made by evaluation_set_shipped.py. */
extern const char evaluation_set_text[];
extern const size_t evaluation_set_text_len;

/* Slices of the plan with no sums yet. */
void evaluation_plan_slices(const struct evaluation_plan *plan,
                            struct quality_slice ret_slices[QUALITY_SLICES_MAX]);

#endif
