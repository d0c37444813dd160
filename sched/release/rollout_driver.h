/* rollout_driver.h: drives the open rollout: gathers the evidence of its step, judges it on every tick, and puts commands to
 * it; each decision is durable before anybody acts on it.
 *
 * Evidence comes from four sides: outcomes of requests (any thread), what lanes have measured (asked for on a tick), runs of
 * the quality canary (any thread), and the plan. A step begins with empty evidence; a pause keeps it; a restart begins
 * the step's evidence anew, and time goes on. The outcome of a request that was admitted in a former step counts in the
 * step in which it ends.
 *
 * rollout_driver_tick, _start, _command, _verdicts and _status run on the registry thread (as jobs); the others on any. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_DRIVER_H
#define FOLDKV_SCHED_ROLLOUT_DRIVER_H

#include "sched/lane_evidence.h"
#include "sched/release/release_rollout.h"

enum { ROLLOUT_TICK_MS = 250 };

struct rollout_driver;

struct rollout_driver_options {
    /* What the lanes of candidate and baseline (the control lane's, or stable's) have measured since they are lanes; false:
     * not both can be read now, and the tick judges by what there was before. Registry thread; must not wait. */
    bool (*lanes)(void *user, const struct release_rollout *rollout,
                  struct lane_evidence *ret_candidate, struct lane_evidence *ret_baseline);
    /* A rollback of this candidate was decided and is not durable yet: stops its admission at once, in memory; may be called
     * again. is_barred false: the decision did not come about (another epoch was expected, say). Registry thread. */
    void (*bar)(void *user, const char *candidate, bool is_barred);
    /* A decision is durable. Its effects on the route come by the projection, which is published when the job is done.
     * Registry thread. May be NULL. */
    void (*on_decision)(void *user, const struct release_rollout *rollout,
                        const struct rollout_decision *decision);
    void *user;
};

/* NO_MEMORY. */
enum status rollout_driver_new(const struct rollout_driver_options *options,
                               struct rollout_driver **ret_driver, struct why *ret_why) MUST_USE;
/* Takes NULL. */
void rollout_driver_free(struct rollout_driver **driver);

/* A request ended, other than by its client's wish. Ignored while no candidate has traffic. */
void rollout_driver_outcome(struct rollout_driver *driver, const struct request_outcome *outcome);
/* One whole run of the canary over the evaluation set is over: its sums are the step's, in place of those of the run before.
 * False: too many slices. */
bool rollout_driver_quality(struct rollout_driver *driver, const struct quality_slice *slices,
                            uint32_t n_slices) MUST_USE;
/* The step that goes on has no run of the canary yet. */
bool rollout_driver_lacks_quality(struct rollout_driver *driver);
/* The step's evidence now, as the last tick left what lanes measured. 68 KiB. */
void rollout_driver_copy(struct rollout_driver *driver, struct gate_evidence *ret_evidence);

/* Judges the rollout under way by the evidence of its step; nothing where there is none. ret_changed: a decision was
 * made. A failure of the registry is its status: the candidate stays barred, the next tick tries again. */
enum status rollout_driver_tick(struct rollout_driver *driver, struct registry *registry,
                                int64_t at_us, bool *ret_changed, struct why *ret_why) MUST_USE;
/* release_rollout_start, and the beginning of the first step's evidence where it is taken at once. */
enum status rollout_driver_start(struct rollout_driver *driver, struct registry *registry,
                                 const struct change_terms *terms, const char *candidate,
                                 const struct rollout_plan *plan, char ret_key[REGISTRY_KEY_ROOM],
                                 struct why *ret_why) MUST_USE;
/* A person's command (EVENT_APPROVE, PAUSE, RESUME, PROMOTE, ABORT) with the evidence as it stands. */
enum status rollout_driver_command(struct rollout_driver *driver, struct registry *registry,
                                   const struct change_terms *terms, const char *key,
                                   enum rollout_event_kind kind, struct why *ret_why) MUST_USE;
/* release_rollout_roll_back, with the candidate's admission stopped before it is durable. */
enum status rollout_driver_roll_back(struct rollout_driver *driver, struct registry *registry,
                                     const struct change_terms *terms,
                                     char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why) MUST_USE;

/* What the gates say of a rollout: while its candidate has traffic, of the step's evidence as it stands now; else, what they
 * said at the last decision that asked them. False: they were never asked. */
bool rollout_driver_verdicts(struct rollout_driver *driver, struct registry *registry,
                             const struct release_rollout *rollout,
                             enum gate_verdict ret_verdicts[GATE_COUNT]) MUST_USE;

/* Where a rollout stands, as JSON for GET /admin/v1/rollouts/{id}: {"arms": {canary, control, stable}, "baseline", "candidate",
 * "decisions": [hash], "gates": [{figures, gate, verdict}], "id", "judged": {at_ms, decision, step}, "note", "now": {...},
 * "plan": {...}, "plan_sha256", "started_us", "weight_bp"}. Arms and gates are as rollout_driver_verdicts has them; judged
 * is there if they are a decision's. Times of arms are in nanoseconds. ret_text is the caller's (mem_free). NOT_FOUND. */
enum status rollout_driver_status(struct rollout_driver *driver, struct registry *registry,
                                  const char *key, char **ret_text, struct why *ret_why) MUST_USE;

#endif
