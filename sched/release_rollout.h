/* release_rollout.h: decisions about a rollout, each one durable change: start, approve, judge, pause, resume,
 * abort.
 *
 * A rollout's row: {baseline, candidate, is_auto, judgements: [hash], plan (receipt), reason, resume_state,
 * started_us, state, step}. How the rollback and the promotion that they lead to are carried out is journal.h's
 * business. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_ROLLOUT_H
#define FOLDKV_SCHED_RELEASE_ROLLOUT_H

#include "sched/change.h"
#include "sched/judgement.h"

/* The candidate is warmed and nothing else is rolled out. plan as in release_plan.h. It awaits approval, or,
 * with auto_approve in the plan, takes its first step at once. */
enum status release_rollout_start(struct registry *registry, const struct change_terms *terms,
                                  const char *candidate, const struct record *plan,
                                  char ret_rollout[REGISTRY_KEY_ROOM],
                                  struct why *ret_why) MUST_USE;
/* Before step 1: takes it. After the last step: begins the promotion's journal. */
enum status release_rollout_approve(struct registry *registry, const struct change_terms *terms,
                                    const char *rollout, struct why *ret_why) MUST_USE;
/* A judgement of the running step: {kind: "judgement", rollout, step, gates, verdict} (judgement.h). Pass: the
 * next step, or after the last one approval (or the promotion, with auto_approve). Pause: paused. Fail:
 * the rollback's first transaction. RECEIPTS_DISAGREE if it is of another step or does not follow from its
 * gates. */
enum status release_rollout_judge(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const struct record *judgement,
                                  enum judgement *ret_verdict, struct why *ret_why) MUST_USE;
enum status release_rollout_pause(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const char *reason,
                                  struct why *ret_why) MUST_USE;
/* To where it was paused, evidence and all. */
enum status release_rollout_resume(struct registry *registry, const struct change_terms *terms,
                                   const char *rollout, struct why *ret_why) MUST_USE;
/* Before step 1 it is just over; later it is a rollback. */
enum status release_rollout_abort(struct registry *registry, const struct change_terms *terms,
                                  const char *rollout, const char *reason,
                                  struct why *ret_why) MUST_USE;
/* The key of the rollout that is not over; NOT_FOUND. */
enum status release_rollout_find_active(struct registry *registry,
                                        char ret_rollout[REGISTRY_KEY_ROOM], struct record *ret_row,
                                        struct why *ret_why) MUST_USE;

#endif
