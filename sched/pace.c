/* pace.c: two running means, and the budget that follows from them.
 *
 * WHY     A prompt row costs a good part of a millisecond of pure arithmetic; a decode step a few
 *         milliseconds of memory reads. A whole prompt in one step would stop every running stream
 *         for seconds.
 * HOW     decode_ns follows steps without prompt rows, alone_ns those of nothing else; unit_ns
 *         follows what steps with both kinds of rows took beyond that, divided by their units.
 *         Means move by an eighth an observation: a disturbed step is forgotten within a few; by less
 *         where few prompt rows say little of a unit. While prompts keep coming no step is without
 *         them, so now and then one is made so. Passes that take turns hold up each other's streams:
 *         what may be added is measured by the decode steps of all, and dealt evenly to those that
 *         have prompts.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pace.h"

#include <math.h>

/* Longest step while others decode, as a multiple of a step without prompt rows. A prompt then
 * takes STRETCH / (STRETCH - 1) times as long as alone. */
#define PACE_STRETCH 3.3
#define PACE_WEIGHT 0.125
enum {
    PACE_MIXED_MAX = 32, /* mixed steps before one of decode rows alone */
    PACE_ROWS_LEARN = 4, /* fewer prompt rows than this say little about a unit */
    PACE_ROWS_ALONE =
        256, /* a shorter step of prompt rows alone is in part overhead, a first one mostly */
};

void pace_init(struct pace *pace, double doubling_tokens)
{
    *pace = (struct pace){.doubling_tokens = doubling_tokens};
}

double pace_row_units(const struct pace *pace, uint32_t position)
{
    return 1.0 + position / pace->doubling_tokens;
}

static void follow(double *mean, double value, double weight)
{
    *mean = *mean == 0.0 ? value : *mean + weight * (value - *mean);
}

void pace_observe(struct pace *pace, struct pace_step step, uint64_t elapsed_ns)
{
    bool is_mixed = step.decode_rows > 0 && step.prefill_rows > 0;
    bool is_watched = step.prefill_rows > 0 && step.decode_rows == 0 && step.is_in_company;
    pace->mixed_steps = is_mixed ? pace->mixed_steps + 1 : 0;
    if (step.prefill_rows == 0 && step.decode_rows > 0)
        follow(&pace->decode_ns, (double)elapsed_ns, PACE_WEIGHT);
    if (!is_mixed && step.prefill_rows >= PACE_ROWS_ALONE)
        follow(&pace->alone_ns, (double)elapsed_ns / step.prefill_units, PACE_WEIGHT);
    if (!is_watched && (!is_mixed || pace->decode_ns == 0.0))
        return;
    double left = (double)elapsed_ns - pace->decode_ns;
    double sure =
        step.prefill_rows < PACE_ROWS_LEARN ? step.prefill_rows / (double)PACE_ROWS_LEARN : 1.0;
    follow(&pace->unit_ns, (left > 0.0 ? left : 0.0) / step.prefill_units, PACE_WEIGHT * sure);
}

double pace_budget_units(const struct pace *pace, uint32_t decode_rows,
                         const struct pace_company *company)
{
    if (decode_rows == 0 && company->decode_ns == 0.0 && !company->is_unknown)
        return INFINITY;
    if (company->is_unknown)
        return 0.0;
    if (decode_rows > 0 && (pace->decode_ns == 0.0 || pace->mixed_steps >= PACE_MIXED_MAX))
        return 0.0;
    /* A row among a few costs no less than one among hundreds, whatever a lucky step says. */
    double unit_ns = pace->unit_ns > pace->alone_ns ? pace->unit_ns : pace->alone_ns;
    if (unit_ns == 0.0)
        return PACE_ROWS_LEARN;
    double decode_ns = (decode_rows > 0 ? pace->decode_ns : 0.0) + company->decode_ns;
    return (PACE_STRETCH - 1.0) * decode_ns / (1 + company->n_prompting) / unit_ns;
}

uint32_t pace_rows(const struct pace *pace, double units, uint32_t position, uint32_t rows_max)
{
    double rows = units / pace_row_units(pace, position);
    if (rows >= rows_max)
        return rows_max;
    return rows < 1.0 ? 1 : (uint32_t)rows;
}
