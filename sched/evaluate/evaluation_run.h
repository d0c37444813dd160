/* evaluation_run.h: one run of a plan on two lanes, from the first fixed prompt to the last gate. Private to the
 * evaluator; its thread.
 *
 * The parts of a run share this struct; each returns OK, or what ends the run: CANCELLED, or what kept it
 * from saying anything of the candidate. A candidate's own failures are evidence, not an end. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_RUN_H
#define FOLDKV_SCHED_EVALUATION_RUN_H

#include <stdatomic.h>

#include "sched/evaluate/evaluation_order.h"
#include "sched/evaluate/evaluator.h"
#include "sched/evaluate/flights.h"
#include "sched/lane_evidence.h"

enum side { SIDE_BASELINE, SIDE_CANDIDATE, SIDE_COUNT };

struct evaluation_run {
    const struct evaluation_plan *plan;
    struct lane *lanes[SIDE_COUNT];
    struct flights *flights;
    const atomic_bool *is_cancelled;
    /* Called again and again while the run waits: the canary's turn. */
    void (*on_turn)(void *user);
    void (*on_progress)(void *user, const struct evaluator_progress *progress);
    void *user;

    struct evaluator_progress progress;
    struct lane_evidence before[SIDE_COUNT]; /* as the lanes' counters stood at the beginning */
    struct evaluation_result result;
    bool has_run[EVALUATION_CELLS_MAX], has_failed[EVALUATION_CELLS_MAX];
};

/* Runs all; result is complete if OK. */
enum status evaluation_run(struct evaluation_run *run, struct why *ret_why) MUST_USE;

/* ---- its parts ---- */

/* Takes turns until something came. CANCELLED. */
enum status evaluation_run_wait(struct evaluation_run *run, struct why *ret_why) MUST_USE;
/* flights_submit on a side; waits while its queue is full, at most 10 s. */
enum status evaluation_run_submit(struct evaluation_run *run, enum side side,
                                  const struct flight_terms *terms, struct flight *flight,
                                  struct why *ret_why) MUST_USE;
/* Ends the flights that are in the air, and waits until none of the n is. */
void evaluation_run_land(struct evaluation_run *run, struct flight *flights, uint32_t n);
/* A done flight as evidence of its arm, and as progress. If its lane went away: UNAVAILABLE. */
enum status evaluation_run_note(struct evaluation_run *run, enum side side,
                                const struct flight *flight, bool is_measured,
                                struct why *ret_why) MUST_USE;

/* quality_run.c: scores the plan's items on both sides, into result.evidence. */
enum status quality_run(struct evaluation_run *run, struct why *ret_why) MUST_USE;
/* What a done flight over item says; what was not scored counts as the worst. */
void quality_add(struct quality_slice *slice, uint64_t *sum, const struct planned_item *item,
                 const struct flight *flight);
/* cell_run.c: one cell on both sides at a time; a cell that cannot be run only sets has_failed. */
enum status cell_run(struct evaluation_run *run, uint32_t cell, uint32_t repetition,
                     bool is_measured, struct why *ret_why) MUST_USE;
/* warming_run.c */
enum status warming_run(struct evaluation_run *run, char **ret_receipt,
                        uint8_t ret_hash[SHA256_BYTES], bool *ret_passes,
                        struct why *ret_why) MUST_USE;

#endif
