/* quality_run.c: the set, scored on both sides.
 *
 * HOW     A window of items is in the air on each side. Sums are whole micro-nats; scores are a function of item
 *         and model alone, whatever else runs, so the baseline's sums can stand for it later.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_run.h"

enum { WINDOW = 4 };

void quality_add(struct quality_slice *slice, uint64_t *sum, const struct planned_item *item,
                 const struct flight *flight)
{
    slice->n_tokens += item->n_scored;
    *sum += flight->unats + (item->n_scored - flight->n_scored) * FLIGHT_WORST_UNATS;
}

static enum status submit(struct evaluation_run *run, enum side side, uint32_t item,
                          struct flight *flight, struct why *ret_why)
{
    const struct planned_item *of = &run->plan->items[item];
    struct flight_terms terms = {.ids = of->ids, .n_ids = of->n_ids, .n_scored = of->n_scored};
    return evaluation_run_submit(run, side, &terms, flight, ret_why);
}

/* The n items from first on, on both sides: flights[side][i]. */
static enum status score(struct evaluation_run *run, uint32_t first, uint32_t n,
                         struct flight flights[SIDE_COUNT][WINDOW], struct why *ret_why)
{
    for (uint32_t i = 0; i < n; i++)
        for (int side = 0; side < SIDE_COUNT; side++)
            TRY(submit(run, (enum side)side, first + i, &flights[side][i], ret_why));
    for (uint32_t i = 0; i < n; i++)
        while (!flights[SIDE_BASELINE][i].is_done || !flights[SIDE_CANDIDATE][i].is_done)
            TRY(evaluation_run_wait(run, ret_why));
    return OK;
}

static enum status take(struct evaluation_run *run, uint32_t first, uint32_t n,
                        struct flight flights[SIDE_COUNT][WINDOW],
                        struct quality_slice slices[QUALITY_SLICES_MAX], struct why *ret_why)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct planned_item *item = &run->plan->items[first + i];
        struct quality_slice *slice = &slices[item->slice], dropped = {0};
        const struct flight *baseline = &flights[SIDE_BASELINE][i];
        TRY(evaluation_run_note(run, SIDE_BASELINE, baseline, true, ret_why));
        TRY(evaluation_run_note(run, SIDE_CANDIDATE, &flights[SIDE_CANDIDATE][i], true, ret_why));
        if (baseline->reason == FINISH_ERROR)
            return why_set(
                ret_why, STATUS_UNAVAILABLE, "",
                "the baseline failed on line %u of the set: there is nothing to compare with",
                first + i + 1);
        quality_add(slice, &slice->candidate_unats, item, &flights[SIDE_CANDIDATE][i]);
        quality_add(&dropped, &slice->baseline_unats, item, baseline);
    }
    return OK;
}

enum status quality_run(struct evaluation_run *run, struct why *ret_why)
{
    struct quality_slice slices[QUALITY_SLICES_MAX];
    evaluation_plan_slices(run->plan, slices);
    for (uint32_t first = 0; first < run->plan->n_items; first += WINDOW) {
        struct flight flights[SIDE_COUNT][WINDOW] = {0};
        uint32_t left = run->plan->n_items - first, n = left < WINDOW ? left : WINDOW;
        enum status s = score(run, first, n, flights, ret_why);
        evaluation_run_land(run, flights[0], SIDE_COUNT * WINDOW);
        if (s == OK)
            s = take(run, first, n, flights, slices, ret_why);
        TRY(s);
    }
    for (uint32_t i = 0; i < run->plan->n_slices; i++)
        if (!gate_evidence_add_quality(&run->result.evidence, &slices[i]))
            return why_set(ret_why, STATUS_INTERNAL, "", "more slices than there is room for");
    run->result.evidence.has_quality = true;
    return OK;
}
