/* release_state.h: the states of generations and namespaces, the legal moves between them, and
 * the steps of the journals: by name, as the registry's rows hold them. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_STATE_H
#define FOLDKV_SCHED_RELEASE_STATE_H

#include "config/base.h"

enum generation_state {
#define STATE(name, text, moves) GENERATION_##name,
#include "sched/release/generation.def"
#undef STATE
    GENERATION_STATE_COUNT
};

enum journal_kind { JOURNAL_ROLLBACK, JOURNAL_PROMOTION };

/* In the order of journal.def: all steps of rollback, then all of promotion. */
enum journal_step {
#define STEP(kind, name) STEP_##name,
#include "sched/release/journal.def"
#undef STEP
    JOURNAL_STEP_COUNT
};

const char *generation_state_text(enum generation_state state);
/* The count if there is none of that name (or text is NULL). */
enum generation_state generation_state_find(const char *text);
bool generation_may_move(enum generation_state from, enum generation_state to);

/* "open", "draining", "fenced", "freed": only ever forward. False for an unknown name. */
bool namespace_may_move(const char *from, const char *to);

/* "rollback", "promotion". */
const char *journal_kind_text(enum journal_kind kind);
bool journal_kind_find(const char *text, enum journal_kind *ret_kind);
/* The number of steps of a kind, and the i-th (from 1). */
int journal_step_count(enum journal_kind kind);
enum journal_step journal_step_at(enum journal_kind kind, int i);
/* "STOP_NEW_CANDIDATE_ADMISSION" */
const char *journal_step_text(enum journal_step step);

#endif
