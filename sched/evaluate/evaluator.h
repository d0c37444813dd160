/* evaluator.h: the thread that measures a candidate: its evaluation, its warming, and the quality canary
 * of a rollout, by real requests over an engine port of its own.
 *
 * One run (evaluation or warming) at a time; the canary goes on beside it, between its requests. Whoever owns
 * the evaluator starts, asks and collects, on any one thread; on_news says that there is something to
 * collect. Texts that it hands over are the collector's (mem_free).
 *
 * BASELINE  is best the control lane: stable's weights in a fresh namespace, as cold as the candidate and
 *           away from stable's cache. A lane stays the caller's, and must stay in the engine until the
 *           run that uses it was collected (or the canary stopped). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATOR_H
#define FOLDKV_SCHED_EVALUATOR_H

#include "sched/evaluate/evaluation_plan.h"
#include "sched/evaluate/evaluation_receipt.h"

struct engine;
struct evaluator;
struct lane;

struct evaluator_options {
    struct engine *engine; /* a loan; takes one port */
    void (*on_news)(
        void *user); /* from the evaluator's thread: an end or a canary's result; must not block */
    void *user;
};

enum status evaluator_new(const struct evaluator_options *options, struct evaluator **ret_evaluator,
                          struct why *ret_why) MUST_USE;
/* Cancels what runs and joins the thread; before the engine goes. */
void evaluator_free(struct evaluator **evaluator);

/* Takes the plan (NULL afterwards) if OK. TRANSITION_IN_PROGRESS if something runs or was not collected. */
enum status evaluator_start(struct evaluator *evaluator, struct evaluation_plan **plan,
                            struct lane *candidate, struct lane *baseline,
                            struct why *ret_why) MUST_USE;
/* Runs the plan's fixed prompts in the candidate's namespace. Takes the plan likewise. */
enum status evaluator_warm(struct evaluator *evaluator, struct evaluation_plan **plan,
                           struct lane *candidate, struct lane *baseline,
                           struct why *ret_why) MUST_USE;
/* Its requests are cancelled and it ends with STATUS_CANCELLED. Without a run nothing happens. */
void evaluator_cancel(struct evaluator *evaluator);

enum evaluator_stage {
    EVALUATOR_IDLE,
    EVALUATOR_QUALITY, /* the set, on both sides */
    EVALUATOR_MATRIX,
    EVALUATOR_WARMING,
    EVALUATOR_ENDED /* to be collected */
};

struct evaluator_progress {
    enum evaluator_stage stage;
    uint64_t n_done, n_most; /* requests; n_most counts all repetitions there can be */
    uint32_t repetition, repetitions_max;
    struct evaluation_cell cell; /* which is being run */
    uint32_t n_cells, n_cells_failed;
    char cell_why[192]; /* why the last of them failed; "" */
    bool has_gates;     /* judged after each repetition */
    struct gate_judgement gates[GATE_COUNT];
};
/* Any thread. */
void evaluator_progress(struct evaluator *evaluator, struct evaluator_progress *ret_progress);
/* As an object under key. */
void evaluator_progress_write(const struct evaluator_progress *progress, const char *key,
                              struct canonical_json *json);

/* How a run ended. */
struct evaluator_end {
    bool is_warming;
    /* OK: there is a receipt. CANCELLED, or what kept the run from saying anything of the candidate (the
     * baseline failed, a lane closed), with why. */
    enum status status;
    struct why why;
    bool passes;
    struct evaluation_cells cells; /* of an evaluation */
    char *receipt;                 /* evaluation_receipt's, or the warming's */
    uint8_t receipt_hash[SHA256_BYTES];
};
/* True once a run; the evaluator is idle then. */
bool evaluator_take_end(struct evaluator *evaluator, struct evaluator_end *ret_end);

/* The quality canary: the set of plan is scored on the candidate again and again, a prompt at a
 * time, against the sums that its evaluation found for the baseline. Takes the plan likewise. */
struct evaluator_canary {
    struct lane *candidate;
    /* Of all time, how much its prompts may take, in millionths (at least 1); it rests accordingly. The first
     * run, and one that is hurried, do not rest. */
    uint32_t share_ppm;
    uint32_t n_slices;
    struct quality_slice baseline[QUALITY_SLICES_MAX]; /* of the evaluation's receipt */
};
enum status evaluator_canary_start(struct evaluator *evaluator, struct evaluation_plan **plan,
                                   const struct evaluator_canary *canary,
                                   struct why *ret_why) MUST_USE;
/* Somebody waits for a result: the run goes to its end without a rest. */
void evaluator_canary_hurry(struct evaluator *evaluator);
/* Waits until none of its requests is in the engine. */
void evaluator_canary_stop(struct evaluator *evaluator);
/* The last whole run over the set, as evidence has it; false if there was none yet. n_runs counts. Any
 * thread. */
struct evaluator_quality {
    uint64_t n_runs;
    uint32_t n_slices;
    struct quality_slice slices[QUALITY_SLICES_MAX];
};
bool evaluator_quality(struct evaluator *evaluator, struct evaluator_quality *ret_quality);

#endif
