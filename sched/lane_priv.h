/* lane_priv.h: the inside of a lane, for its files and the engine's: lane.c (what anybody may ask),
 * lane_load.c (from a file to a lane), lane_run.c (what the engine thread does between steps) and
 * lane_reclaim.c (giving a pool back beside the steps).
 *
 * Who touches what: the fields under "settled" are written by lane_load and read by all; those under
 * "engine" are the engine thread's from engine_add until is_let_go, then the reclaimer's; the atomics
 * are how threads meet. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LANE_PRIV_H
#define FOLDKV_SCHED_LANE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "sched/lane_parts.h"
#include "sched/lane_collector.h"
#include "sched/pool_warmer.h"
#include "sched/shared_pass.h"
#include "sched/stats_board.h"

struct lane {
    /* settled */
    struct engine *engine;
    char id[SHA256_HEX];
    uint32_t pool_blocks; /* of the group that has most */
    uint64_t pool_tokens; /* of all sequences */
    uint32_t n_groups;
    struct cache_memory pool[CACHE_GROUPS_MAX];

    /* engine */
    struct lane_parts parts;
    struct shared_pass *pass; /* it has a seat there from lane_load to lane_free */
    struct pool_warmer *warmer;
    struct lane_collector *collector;
    uint64_t workspace_bytes; /* of its plans, since it joined */
    uint64_t n_taken;     /* requests out of the ports' queues */
    uint64_t step_rows;   /* as the last step left them */
    uint64_t cycle_noted; /* the engine's, in which its pass had a step */
    uint64_t others_ns;   /* steps of passes that it was not in */
    bool has_joined;
    bool is_reclaimed; /* under the engine's lock */
    enum status join_status;
    struct why join_why;

    /* where the threads meet */
    pthread_mutex_t pool_lock; /* held to measure the pool, and to give it back */
    atomic_int wanted, reached;
    atomic_bool is_purge_wanted, is_lift_wanted;
    _Atomic uint32_t blocks;     /* of them it may hold; pool_blocks without a quota */
    _Atomic uint32_t tokens_max; /* of one sequence alone in those */
    atomic_bool is_let_go; /* the engine thread has done with it; the reclaimer may begin */
    _Atomic uint64_t n_submitted, tokens_submitted; /* ever accepted, and their prompts */
    _Atomic uint64_t n_ended;
    struct stats_board board;
};

/* ---- lane_run.c, engine thread ---- */

/* Into its pass; join_status and join_why say how it went. */
void lane_join(struct lane *lane);
/* Out of it, if it is in. Also whoever frees a lane once the engine's thread has ended. */
void lane_leave(struct lane *lane);
/* A request's lane learns of it. */
void lane_take(struct lane *lane, struct request *request, uint64_t now_ns);
/* What its wanted state asks to be done between steps; true if a state was reached. */
bool lane_advance(struct lane *lane);
/* After a step of its pass: its counters, its evidence. */
void lane_note_step(struct lane *lane, uint64_t step_ns);
/* Its counters. is_busy: there are steps. */
void lane_publish(struct lane *lane, bool is_busy);

/* ---- lane_reclaim.c ---- */

/* Gives the pool back. Not the engine thread; nothing is in flight. */
void lane_reclaim(struct lane *lane);

#endif
