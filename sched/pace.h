/* pace.h: how many prompt rows a step may take while other streams decode, so that they hardly
 * notice a long prompt.
 *
 * Only speed depends on it: chunking changes no bit of a result. Times are arguments; nothing here
 * reads a clock. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PACE_H
#define FOLDKV_SCHED_PACE_H

#include "config/base.h"

struct pace {
    double decode_ns; /* a step of decode rows alone; 0: none seen yet */
    double row_ns;    /* what one prompt row adds; 0: none seen yet */
};

/* What a step was made of. */
struct pace_step {
    uint32_t decode_rows;
    uint32_t prefill_rows;
};

/* Learns from a finished step. */
void pace_observe(struct pace *pace, struct pace_step step, uint64_t elapsed_ns);
/* Prompt rows of the next step, 1..rows_max: as many as keep the step under PACE_STRETCH times a
 * step of decode rows alone, at least PACE_ROWS_MIN (or rows_max where that is less); rows_max if
 * nothing decodes. */
uint32_t pace_prefill_rows(const struct pace *pace, uint32_t decode_rows, uint32_t rows_max);

#endif
