/* lane_run.c: what the engine thread does for a lane between steps.
 *
 * HOW     Requests are taken from the ports' queues into the lane's scheduler. A lane that is wanted
 *         closed is brought forward state by state, each with what it takes:
 *             CLOSED    all that were accepted are taken, those that have not begun end    close_lane
 *             ABORTING  the others end                                                     close_lane
 *             FENCED    the cache's namespace is fenced                                    fence
 *             FREED     it leaves its pass; the pool is given back elsewhere               let_go
 * ALWAYS  (1) CLOSED and ABORTING are reached only when no submission is under way: each counts itself
 *         before it looks at what is wanted.                                              is_all_taken
 *         (2) Counters are published before the wake-up that lets a port see the request done.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine_priv.h"
#include "sched/request_priv.h"

/* ---- in and out of its pass ---- */

void lane_join(struct lane *lane)
{
    struct pass *pass = lane->pass->pass;
    struct decoder_memory memory = lane_parts_memory(&lane->parts);
    lane->join_status = pass_join(pass, lane->parts.scheduler, &memory, &lane->join_why);
    lane->has_joined = lane->join_status == OK;
    if (!lane->has_joined)
        return;
    uint32_t pool = pass_pool(pass, lane->parts.scheduler);
    lane->workspace_bytes = decoder_workspace_bytes(pass_decoder(pass), pool);
    lane_collector_attach(lane->collector, pass_decoder(pass), pool);
}

void lane_leave(struct lane *lane)
{
    if (!lane->has_joined)
        return;
    lane_collector_detach(lane->collector);
    pass_leave(lane->pass->pass, lane->parts.scheduler);
    lane->has_joined = false;
}

void lane_take(struct lane *lane, struct request *request, uint64_t now_ns)
{
    ASSERT(lane->has_joined);
    lane->n_taken++;
    scheduler_submit(lane->parts.scheduler, request, now_ns);
}

/* ---- counters ---- */

static void note_use(struct lane *lane, bool is_busy, const struct engine_stats *stats)
{
    uint32_t in_use[CACHE_GROUPS_MAX];
    for (uint32_t g = 0; g < stats->n_groups; g++)
        in_use[g] = (uint32_t)(stats->groups[g].blocks - stats->groups[g].blocks_free);
    pool_warmer_note(lane->warmer, is_busy, in_use);
}

static void publish(struct lane *lane, struct engine_stats *stats, bool is_busy)
{
    note_use(lane, is_busy, stats);
    stats->blocks_touched = pool_warmer_blocks(lane->warmer);
    stats_board_publish(&lane->board, stats);
    atomic_store(&lane->n_ended,
                 stats->requests_finished + stats->requests_aborted + stats->requests_failed);
}

void lane_publish(struct lane *lane, bool is_busy)
{
    struct engine_stats stats;
    scheduler_stats(lane->parts.scheduler, &stats);
    publish(lane, &stats, is_busy);
}

void lane_note_step(struct lane *lane, uint64_t step_ns)
{
    struct engine_stats stats;
    scheduler_stats(lane->parts.scheduler, &stats);
    publish(lane, &stats, true);
    if (stats.step_rows != lane->step_rows)
        lane_collector_turn(lane->collector, step_ns);
    else
        lane_collector_idle(lane->collector);
    lane->step_rows = stats.step_rows;
}

/* ---- its life ---- */

static void reach(struct lane *lane, enum lane_life life)
{
    atomic_store(&lane->reached, (int)life);
}

static bool is_all_taken(const struct lane *lane)
{
    return atomic_load(&lane->n_submitted) == lane->n_taken;
}

static void close_lane(struct lane *lane, enum lane_life wanted)
{
    bool all_taken = is_all_taken(lane);
    scheduler_fail_waiting(lane->parts.scheduler, STATUS_LANE_CLOSED);
    if (wanted >= LANE_ABORTING)
        scheduler_fail_all(lane->parts.scheduler, STATUS_UNAVAILABLE, STATUS_LANE_CLOSED);
    lane_publish(lane, false);
    if (all_taken)
        reach(lane, wanted >= LANE_ABORTING ? LANE_ABORTING : LANE_CLOSED);
}

static void fence(struct lane *lane)
{
    ASSERT(lane_in_flight(lane) == 0);
    cache_set_namespace_state(lane->parts.cache, NAMESPACE_DRAINING);
    cache_set_namespace_state(lane->parts.cache, NAMESPACE_FENCED);
    reach(lane, LANE_FENCED);
}

static void let_go(struct lane *lane)
{
    lane_leave(lane);
    atomic_store(&lane->is_let_go, true);
    doorbell_ring(&lane->engine->reclaim_bell);
}

bool lane_advance(struct lane *lane)
{
    enum lane_life wanted = lane_wanted(lane), before = lane_reached(lane);
    if (before < LANE_FENCED && atomic_exchange(&lane->is_purge_wanted, false))
        cache_purge(lane->parts.cache);
    if (before < LANE_FENCED && atomic_exchange(&lane->is_lift_wanted, false))
        lane_set_quota(lane, UINT32_MAX);
    if (wanted == LANE_OPEN || !lane->has_joined)
        return false;
    if (before < LANE_ABORTING)
        close_lane(lane, wanted);
    if (wanted >= LANE_FENCED && lane_reached(lane) == LANE_ABORTING)
        fence(lane);
    enum lane_life after = lane_reached(lane);
    if (wanted == LANE_FREED && after == LANE_FENCED)
        let_go(lane);
    return after != before;
}
