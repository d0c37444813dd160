/* evaluation_run.c: the order of an evaluation, and what its parts have in common.
 *
 * WHY     A candidate may be worse in quality, in time, in memory or in what it moves; one run has to see all
 *         of it under the same load as the baseline.
 * HOW     First the set: it is short and finds what is broken. Then the matrix, each cell on both lanes at
 *         once: steps of the two take turns, so that whatever else the machine does meets both alike, and
 *         times are the lane's own. After each repetition every gate is judged (they may be judged as
 *         often as one likes); the run ends when one fails, when all pass, or at repetitions_max.
 * ALWAYS  (1) A cell passed only if it was run and nothing in it failed.       evaluation_run
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_run.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "sched/lane.h"
#include "sched/lane_collector.h"

#define TURN_NS 50000000u
#define PATIENCE_NS 10000000000u

enum status evaluation_run_wait(struct evaluation_run *run, struct why *ret_why)
{
    flights_wait(run->flights, TURN_NS);
    run->on_turn(run->user);
    if (atomic_load(run->is_cancelled))
        return why_set(ret_why, STATUS_CANCELLED, "", "the evaluation was cancelled");
    return OK;
}

enum status evaluation_run_submit(struct evaluation_run *run, enum side side,
                                  const struct flight_terms *terms, struct flight *flight,
                                  struct why *ret_why)
{
    struct flight_terms copy = *terms;
    copy.lane = run->lanes[side];
    size_t bytes = copy.n_ids * sizeof *copy.ids;
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    for (;;) {
        copy.ids = mem_alloc(bytes);
        if (copy.ids == NULL)
            return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a request");
        memcpy(copy.ids, terms->ids, bytes);
        enum status s = flights_submit(run->flights, &copy, flight, ret_why);
        if (s != STATUS_QUEUE_FULL || clock_now_ns() > until)
            return s;
        TRY(evaluation_run_wait(run, ret_why));
    }
}

void evaluation_run_land(struct evaluation_run *run, struct flight *flights, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        flights_end(run->flights, &flights[i], false);
    for (uint32_t i = 0; i < n; i++)
        while (flights[i].request != NULL) {
            flights_wait(run->flights, TURN_NS);
            run->on_turn(run->user);
        }
}

enum status evaluation_run_note(struct evaluation_run *run, enum side side,
                                const struct flight *flight, bool is_measured, struct why *ret_why)
{
    bool is_error = flight->reason == FINISH_ERROR;
    if (is_error && lane_wanted(run->lanes[side]) != LANE_OPEN)
        return why_set(ret_why, STATUS_UNAVAILABLE, "",
                       "the %s's lane was closed during the evaluation",
                       side == SIDE_CANDIDATE ? "candidate" : "baseline");
    if (flight->reason == FINISH_CANCELLED)
        return why_set(ret_why, STATUS_CANCELLED, "", "the engine is shutting down");
    struct request_outcome outcome = {.arm = side == SIDE_CANDIDATE ? ARM_CANARY : ARM_CONTROL,
                                      .is_error = is_error,
                                      .ttft_ns = flight_ttft_ns(flight),
                                      .tpot_ns = flight_tpot_ns(flight)};
    if (is_measured)
        gate_evidence_add(&run->result.evidence, &run->plan->thresholds, &outcome);
    run->progress.n_done++;
    run->on_progress(run->user, &run->progress);
    return OK;
}

/* ---- gates ---- */

enum gates { GATES_OPEN, GATES_PASS, GATES_FAIL };

static enum gates judge(struct evaluation_run *run)
{
    uint32_t n_pass = 0, n_fail = 0;
    for (int i = 0; i < GATE_COUNT; i++) {
        gate_judge((enum gate)i, &run->result.evidence, &run->plan->thresholds, 1,
                   &run->progress.gates[i]);
        n_pass += run->progress.gates[i].verdict == VERDICT_PASS;
        n_fail += run->progress.gates[i].verdict == VERDICT_FAIL;
    }
    run->progress.has_gates = true;
    run->on_progress(run->user, &run->progress);
    return n_fail > 0 ? GATES_FAIL : n_pass == GATE_COUNT ? GATES_PASS : GATES_OPEN;
}

static void take_lanes(struct evaluation_run *run)
{
    struct lane_evidence now, since[SIDE_COUNT];
    for (int side = 0; side < SIDE_COUNT; side++) {
        lane_collector_copy(lane_evidence_collector(run->lanes[side]), &now);
        lane_evidence_since(&now, &run->before[side], &since[side]);
    }
    lane_evidence_to_gate(&since[SIDE_CANDIDATE], &since[SIDE_BASELINE], &run->result.evidence);
}

/* ---- the order ---- */

static void begin(struct evaluation_run *run)
{
    const struct evaluation_plan *plan = run->plan;
    uint32_t n_cells = evaluation_matrix_count(&plan->matrix);
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_cells; i++) {
        struct cell_shape shape = cell_shape_of(evaluation_matrix_cell(&plan->matrix, i));
        n += cell_shape_requests(&shape);
    }
    run->progress = (struct evaluator_progress){
        .stage = EVALUATOR_QUALITY,
        .n_most = 2 * (plan->n_items + n * (plan->warmup_runs + plan->repetitions_max)),
        .repetitions_max = plan->repetitions_max,
        .n_cells = n_cells};
    memcpy(run->result.manifest, plan->hash, SHA256_BYTES);
    run->result.cells.matrix = plan->matrix;
    gate_evidence_clear(&run->result.evidence);
    for (int side = 0; side < SIDE_COUNT; side++)
        lane_collector_copy(lane_evidence_collector(run->lanes[side]), &run->before[side]);
    run->on_progress(run->user, &run->progress);
}

static enum status run_matrix(struct evaluation_run *run, uint32_t repetition, bool is_measured,
                              struct why *ret_why)
{
    for (uint32_t i = 0; i < run->progress.n_cells; i++) {
        if (run->has_failed[i])
            continue;
        run->progress.cell = evaluation_matrix_cell(&run->plan->matrix, i);
        run->on_progress(run->user, &run->progress);
        TRY(cell_run(run, i, repetition, is_measured, ret_why));
        run->has_run[i] |= is_measured;
        run->progress.n_cells_failed += run->has_failed[i];
    }
    return OK;
}

static void settle_cells(struct evaluation_run *run)
{
    for (uint32_t i = 0; i < run->progress.n_cells; i++)
        run->result.cells.has_passed[i] = run->has_run[i] && !run->has_failed[i];
}

enum status evaluation_run(struct evaluation_run *run, struct why *ret_why)
{
    const struct evaluation_plan *plan = run->plan;
    begin(run);
    TRY(quality_run(run, ret_why));
    take_lanes(run);
    enum gates gates = judge(run);
    run->progress.stage = EVALUATOR_MATRIX;
    for (uint32_t i = 0; gates != GATES_FAIL && i < plan->warmup_runs; i++)
        TRY(run_matrix(run, i, false, ret_why));
    for (uint32_t i = 0; gates != GATES_FAIL && i < plan->repetitions_max &&
                         run->progress.n_cells_failed < run->progress.n_cells;
         i++) {
        run->progress.repetition = i + 1;
        TRY(run_matrix(run, plan->warmup_runs + i, true, ret_why));
        take_lanes(run);
        gates = judge(run);
        if (gates == GATES_PASS && i + 1 >= plan->repetitions)
            break;
    }
    settle_cells(run);
    return OK;
}
