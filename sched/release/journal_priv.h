/* journal_priv.h: what the two halves of the journal share: beginning one, and making its steps. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_JOURNAL_PRIV_H
#define FOLDKV_SCHED_JOURNAL_PRIV_H

#include "sched/release/journal.h"

/* The receipt of a step and the row that names it; evidence may have no json. */
void journal_put_step(struct change *change, const char *journal, enum journal_step step,
                      int number, const char *candidate, int64_t at_us,
                      const struct record *evidence);
/* Sets state and step of a journal's row and writes it. */
void journal_put_state(struct change *change, const char *journal, struct record *row,
                       const char *state, int step);
/* The rows that a step leaves, in the transaction of its receipt. */
enum status journal_put_rows(struct registry *registry, struct change *change,
                             const struct journal_case *c, enum journal_step step,
                             struct why *ret_why) MUST_USE;
/* The rows that must be durable before a step's effect; ret_is_needed false: there are none, or they are. change
 * NULL: only asks. */
enum status journal_put_before(struct registry *registry, struct change *change,
                               const struct journal_case *c, enum journal_step step,
                               bool *ret_is_needed, struct why *ret_why) MUST_USE;
/* What happened to a journal, told to its rollout, in the same change. */
enum status journal_put_event(struct registry *registry, struct change *change,
                              const struct journal_case *c, enum rollout_event_kind kind,
                              const char *note, struct why *ret_why) MUST_USE;

#endif
