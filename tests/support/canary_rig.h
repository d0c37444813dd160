/* canary_rig.h: a rollout of nothing made up: three lanes of small models in a real engine, their requests, their
 * evidence, the driver and the registry; and a candidate into which a fault can be put while it serves.
 *
 * Stable and control share a checkpoint; the candidate's differs from it in one number. Every failure aborts the test. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SUPPORT_CANARY_RIG_H
#define FOLDKV_TESTS_SUPPORT_CANARY_RIG_H

#include "sched/release/rollout_driver.h"
#include "tests/support/lane_rig.h"
#include "tests/support/release_rig.h"

/* What can go wrong with a candidate. Each is done by the engine's own thread, in the midst of a step. */
enum fault {
    FAULT_NONE,
    FAULT_NAN_WEIGHT,       /* one number of the output's norm */
    FAULT_SCALED_SCORES,    /* by 1.01, in the kernel that attends */
    FAULT_LOST_PAGE,        /* taken from the pool and held by nobody */
    FAULT_MASKED_KERNEL,    /* scalar where the receipt names a better one */
    FAULT_STALE_PLAN,       /* the pages are of another generation than the plan serves */
    FAULT_OTHER_NAMESPACE,  /* its look-ups are refused: the namespace is fenced */
    FAULT_REPEATED_KV,      /* the kernel copies K/V for its query heads, in memory it takes for that */
    FAULT_LOST_SLICE,       /* embeddings of the tokens that only one slice uses */
    FAULT_SLOW_PREFILL,     /* tiles of several rows take longer */
    FAULT_SLOW_DECODE,      /* tiles of one row take longer */
    FAULT_LATE_STARTS,      /* of two requests one begins late: has_late_tail, but in more of them */
    FAULT_REFUSED_REQUESTS, /* it admits nobody any more */
    FAULT_COUNT
};
const char *fault_name(enum fault fault);

struct canary_options {
    bool has_split_maps; /* the candidate's K and V maps differ: its groups read K/V twice */
    /* Of forty requests to candidate and control one begins late, past the SLO: both p99 are late ones. */
    bool has_late_tail;
};

struct canary_rig {
    struct lane_rig lanes; /* engine and port */
    struct lane *arms[ARM_COUNT];
    struct registry *registry;
    struct world world;
    struct rollout_driver *driver;
    char key[REGISTRY_KEY_ROOM];
    char stable_id[SHA256_HEX], candidate_id[SHA256_HEX];
    struct quality_slice baseline[2]; /* as stable scores the fixed prompts */
    uint64_t n_requests[ARM_COUNT], n_errors[ARM_COUNT];
    uint32_t seed;
    int64_t now_us;
    bool is_unscored, has_late_tail;
    int n_bars;
};

/* A rollout with one step, at 25 %, under way. */
void canary_rig_init(struct canary_rig *rig, const struct canary_options *options);
void canary_rig_release(struct canary_rig *rig);
/* From the candidate's next step on. */
void canary_rig_break(struct canary_rig *rig, enum fault fault);
/* A round: n requests to each arm, one at a time in each; then the fixed prompts on the candidate, and a tick. */
void canary_rig_round(struct canary_rig *rig, uint32_t n);
/* n requests to one arm alone. */
void canary_rig_serve(struct canary_rig *rig, enum arm arm, uint32_t n);
void canary_rig_read(struct canary_rig *rig, struct release_rollout *ret_rollout);
/* A gate's verdict on the evidence as it stands. */
void canary_rig_judge(struct canary_rig *rig, enum gate gate, struct gate_judgement *ret_judgement);
/* Carries an open rollback out. */
void canary_rig_settle(struct canary_rig *rig);

#endif
