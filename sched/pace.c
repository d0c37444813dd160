/* pace.c: two running means, and the budget that follows from them.
 *
 * WHY     A prompt row costs a good part of a millisecond of pure arithmetic; a decode step a few
 *         milliseconds of memory reads. A whole prompt in one step would stop every running stream
 *         for seconds.
 * HOW     decode_ns follows steps without prompt rows; row_ns follows what steps with prompt rows
 *         took beyond that, divided by their rows. Means move by an eighth an observation: a
 *         disturbed step is forgotten within a few.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pace.h"

/* Longest step while others decode, as a multiple of a step without prompt rows. */
#define PACE_STRETCH 3.0
#define PACE_WEIGHT 0.125
enum { PACE_ROWS_MIN = 8 };

static void follow(double *mean, double value)
{
    *mean = *mean == 0.0 ? value : *mean + PACE_WEIGHT * (value - *mean);
}

void pace_observe(struct pace *pace, struct pace_step step, uint64_t elapsed_ns)
{
    if (step.prefill_rows == 0 && step.decode_rows > 0)
        follow(&pace->decode_ns, (double)elapsed_ns);
    if (step.prefill_rows < PACE_ROWS_MIN)
        return;
    double beside = step.decode_rows > 0 ? pace->decode_ns : 0.0;
    double left = (double)elapsed_ns - beside;
    follow(&pace->row_ns, (left > 0.0 ? left : 0.0) / step.prefill_rows);
}

uint32_t pace_prefill_rows(const struct pace *pace, uint32_t decode_rows, uint32_t rows_max)
{
    if (decode_rows == 0)
        return rows_max;
    double rows = pace->row_ns > 0.0 ? (PACE_STRETCH - 1.0) * pace->decode_ns / pace->row_ns : 0.0;
    uint32_t least = rows_max < PACE_ROWS_MIN ? rows_max : PACE_ROWS_MIN;
    if (rows < least)
        return least;
    return rows > rows_max ? rows_max : (uint32_t)rows;
}
