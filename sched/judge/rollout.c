/* rollout.c: the machine of rollout.def.
 *
 * WHY     A rollout outlives processes and is argued about afterwards; so what it decides must follow
 *         from what is written down, and from nothing else.
 * HOW     One handler an event. A tick judges every gate: a breach rolls back in any state in which the
 *         candidate has traffic, a step also ends, pauses or goes on.
 * ALWAYS  (1) Every move is one of rollout.def's.                                         move
 *         (2) The minimum sample and a pass of every gate end a step; time alone never does.
 *                                                                                     judge_step
 *         (3) Nothing pre-empts a rollback.                                       rollout_apply
 * NOT     Waiting, writing and routing: the caller's.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout.h"

#define TO(NAME) (1u << ROLLOUT_##NAME)

static const struct {
    const char *name;
    uint32_t moves;
} states[ROLLOUT_STATE_COUNT] = {
#define STATE(NAME, name, moves) {#name, moves},
#include "sched/judge/rollout.def"
#undef STATE
};

/* One call's inputs and outputs. */
struct turn {
    const struct rollout *before;
    const struct rollout_plan *plan;
    const struct rollout_event *event;
    struct rollout next;
    struct rollout_decision *decision;
};

const char *rollout_state_name(enum rollout_state state)
{
    ASSERT(state < ROLLOUT_STATE_COUNT);
    return states[state].name;
}

enum rollout_state rollout_state_find(const char *name)
{
    int i = 0;
    while (i < ROLLOUT_STATE_COUNT && (name == NULL || strcmp(states[i].name, name) != 0))
        i++;
    return (enum rollout_state)i;
}

bool rollout_is_over(enum rollout_state state)
{
    return state == ROLLOUT_PROMOTED || state == ROLLOUT_ROLLED_BACK || state == ROLLOUT_REJECTED;
}

bool rollout_may_move(enum rollout_state from, enum rollout_state to)
{
    ASSERT(from < ROLLOUT_STATE_COUNT && to < ROLLOUT_STATE_COUNT);
    return (states[from].moves & 1u << to) != 0;
}

const char *rollout_reason_name(enum rollout_reason reason)
{
    static const char *const names[REASON_COUNT] = {
        "none",         "command",     "gate_failed",       "no_data",         "inconclusive",
        "few_requests", "load_failed", "evaluation_failed", "rollback_blocked"};
    ASSERT(reason < REASON_COUNT);
    return names[reason];
}

enum rollout_reason rollout_reason_find(const char *name)
{
    int i = 0;
    while (i < REASON_COUNT &&
           (name == NULL || strcmp(rollout_reason_name((enum rollout_reason)i), name) != 0))
        i++;
    return (enum rollout_reason)i;
}

const char *rollout_event_name(enum rollout_event_kind kind)
{
    static const char *const names[EVENT_COUNT] = {
        "load",  "loaded",  "load_failed",    "evaluated",     "evaluation_failed",
        "start", "approve", "pause",          "resume",        "promote",
        "abort", "tick",    "promotion_done", "rollback_done", "rollback_blocked"};
    ASSERT(kind < EVENT_COUNT);
    return names[kind];
}

const char *rollout_action_name(enum rollout_action action)
{
    static const char *const names[ACTION_COUNT] = {
        "none", "move", "begin_step", "continue", "promote", "roll_back", "reject"};
    ASSERT(action < ACTION_COUNT);
    return names[action];
}

void rollout_init(struct rollout *ret_rollout)
{
    *ret_rollout = (struct rollout){.state = ROLLOUT_REGISTERED};
}

static void move(struct turn *turn, enum rollout_state to, enum rollout_action action)
{
    ASSERT(rollout_may_move(turn->before->state, to));
    turn->next.state = to;
    turn->next.reason = REASON_NONE;
    turn->next.gate = (enum gate)0;
    turn->decision->action = action;
}

static void move_for(struct turn *turn, enum rollout_state to, enum rollout_action action,
                     enum rollout_reason reason, enum gate gate)
{
    move(turn, to, action);
    turn->next.reason = reason;
    turn->next.gate = gate;
}

static void begin_step(struct turn *turn, uint32_t step)
{
    move(turn, ROLLOUT_STEP, ACTION_BEGIN_STEP);
    turn->next.step = step;
    turn->next.has_served = true;
    turn->next.started_ms = turn->event->now_ms;
}

/* Candidate and control have each ended the step's minimum. */
static bool has_minimum(const struct rollout *rollout, const struct rollout_plan *plan,
                        const struct gate_evidence *evidence)
{
    uint32_t least = plan->steps[rollout->step].min_requests;
    return evidence->canary.n_requests >= least && evidence->control.n_requests >= least;
}

static void judge_all(struct turn *turn)
{
    turn->decision->is_judged = true;
    for (int i = 0; i < GATE_COUNT; i++)
        gate_judge((enum gate)i, turn->event->evidence, &turn->plan->thresholds,
                   turn->plan->n_steps, &turn->decision->judgements[i]);
}

/* The first gate with the verdict; GATE_COUNT if none has it. */
static enum gate first_gate(const struct rollout_decision *decision, enum gate_verdict verdict)
{
    int i = 0;
    while (i < GATE_COUNT && decision->judgements[i].verdict != verdict)
        i++;
    return (enum gate)i;
}

/* The first gate without data whose rule for that is to fail; GATE_COUNT if there is none. */
static enum gate first_mute_failure(const struct rollout_decision *decision)
{
    int i = 0;
    while (i < GATE_COUNT && (decision->judgements[i].verdict != VERDICT_NO_DATA ||
                              gate_rows[i].without != GATE_WITHOUT_FAIL))
        i++;
    return (enum gate)i;
}

/* True if a gate has failed; the rollout is then on its way back. */
static bool rolls_back(struct turn *turn)
{
    judge_all(turn);
    enum gate failed = first_gate(turn->decision, VERDICT_FAIL);
    if (failed == GATE_COUNT)
        return false;
    move_for(turn, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK, REASON_GATE_FAILED, failed);
    return true;
}

/* Every gate has passed, with the sample: the next step, or the promotion. */
static void end_step(struct turn *turn, bool skips_rest)
{
    if (!skips_rest && turn->before->step + 1 < turn->plan->n_steps)
        begin_step(turn, turn->before->step + 1);
    else if (turn->plan->auto_approve)
        move(turn, ROLLOUT_PROMOTING, ACTION_PROMOTE);
    else
        move(turn, ROLLOUT_AWAITING_APPROVAL, ACTION_MOVE);
}

static bool all_pass(const struct rollout_decision *decision)
{
    for (int i = 0; i < GATE_COUNT; i++)
        if (decision->judgements[i].verdict != VERDICT_PASS)
            return false;
    return true;
}

/* A step that is due by time and was not ended by its gates. */
static void pause_step(struct turn *turn, bool has_sample)
{
    enum gate mute = first_gate(turn->decision, VERDICT_NO_DATA);
    enum gate open = first_gate(turn->decision, VERDICT_INCONCLUSIVE);
    if (!has_sample)
        move_for(turn, ROLLOUT_PAUSED, ACTION_MOVE, REASON_FEW_REQUESTS, (enum gate)0);
    else if (mute != GATE_COUNT)
        move_for(turn, ROLLOUT_PAUSED, ACTION_MOVE, REASON_NO_DATA, mute);
    else
        move_for(turn, ROLLOUT_PAUSED, ACTION_MOVE, REASON_INCONCLUSIVE, open);
}

static void judge_step(struct turn *turn)
{
    const struct rollout_step *step = &turn->plan->steps[turn->before->step];
    if (rolls_back(turn))
        return;
    bool has_sample = has_minimum(turn->before, turn->plan, turn->event->evidence);
    uint64_t now_ms = turn->event->now_ms, started_ms = turn->before->started_ms;
    bool is_late = now_ms >= started_ms + (uint64_t)step->max_seconds * 1000;
    bool is_due = is_late || (has_sample && now_ms >= started_ms + ROLLOUT_PATIENCE_SECONDS * 1000);
    enum gate mute = first_mute_failure(turn->decision);
    if (has_sample && all_pass(turn->decision))
        end_step(turn, false);
    else if (is_due && mute != GATE_COUNT)
        move_for(turn, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK, REASON_NO_DATA, mute);
    else if (is_late)
        pause_step(turn, has_sample);
}

static enum status refuse(const struct turn *turn, const char *right, struct why *ret_why)
{
    return why_set(ret_why, STATUS_WRONG_STATE, "state", "the rollout is %s: %s takes %s",
                   rollout_state_name(turn->before->state), rollout_event_name(turn->event->kind),
                   right);
}

static enum status on_tick(struct turn *turn, struct why *ret_why)
{
    (void)ret_why;
    if (turn->before->state == ROLLOUT_STEP)
        judge_step(turn);
    else if (turn->before->state == ROLLOUT_PAUSED || turn->before->state == ROLLOUT_PROMOTING ||
             (turn->before->state == ROLLOUT_AWAITING_APPROVAL && turn->before->has_served))
        rolls_back(turn);
    return OK;
}

static enum status on_approve(struct turn *turn, struct why *ret_why)
{
    if (turn->before->state != ROLLOUT_AWAITING_APPROVAL)
        return refuse(turn, "awaiting_approval", ret_why);
    if (turn->before->has_served)
        move(turn, ROLLOUT_PROMOTING, ACTION_PROMOTE);
    else
        begin_step(turn, 0);
    return OK;
}

static enum status on_start(struct turn *turn, struct why *ret_why)
{
    if (turn->before->state != ROLLOUT_EVALUATED)
        return refuse(turn, "evaluated", ret_why);
    if (turn->plan->auto_approve)
        begin_step(turn, 0);
    else
        move(turn, ROLLOUT_AWAITING_APPROVAL, ACTION_MOVE);
    return OK;
}

static enum status on_pause(struct turn *turn, struct why *ret_why)
{
    if (turn->before->state != ROLLOUT_STEP)
        return refuse(turn, "step", ret_why);
    move_for(turn, ROLLOUT_PAUSED, ACTION_MOVE, REASON_COMMAND, (enum gate)0);
    return OK;
}

static enum status on_resume(struct turn *turn, struct why *ret_why)
{
    if (turn->before->state != ROLLOUT_PAUSED)
        return refuse(turn, "paused", ret_why);
    move(turn, ROLLOUT_STEP, ACTION_CONTINUE);
    turn->next.started_ms = turn->event->now_ms;
    return OK;
}

static enum status on_promote(struct turn *turn, struct why *ret_why)
{
    if (turn->before->state != ROLLOUT_STEP && turn->before->state != ROLLOUT_PAUSED)
        return refuse(turn, "step or paused (awaiting_approval takes approve)", ret_why);
    const struct rollout_step *step = &turn->plan->steps[turn->before->step];
    if (rolls_back(turn))
        return OK;
    if (!has_minimum(turn->before, turn->plan, turn->event->evidence))
        return why_set(ret_why, STATUS_WRONG_STATE, "min_requests",
                       "candidate and control have ended %llu and %llu requests: %u of each are "
                       "needed",
                       (unsigned long long)turn->event->evidence->canary.n_requests,
                       (unsigned long long)turn->event->evidence->control.n_requests,
                       step->min_requests);
    for (int i = 0; i < GATE_COUNT; i++)
        if (turn->decision->judgements[i].verdict != VERDICT_PASS)
            return why_set(ret_why, STATUS_WRONG_STATE, gate_rows[i].key,
                           "gate %s is %s (%s): every gate must pass", gate_rows[i].key,
                           gate_verdict_name(turn->decision->judgements[i].verdict),
                           turn->decision->judgements[i].text);
    end_step(turn, true);
    return OK;
}

static enum status on_abort(struct turn *turn, struct why *ret_why)
{
    if (rollout_may_move(turn->before->state, ROLLOUT_ROLLING_BACK) &&
        (turn->before->has_served || !rollout_may_move(turn->before->state, ROLLOUT_REJECTED)))
        move_for(turn, ROLLOUT_ROLLING_BACK, ACTION_ROLL_BACK, REASON_COMMAND, (enum gate)0);
    else if (rollout_may_move(turn->before->state, ROLLOUT_REJECTED))
        move_for(turn, ROLLOUT_REJECTED, ACTION_REJECT, REASON_COMMAND, (enum gate)0);
    else
        return refuse(turn, "every state but rolled_back and rejected", ret_why);
    return OK;
}

/* The events that only say that something is done: from one state to another. */
static const struct passage {
    enum rollout_state from, to;
    enum rollout_action action;
    enum rollout_reason reason;
} passages[EVENT_COUNT] = {
    [EVENT_LOAD] = {ROLLOUT_REGISTERED, ROLLOUT_LOADING, ACTION_MOVE, REASON_NONE},
    [EVENT_LOADED] = {ROLLOUT_LOADING, ROLLOUT_READY, ACTION_MOVE, REASON_NONE},
    [EVENT_LOAD_FAILED] = {ROLLOUT_LOADING, ROLLOUT_REJECTED, ACTION_REJECT, REASON_LOAD_FAILED},
    [EVENT_EVALUATED] = {ROLLOUT_READY, ROLLOUT_EVALUATED, ACTION_MOVE, REASON_NONE},
    [EVENT_EVALUATION_FAILED] = {ROLLOUT_READY, ROLLOUT_REJECTED, ACTION_REJECT,
                                 REASON_EVALUATION_FAILED},
    [EVENT_PROMOTION_DONE] = {ROLLOUT_PROMOTING, ROLLOUT_PROMOTED, ACTION_MOVE, REASON_NONE},
    [EVENT_ROLLBACK_DONE] = {ROLLOUT_ROLLING_BACK, ROLLOUT_ROLLED_BACK, ACTION_MOVE, REASON_NONE},
    [EVENT_ROLLBACK_BLOCKED] = {ROLLOUT_ROLLING_BACK, ROLLOUT_BLOCKED, ACTION_MOVE,
                                REASON_ROLLBACK_BLOCKED},
};

static enum status on_done(struct turn *turn, struct why *ret_why)
{
    const struct passage *passage = &passages[turn->event->kind];
    if (turn->before->state != passage->from)
        return refuse(turn, rollout_state_name(passage->from), ret_why);
    move_for(turn, passage->to, passage->action, passage->reason, (enum gate)0);
    if (turn->event->kind == EVENT_ROLLBACK_DONE) { /* why it was rolled back stays to be read */
        turn->next.reason = turn->before->reason;
        turn->next.gate = turn->before->gate;
    }
    return OK;
}

/* A rollback takes only its own end, a promotion also an abort and ticks. */
static bool is_in_transition(const struct turn *turn)
{
    enum rollout_event_kind kind = turn->event->kind;
    if (turn->before->state == ROLLOUT_ROLLING_BACK)
        return kind != EVENT_ROLLBACK_DONE && kind != EVENT_ROLLBACK_BLOCKED && kind != EVENT_TICK;
    return turn->before->state == ROLLOUT_PROMOTING && kind != EVENT_PROMOTION_DONE &&
           kind != EVENT_ABORT && kind != EVENT_TICK;
}

enum status rollout_apply(const struct rollout *rollout, const struct rollout_plan *plan,
                          const struct rollout_event *event, struct rollout *ret_next,
                          struct rollout_decision *ret_decision, struct why *ret_why)
{
    static enum status (*const handlers[EVENT_COUNT])(struct turn *, struct why *) = {
        [EVENT_LOAD] = on_done,
        [EVENT_LOADED] = on_done,
        [EVENT_LOAD_FAILED] = on_done,
        [EVENT_EVALUATED] = on_done,
        [EVENT_EVALUATION_FAILED] = on_done,
        [EVENT_START] = on_start,
        [EVENT_APPROVE] = on_approve,
        [EVENT_PAUSE] = on_pause,
        [EVENT_RESUME] = on_resume,
        [EVENT_PROMOTE] = on_promote,
        [EVENT_ABORT] = on_abort,
        [EVENT_TICK] = on_tick,
        [EVENT_PROMOTION_DONE] = on_done,
        [EVENT_ROLLBACK_DONE] = on_done,
        [EVENT_ROLLBACK_BLOCKED] = on_done,
    };
    struct rollout_decision decision = {.action = ACTION_NONE};
    struct turn turn = {rollout, plan, event, *rollout, &decision};
    ASSERT(event->kind < EVENT_COUNT && rollout->step < plan->n_steps);
    if (is_in_transition(&turn))
        return why_set(ret_why, STATUS_TRANSITION_IN_PROGRESS, "state",
                       "the rollout is %s: %s waits until that is done",
                       rollout_state_name(rollout->state), rollout_event_name(event->kind));
    TRY(handlers[event->kind](&turn, ret_why));
    *ret_next = turn.next;
    *ret_decision = decision;
    return OK;
}

uint32_t rollout_weight_bp(const struct rollout *rollout, const struct rollout_plan *plan)
{
    switch (rollout->state) {
    case ROLLOUT_PROMOTED:
        return ARM_BUCKETS;
    case ROLLOUT_STEP:
    case ROLLOUT_PAUSED:
    case ROLLOUT_PROMOTING:
        return plan->steps[rollout->step].weight_bp;
    case ROLLOUT_AWAITING_APPROVAL:
        return rollout->has_served ? plan->steps[rollout->step].weight_bp : 0;
    case ROLLOUT_REGISTERED:
    case ROLLOUT_LOADING:
    case ROLLOUT_READY:
    case ROLLOUT_EVALUATED:
    case ROLLOUT_ROLLING_BACK:
    case ROLLOUT_ROLLED_BACK:
    case ROLLOUT_BLOCKED:
    case ROLLOUT_REJECTED:
    case ROLLOUT_STATE_COUNT:
        break;
    }
    return 0;
}
