/* rollout.h: how a candidate comes to be promoted or rolled back: a pure function from a state and an
 * event to the next state and a decision.
 *
 * It reads no clock and keeps nothing: time is the event's, evidence is a loan, and the caller makes the
 * decision durable before he acts on it. The same (rollout, plan, event) gives the same decision, which
 * is what rollout_receipt.h lets an audit check. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_H
#define FOLDKV_SCHED_ROLLOUT_H

#include "sched/judge/rollout_plan.h"

/* How long a step that has its sample waits for gates that fail without data: they are measured at intervals,
 * and a busy step has its sample before the first of them. */
enum { ROLLOUT_PATIENCE_SECONDS = 90 };

enum rollout_state {
#define STATE(NAME, name, moves) ROLLOUT_##NAME,
#include "sched/judge/rollout.def"
#undef STATE
    ROLLOUT_STATE_COUNT
};
const char *rollout_state_name(enum rollout_state state);
/* The count if there is none of that name, or name is NULL. */
enum rollout_state rollout_state_find(const char *name);
bool rollout_may_move(enum rollout_state from, enum rollout_state to);
/* Promoted, rolled back or rejected: only a rollback of what was promoted can follow. */
bool rollout_is_over(enum rollout_state state);

/* Why a rollout paused, is rolled back or was rejected. */
enum rollout_reason {
    REASON_NONE,
    REASON_COMMAND,      /* the operator's */
    REASON_GATE_FAILED,  /* gate */
    REASON_NO_DATA,      /* gate: due, and nothing to judge by */
    REASON_INCONCLUSIVE, /* gate: neither passed nor failed in the step's longest time */
    REASON_FEW_REQUESTS, /* the longest time went by before the minimum sample */
    REASON_LOAD_FAILED,
    REASON_EVALUATION_FAILED,
    REASON_ROLLBACK_BLOCKED,
    REASON_COUNT
};
const char *rollout_reason_name(enum rollout_reason reason);
enum rollout_reason rollout_reason_find(const char *name);

/* A value: all that the machine remembers. */
struct rollout {
    enum rollout_state state;
    uint32_t step;       /* index of the step that runs, paused, or ended last */
    bool has_served;     /* the candidate has had traffic: step counts */
    uint64_t started_ms; /* when the step began or was resumed */
    enum rollout_reason reason;
    enum gate gate; /* of a reason that has one; else 0 */
};

enum rollout_event_kind {
    EVENT_LOAD,
    EVENT_LOADED,
    EVENT_LOAD_FAILED,
    EVENT_EVALUATED,
    EVENT_EVALUATION_FAILED,
    EVENT_START,
    EVENT_APPROVE,
    EVENT_PAUSE,
    EVENT_RESUME,
    EVENT_PROMOTE, /* skips the steps that are left: every gate must pass now, with the step's sample */
    EVENT_ABORT, /* abort, and rollback of a promoted candidate */
    EVENT_TICK,  /* time went by, or requests ended: judge */
    EVENT_PROMOTION_DONE,
    EVENT_ROLLBACK_DONE,
    EVENT_ROLLBACK_BLOCKED,
    EVENT_COUNT
};
const char *rollout_event_name(enum rollout_event_kind kind);

struct rollout_event {
    enum rollout_event_kind kind;
    uint64_t now_ms; /* of the wall clock; if it goes back, a step lasts longer */
    const struct gate_evidence
        *evidence; /* of the step; TICK and PROMOTE need it, others ignore it */
};

enum rollout_action {
    ACTION_NONE,       /* nothing to make durable, nothing to do */
    ACTION_MOVE,       /* another state, the same route */
    ACTION_BEGIN_STEP, /* route step's weight; the evidence begins empty */
    ACTION_CONTINUE,   /* route step's weight again; the evidence stays */
    ACTION_PROMOTE,    /* journal of the promotion, then EVENT_PROMOTION_DONE */
    ACTION_ROLL_BACK, /* candidate admission stops at once; the journal, then EVENT_ROLLBACK_DONE */
    ACTION_REJECT,
    ACTION_COUNT
};
const char *rollout_action_name(enum rollout_action action);

struct rollout_decision {
    enum rollout_action action;
    bool is_judged; /* the judgements hold the gates at this moment */
    struct gate_judgement judgements[GATE_COUNT];
};

void rollout_init(struct rollout *ret_rollout);
/* OK: ret_next and ret_decision are set (ret_next may be rollout itself); for a TICK that changes
 * nothing the action is NONE. WRONG_STATE or TRANSITION_IN_PROGRESS: nothing is set, and ret_why says
 * which state takes the command or which gate is missing. */
enum status rollout_apply(const struct rollout *rollout, const struct rollout_plan *plan,
                          const struct rollout_event *event, struct rollout *ret_next,
                          struct rollout_decision *ret_decision, struct why *ret_why) MUST_USE;

/* The candidate's and control's share that the router gives in this state; 10000 once promoted. */
uint32_t rollout_weight_bp(const struct rollout *rollout, const struct rollout_plan *plan);

#endif
