/* pace.c: two running means, and the budget that follows from them.
 *
 * WHY     A prompt row costs a good part of a millisecond of pure arithmetic; a decode step a few
 *         milliseconds of memory reads. A whole prompt in one step would stop every running stream
 *         for seconds.
 * HOW     decode_ns follows steps without prompt rows; unit_ns follows what steps with both kinds of
 *         rows took beyond that, divided by their units, and before there was one, what a unit takes
 *         in steps of prompt rows alone. Means move by an eighth an observation, less upwards where
 *         few prompt rows bear all of what a step has besides them, and take none for more than
 *         twice or less than half of what they are: a step that the machine held up for ten times its length is one step, not a
 *         reason to starve the prompt for the next twenty. The first guesses may be far off, so the
 *         budget doubles at most from step to step, and each leap is a guess anew.
 *         While prompts keep coming no step is without them, so now and then one is made so. Passes
 *         that take turns hold up each other's streams: what may be added is measured by the decode
 *         steps of all, and dealt evenly to those that have prompts.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pace.h"

#include <math.h>

/* Longest step while others decode, as a multiple of a step without prompt rows. A prompt then
 * takes STRETCH / (STRETCH - 1) times as long as alone. */
#define PACE_STRETCH 2.9
/* A step that would be longer than this goes on without its prompt rows. */
#define PACE_LATE 3.3
#define PACE_WEIGHT 0.125
#define PACE_LEAP 1.5 /* a step so many times the greatest before knows better than they did */
enum {
    PACE_MIXED_MAX = 32, /* mixed steps before one of decode rows alone */
    PACE_ROWS_LEARN = 4, /* fewer prompt rows than this make a unit seem to cost too much */
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
    if (*mean > 0.0)
        *mean += weight * (fmin(fmax(value, *mean / 2.0), *mean * 2.0) - *mean);
    else
        *mean = value;
}

/* A step that streams waited for. */
static void observe_unit(struct pace *pace, const struct pace_step *step, double added_ns)
{
    double unit_ns = fmax(added_ns, 0.0) / step->prefill_units;
    bool is_sure = unit_ns < pace->unit_ns || step->prefill_rows >= PACE_ROWS_LEARN;
    double sure = is_sure ? 1.0 : step->prefill_rows / (double)PACE_ROWS_LEARN;
    if (step->prefill_units >= PACE_LEAP * pace->units_most)
        pace->unit_ns = unit_ns;
    else
        follow(&pace->unit_ns, unit_ns, PACE_WEIGHT * sure);
    pace->units_most = fmax(pace->units_most, step->prefill_units);
}

void pace_observe(struct pace *pace, struct pace_step step, uint64_t elapsed_ns)
{
    bool is_mixed = step.decode_rows > 0 && step.prefill_rows > 0;
    pace->mixed_steps = is_mixed ? pace->mixed_steps + 1 : 0;
    double ns = (double)elapsed_ns;
    if (step.prefill_rows == 0 && step.decode_rows > 0)
        follow(&pace->decode_ns, ns, PACE_WEIGHT);
    else if (is_mixed && pace->decode_ns > 0.0)
        observe_unit(pace, &step, ns - pace->decode_ns);
    else if (!is_mixed && step.is_in_company)
        observe_unit(pace, &step, ns);
    else if (!is_mixed && step.prefill_rows > 0 && pace->units_most == 0.0)
        follow(&pace->unit_ns, ns / step.prefill_units, PACE_WEIGHT);
}

/* What prompt rows may add to a step that decode rows wait for, for each time that they may stretch it by. */
static double room_ns(const struct pace *pace, uint32_t decode_rows,
                      const struct pace_company *company)
{
    double decode_ns = (decode_rows > 0 ? pace->decode_ns : 0.0) + company->decode_ns;
    return decode_ns / (1 + company->n_prompting);
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
    if (pace->unit_ns == 0.0)
        return PACE_ROWS_LEARN;
    double units = (PACE_STRETCH - 1.0) * room_ns(pace, decode_rows, company) / pace->unit_ns;
    return fmin(units, fmax(2.0 * pace->units_most, PACE_ROWS_LEARN));
}

double pace_end_ns(const struct pace *pace, const struct pace_step *step, double share_done,
                   uint64_t elapsed_ns)
{
    double whole_ns = pace->decode_ns + pace->unit_ns * step->prefill_units;
    return (double)elapsed_ns + (1.0 - share_done) * whole_ns;
}

bool pace_is_late(const struct pace *pace, const struct pace_step *step,
                  const struct pace_company *company, double end_ns)
{
    if (step->decode_rows == 0 || pace->decode_ns == 0.0 || company->is_unknown)
        return false;
    double room = room_ns(pace, step->decode_rows, company);
    return end_ns > pace->decode_ns + (PACE_LATE - 1.0) * room;
}

uint32_t pace_rows(const struct pace *pace, double units, uint32_t position, uint32_t rows_max)
{
    double rows = units / pace_row_units(pace, position);
    if (rows >= rows_max)
        return rows_max;
    return rows < 1.0 ? 1 : (uint32_t)rows;
}
