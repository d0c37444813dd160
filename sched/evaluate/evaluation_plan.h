/* evaluation_plan.h: an evaluation settled before its first request: the fixed prompts as tokens, the matrix, the
 * order of all requests, the limits; and the manifest that says so, with its hash.
 *
 * Made from terms, kept by the caller (the manifest goes into the registry BEFORE evaluator_start), then run by
 * evaluator.h. Read-only once made; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_PLAN_H
#define FOLDKV_SCHED_EVALUATION_PLAN_H

#include "sched/evaluate/evaluation_manifest.h"
#include "sched/evaluate/evaluation_set.h"
#include "sched/model.h"

/* Text to tokens, mem_alloc'd; with what stands at a text's start (BOS) if is_start. Called on the
 * thread of whoever makes a plan. */
typedef enum status evaluation_encode_fn(void *user, struct slice text, bool is_start,
                                         uint32_t **ret_ids, uint32_t *ret_n, struct why *ret_why);

/* What the program runs on, for the manifest. */
struct evaluation_host {
    char hardware[160]; /* "AMD EPYC ..., 2 threads, avx512" */
    char topology[64];  /* "1 socket, 2 cores" */
};
/* isa is the name of the kernels'. */
void evaluation_host_read(const char *isa, uint32_t n_threads, struct evaluation_host *ret_host);

/* A side from what was really loaded; kernel_plan is the hash of its plan receipt. NO_MEMORY. */
enum status evaluation_side_of(const struct model *model, const uint8_t kernel_plan[SHA256_BYTES],
                               struct evaluation_side *ret_side) MUST_USE;

/* What a matrix may ask for. */
struct evaluation_room {
    uint32_t context, running_max, prefill_chunk; /* the lesser of both sides' */
};

/* What the caller asks for; all loans until evaluation_plan_new returns. */
struct evaluation_terms {
    const struct evaluation_set *set;
    struct evaluation_side baseline, candidate;
    uint8_t tokenizer[SHA256_BYTES];
    const struct evaluation_host *host;
    bool hardware_traffic_is_measurable;
    uint32_t vocab; /* prompts of the matrix are tokens below it */
    struct evaluation_matrix matrix;
    /* The matrix is run repetitions times, and on until every gate passes, one fails, or
     * repetitions_max is reached (0: as often as gives every test some EVALUATION_SAMPLES).
     * warmup_runs of each cell are not measured. */
    uint32_t warmup_runs, repetitions, repetitions_max;
    struct gate_thresholds thresholds;
    evaluation_encode_fn *encode;
    void *encode_user;
};

enum { EVALUATION_REPETITIONS_MAX = 1024, EVALUATION_WARMUP_MAX = 8, EVALUATION_SAMPLES = 2400 };

/* At most three contexts up to the room's, at most three numbers of active requests from one to
 * running_max, queries of one token and of a chunk. */
void evaluation_matrix_default(const struct evaluation_room *room,
                               struct evaluation_matrix *ret_matrix);
/* BAD_REQUEST names the first value that the room does not hold, and the bound. */
enum status evaluation_matrix_fits(const struct evaluation_matrix *matrix,
                                   const struct evaluation_room *room, struct why *ret_why) MUST_USE;
/* Sets matrix, repetitions and thresholds to their defaults; the other members stay. */
void evaluation_terms_defaults(const struct evaluation_room *room, struct evaluation_terms *terms);
/* Changes what the body of POST ...:evaluate names: {"matrix": {...}, "repetitions", "repetitions_max",
 * "set": PATH, "thresholds": {as a plan's "gates"}, "warmup_runs"}. ret_set_path (mem_free) is NULL if it names no
 * set. BAD_REQUEST names the member. */
enum status evaluation_terms_read(struct evaluation_terms *terms, struct slice body,
                                  char **ret_set_path, struct why *ret_why) MUST_USE;

struct evaluation_plan;

/* Encodes, settles the order, writes the manifest. As evaluation_manifest_write; also what encode
 * fails with. */
enum status evaluation_plan_new(const struct evaluation_terms *terms,
                                struct evaluation_plan **ret_plan, struct why *ret_why) MUST_USE;
void evaluation_plan_free(struct evaluation_plan **plan);

const char *evaluation_plan_manifest(const struct evaluation_plan *plan);
const uint8_t *evaluation_plan_hash(const struct evaluation_plan *plan);

/* The set that ships with the program (deploy/evaluation_small.jsonl). As evaluation_set_parse. */
enum status evaluation_set_shipped(struct evaluation_set **ret_set, struct why *ret_why) MUST_USE;

#endif
