/* lane_reclaim.c: gives a lane's pool back to the system, beside the steps of the others.
 *
 * WHY     Unmapping gigabytes takes the time of many steps, and the thread that warms the pool must
 *         end first. Neither may stand between two tokens of another generation.
 * HOW     The engine thread lets go of the lane between steps; from then on it is the reclaimer's, who
 *         publishes its last counters too.
 *         Its seat stays with the weights: a pass takes as long to make as its buffers are large, and who comes back in its
 *         stead finds one.
 * THREAD  the engine's reclaimer, or whoever frees a lane that nobody runs
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/engine_priv.h"

void lane_reclaim(struct lane *lane)
{
    struct engine_stats stats;
    stats_board_read(&lane->board, &stats);
    uint64_t weight_bytes = stats.weight_bytes; /* they stay */
    engine_stats_keep_counters(&stats);
    stats.weight_bytes = weight_bytes;
    pthread_mutex_lock(&lane->pool_lock);
    pool_warmer_free(&lane->warmer);
    if (lane->parts.cache != NULL && cache_namespace_state(lane->parts.cache) == NAMESPACE_FENCED)
        cache_set_namespace_state(lane->parts.cache, NAMESPACE_FREED);
    lane_parts_release_pool(&lane->parts);
    pthread_mutex_unlock(&lane->pool_lock);
    stats_board_publish(&lane->board, &stats);
}

void lane_free(struct lane **lane)
{
    struct lane *l = *lane;
    *lane = NULL;
    if (l == NULL)
        return;
    lane_leave(l);
    lane_reclaim(l);
    engine_give_seat_back(l->engine, &l->pass);
    lane_collector_free(&l->collector);
    lane_parts_release(&l->parts);
    pthread_mutex_destroy(&l->pool_lock);
    mem_free(l);
}
