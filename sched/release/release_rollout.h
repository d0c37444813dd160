/* release_rollout.h: a rollout in the registry: rollout.h's machine with every decision made durable, together with
 * what follows from it.
 *
 * A rollout's row: {baseline, candidate, decisions: [hash], note, now: {gate, has_served, reason, started_ms, state,
 * step}, plan: hash, started_us}. A decision is a receipt of rollout_receipt.h, kept under its hash and named in the
 * row; plan is the canonical text of rollout_plan.h, kept as a receipt too. Rows are moved by nothing else: the
 * rules (release_rules.h) derive each decision again before it is committed, and so does the audit. How the rollback
 * and the promotion that follow are carried out is journal.h's business. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_ROLLOUT_H
#define FOLDKV_SCHED_RELEASE_ROLLOUT_H

#include "sched/release/change.h"
#include "sched/judge/rollout.h"

enum { ROLLOUT_NOTE_ROOM = 256 };

/* A row, read. A value. */
struct release_rollout {
    char key[REGISTRY_KEY_ROOM];
    char candidate[SHA256_HEX], baseline[SHA256_HEX];
    char plan_hash[SHA256_HEX];
    char decision[SHA256_HEX]; /* the receipt of the last decision */
    char note
        [ROLLOUT_NOTE_ROOM]; /* what was said of the last decision: by who made it, or the gate's figures; "" */
    size_t n_decisions;
    int64_t started_us;
    struct rollout now;
    struct rollout_plan plan;
};

/* The candidate is warmed and nothing else is rolled out, else ILLEGAL_MOVE or TRANSITION_IN_PROGRESS; its evaluation is of the
 * plan that it is loaded with and of what is stable now, else RECEIPTS_DISAGREE with both values. It awaits
 * approval, or, with auto_approve in the plan, takes its first step at once, in the same change. */
enum status release_rollout_start(struct registry *registry, const struct change_terms *terms,
                                  const char *candidate, const struct rollout_plan *plan,
                                  char ret_key[REGISTRY_KEY_ROOM],
                                  struct rollout_decision *ret_decision,
                                  struct why *ret_why) MUST_USE;
/* Puts one event to a rollout: a command, or a tick with the step's evidence. A decision is durable with the route,
 * the generation and the journal that follow from it, in one change, when this returns OK; action NONE has
 * changed nothing. The event's time is now_ms, what is written has the terms' time. Failures are rollout_apply's and
 * change_commit's; of APPROVE, RESUME and PROMOTE also release_rollout_start's RECEIPTS_DISAGREE. */
enum status release_rollout_apply(struct registry *registry, const struct change_terms *terms,
                                  const char *key, const struct rollout_event *event,
                                  struct rollout_decision *ret_decision,
                                  struct why *ret_why) MUST_USE;
/* Back at any moment: aborts the rollout whose candidate has traffic, else rolls the stable generation back to the
 * previous one (a rollout that only awaits its approval is rejected before). Of a rollback that is blocked it
 * tries the pin again. ret_key: the rollout that is rolled back. ILLEGAL_MOVE if there is nothing to go back to. */
enum status release_rollout_roll_back(struct registry *registry, const struct change_terms *terms,
                                      char ret_key[REGISTRY_KEY_ROOM],
                                      struct why *ret_why) MUST_USE;

/* NOT_FOUND. */
enum status release_rollout_read(struct registry *registry, const char *key,
                                 struct release_rollout *ret_rollout, struct why *ret_why) MUST_USE;
/* The rollout that is not over (rollout_is_over); NOT_FOUND. */
enum status release_rollout_find_active(struct registry *registry,
                                        struct release_rollout *ret_rollout,
                                        struct why *ret_why) MUST_USE;
/* The rollout by which this stable generation was promoted; NOT_FOUND. */
enum status release_rollout_find_promoted(struct registry *registry, const char *stable,
                                          struct release_rollout *ret_rollout,
                                          struct why *ret_why) MUST_USE;
/* From a row that is there, or was or will be. BAD_FILE, NOT_FOUND for a plan that is not kept. */
enum status release_rollout_parse(struct registry *registry, const char *key,
                                  const struct record *row, struct release_rollout *ret_rollout,
                                  struct why *ret_why) MUST_USE;
/* Part of a change: the row's next decision, and its receipt. note may be NULL. Nothing for action NONE. */
enum status release_rollout_put(struct registry *registry, struct change *change,
                                struct release_rollout *rollout, const struct rollout_event *event,
                                const char *note, struct rollout_decision *ret_decision,
                                struct why *ret_why) MUST_USE;
/* Why a decision was made, for a person: "gate tpot_p99: gate_failed (figures)". */
void release_rollout_say(const struct release_rollout *rollout,
                         const struct rollout_decision *decision, char ret_text[ROLLOUT_NOTE_ROOM]);

#endif
