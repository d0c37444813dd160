/* pace.h: how many prompt rows a step may take while other streams decode, so that they hardly
 * notice a long prompt.
 *
 * Only speed depends on it: chunking changes no bit of a result. Times are arguments; nothing here
 * reads a clock. Work is counted in units: a prompt row at the start of a context is one, a row
 * further in is more, by the attention it does. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PACE_H
#define FOLDKV_SCHED_PACE_H

#include "config/base.h"

struct pace {
    double doubling_tokens; /* the context at which a row costs two units */
    double decode_ns;       /* a step of decode rows alone; 0: none seen yet */
    double unit_ns;         /* what one unit adds to decode rows; 0: none seen yet */
    double units_most;      /* that a step has added to decode rows; 0: none has */
    uint32_t mixed_steps;   /* steps with both kinds of rows since the last of decode rows alone */
};

/* What a step was made of. */
struct pace_step {
    uint32_t decode_rows;
    uint32_t prefill_rows;
    double prefill_units;
    bool is_in_company; /* streams of other passes waited for it */
};

/* What other passes do between two steps of this one. */
struct pace_company {
    double decode_ns;     /* the steps of those that decode, without prompt rows */
    bool is_unknown;      /* one of them has seen no such step yet */
    uint32_t n_prompting; /* that have prompt rows to compute */
};

void pace_init(struct pace *pace, double doubling_tokens);
/* Units of the row at a position. */
double pace_row_units(const struct pace *pace, uint32_t position);
/* Learns from a finished step. */
void pace_observe(struct pace *pace, struct pace_step step, uint64_t elapsed_ns);
/* Units of prompt rows for the next step: as many as keep it, with the steps of the company, under
 * PACE_STRETCH times what their decode rows alone would take, and no more than twice what was ever
 * tried. 0: leave prompts out of this one, to see what such a step takes. INFINITY if nothing
 * decodes. */
double pace_budget_units(const struct pace *pace, uint32_t decode_rows,
                         const struct pace_company *company);
/* When a step will end, from its start, of whose layers the share_done took elapsed_ns. */
double pace_end_ns(const struct pace *pace, const struct pace_step *step, double share_done,
                   uint64_t elapsed_ns);
/* Whether a step that ends at end_ns keeps its decode rows waiting for so long that it had better do without its prompt
 * rows: longer than chance makes it, since they are then computed again. */
bool pace_is_late(const struct pace *pace, const struct pace_step *step,
                  const struct pace_company *company, double end_ns);
/* Rows from position on, 1..rows_max, that fit into units (one always does). */
uint32_t pace_rows(const struct pace *pace, double units, uint32_t position, uint32_t rows_max);

#endif
