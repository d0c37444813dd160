/* journal.h: how a rollback and a promotion are carried out: an ordered journal of steps, each with its
 * receipt, replayed forward and never back.
 *
 * A rollback begins with one transaction, TX-1: intent, first receipt, audit entry, next epoch. Whoever decides stops
 * the candidate's admission in memory at once, before TX-1; nothing is claimed until TX-1 is durable. Then
 * journal_advance makes the steps: the effect in memory, which must be idempotent, then its receipt. The row
 * that fences a namespace is durable before the effect that fences it.
 *
 * A journal's row: {candidate, candidate_namespace, control_namespace, evidence, kind, older, pinned, reason, rollout,
 * started_us, state: open | blocked | complete | preempted, step}. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_JOURNAL_H
#define FOLDKV_SCHED_JOURNAL_H

#include "sched/release/release_rollout.h"
#include "sched/release/release_state.h"

/* An open journal, as effects see it. Empty texts: there is none. */
struct journal_case {
    char journal[REGISTRY_KEY_ROOM], rollout[REGISTRY_KEY_ROOM];
    enum journal_kind kind;
    char candidate[SHA256_HEX]; /* what is rolled back, or promoted */
    char pinned[SHA256_HEX]; /* rollback: what serves instead; promotion: the stable one before */
    char older[SHA256_HEX];  /* promotion: the one before that, whose weights go */
    char candidate_namespace[SHA256_HEX], control_namespace[SHA256_HEX],
        older_namespace[SHA256_HEX];
    char reason[ROLLOUT_NOTE_ROOM];
    int64_t started_us;
    int step; /* the last that has its receipt */
    bool is_blocked;
};

enum effect_outcome { EFFECT_DONE, EFFECT_PENDING, EFFECT_FAILED };
/* What a step does in memory. It may run again after a crash or after EFFECT_PENDING, and must not wait. What it
 * adds to evidence becomes part of the step's receipt. EFFECT_FAILED in PIN_PREVIOUS_ACTIVE_RELEASE blocks the
 * rollback; elsewhere it is tried again. */
typedef enum effect_outcome journal_effect_fn(void *user, const struct journal_case *c,
                                              int64_t at_us, struct record *evidence,
                                              struct why *ret_why);
struct journal_effects {
    journal_effect_fn *apply[JOURNAL_STEP_COUNT]; /* NULL: nothing to do in memory */
    void *user;
};

enum journal_progress { JOURNAL_NONE, JOURNAL_PENDING, JOURNAL_BLOCKED };

/* TX-1 as part of the change in which the rollout was decided to be rolled back (release_rollout.h); its decision is the
 * evidence. It pre-empts a promotion; of a rollback that is blocked it tries the pin again.
 * TRANSITION_IN_PROGRESS if a rollback is in progress; ILLEGAL_MOVE if there is nothing to go back to. */
enum status journal_put_rollback(struct registry *registry, struct change *change,
                                 const struct release_rollout *rollout, const char *reason,
                                 struct why *ret_why) MUST_USE;
/* The journal of a rollout's promotion, as part of the change that decided it. */
enum status journal_put_promotion(struct registry *registry, struct change *change,
                                  const struct release_rollout *rollout,
                                  struct why *ret_why) MUST_USE;

/* Makes as many steps as it can: JOURNAL_NONE when no journal is open (any more), JOURNAL_PENDING when an effect
 * needs time, JOURNAL_BLOCKED when the previous release could not be verified (ret_why says why). A failure of
 * the registry is its status; the step is made when it is called again. Also what recovery calls, before the
 * listener opens. */
enum status journal_advance(struct registry *registry, const struct journal_effects *effects,
                            int64_t at_us, enum journal_progress *ret_progress,
                            struct why *ret_why) MUST_USE;
/* The open (or blocked) journal; NOT_FOUND. */
enum status journal_find_open(struct registry *registry, struct journal_case *ret_case,
                              struct why *ret_why) MUST_USE;

#endif
