/* quality_canary.c: prompt by prompt over the set, at a low rate.
 *
 * WHY     Weights do not change while they serve, but what computes with them may: another kernel, another
 *         cache, memory that rots. The set is the alarm for what no counter shows.
 * HOW     Every turn either waits for the prompt in the air or sends the next one. After a prompt it rests
 *         as many times as long as the prompt took, so that clients lose no more than its share. The
 *         baseline's sums are those of the approved evaluation: a score is a function of prompt and
 *         model alone.
 * ALWAYS  (1) Results are those of whole runs.                                quality_canary_turn
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/quality_canary.h"

#include "config/mem.h"
#include "sched/lane.h"

#define PPM 1000000u

static void begin_run(struct quality_canary *canary)
{
    canary->item = 0;
    evaluation_plan_slices(canary->plan, canary->slices);
    for (uint32_t i = 0; i < canary->plan->n_slices; i++)
        canary->slices[i].baseline_unats = canary->terms.baseline[i].baseline_unats;
}

enum status quality_canary_begin(struct quality_canary *canary, struct evaluation_plan **plan,
                                 const struct evaluator_canary *terms, struct why *ret_why)
{
    bool is_same = terms->n_slices == (*plan)->n_slices;
    for (uint32_t i = 0; is_same && i < terms->n_slices; i++)
        is_same = strcmp(terms->baseline[i].name, (*plan)->slices[i]) == 0;
    if (!is_same)
        return why_set(ret_why, STATUS_BAD_REQUEST, "slices",
                       "the baseline's sums are not of the slices of this set");
    ASSERT(terms->share_ppm > 0 && terms->share_ppm <= PPM);
    *canary = (struct quality_canary){.plan = *plan, .terms = *terms, .is_hurried = true};
    *plan = NULL;
    begin_run(canary);
    return OK;
}

static void send(struct quality_canary *canary, struct flights *flights, uint64_t now_ns)
{
    const struct planned_item *item = &canary->plan->items[canary->item];
    struct flight_terms terms = {
        .lane = canary->terms.candidate, .n_ids = item->n_ids, .n_scored = item->n_scored};
    terms.ids = mem_alloc(item->n_ids * sizeof *terms.ids);
    if (terms.ids == NULL)
        return; /* the next turn tries again, and so it does where the queue is full */
    memcpy(terms.ids, item->ids, item->n_ids * sizeof *terms.ids);
    canary->sent_ns = now_ns;
    canary->is_flying = flights_submit(flights, &terms, &canary->flight, NULL) == OK;
}

/* When the next prompt may go, after one that took as long as the one just collected. */
static uint64_t after_rest(const struct quality_canary *canary, uint64_t now_ns)
{
    double took_ns = (double)(now_ns - canary->sent_ns);
    return now_ns + (uint64_t)(took_ns * ((double)PPM / canary->terms.share_ppm - 1.0));
}

/* True if the run over the set is complete. */
static bool collect(struct quality_canary *canary, uint64_t now_ns)
{
    const struct planned_item *item = &canary->plan->items[canary->item];
    struct quality_slice *slice = &canary->slices[item->slice];
    canary->is_flying = false;
    canary->due_ns = after_rest(canary, now_ns);
    if (canary->flight.reason == FINISH_CANCELLED ||
        lane_wanted(canary->terms.candidate) != LANE_OPEN)
        return false; /* says nothing of the model */
    quality_add(slice, &slice->candidate_unats, item, &canary->flight);
    return ++canary->item == canary->plan->n_items;
}

bool quality_canary_turn(struct quality_canary *canary, struct flights *flights, uint64_t now_ns)
{
    if (canary->plan == NULL)
        return false;
    if (canary->is_flying && !canary->flight.is_done) {
        if (canary->is_ending)
            flights_end(flights, &canary->flight, false);
        return false;
    }
    if (canary->is_flying && collect(canary, now_ns) && !canary->is_ending) {
        canary->is_hurried = false;
        return true;
    }
    if (canary->is_ending) {
        evaluation_plan_free(&canary->plan);
        return false;
    }
    if (now_ns < canary->due_ns && !canary->is_hurried)
        return false;
    if (canary->item == canary->plan->n_items)
        begin_run(canary);
    send(canary, flights, now_ns);
    return false;
}

void quality_canary_hurry(struct quality_canary *canary)
{
    canary->is_hurried = canary->plan != NULL;
}

void quality_canary_end(struct quality_canary *canary)
{
    canary->is_ending = true;
}
