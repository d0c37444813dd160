/* lane.c: what anybody may ask of a lane, and what is wanted of it.
 *
 * WHY     A rollback must stop admission at once, from whatever thread decides it, while the lane's
 *         cache and scheduler belong to the engine thread alone.
 * HOW     What is wanted is one word that only grows. A submission counts itself first and looks at
 *         the word then (engine_port.c); whoever closes writes the word first and looks at the counts
 *         then (lane_run.c): of the two, one sees the other.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane.h"

#include "sched/engine_priv.h"

/* ---- what it is ---- */

const char *lane_id(const struct lane *lane)
{
    return lane->id;
}

const struct model *lane_model(const struct lane *lane)
{
    return lane->parts.model;
}

const struct kernels *lane_kernels(const struct lane *lane)
{
    return &lane->parts.kernels;
}

const uint8_t *lane_namespace(const struct lane *lane)
{
    return lane->parts.namespace_id;
}

uint32_t lane_context(const struct lane *lane)
{
    return lane->parts.context_max;
}

uint64_t lane_pool_tokens(const struct lane *lane)
{
    return lane->pool_tokens;
}

const struct cache_memory *lane_pool(const struct lane *lane, uint32_t *ret_n_groups)
{
    *ret_n_groups = lane->n_groups;
    return lane->pool;
}

const struct cache *lane_cache(const struct lane *lane)
{
    return lane->parts.cache;
}

struct lane_collector *lane_evidence_collector(const struct lane *lane)
{
    return lane->collector;
}

/* ---- its quota ---- */

uint32_t lane_blocks(const struct lane *lane)
{
    return atomic_load(&lane->blocks);
}

void lane_set_quota(struct lane *lane, uint32_t blocks)
{
    struct cache *cache = lane->parts.cache;
    cache_set_quota(cache, blocks);
    atomic_store(&lane->blocks, blocks < lane->pool_blocks ? blocks : lane->pool_blocks);
    atomic_store(&lane->tokens_max, cache_tokens_max(cache));
}

void lane_lift_quota(struct lane *lane)
{
    if (lane_blocks(lane) == lane->pool_blocks)
        return;
    atomic_store(&lane->is_lift_wanted, true);
    doorbell_ring(&lane->engine->bell);
}

/* ---- its life ---- */

void lane_want(struct lane *lane, enum lane_life life)
{
    int before = atomic_load(&lane->wanted);
    while (before < (int)life && !atomic_compare_exchange_weak(&lane->wanted, &before, (int)life))
        ;
    doorbell_ring(&lane->engine->bell);
}

void lane_purge(struct lane *lane)
{
    atomic_store(&lane->is_purge_wanted, true);
    doorbell_ring(&lane->engine->bell);
}

enum lane_life lane_wanted(const struct lane *lane)
{
    return (enum lane_life)atomic_load(&lane->wanted);
}

enum lane_life lane_reached(const struct lane *lane)
{
    return (enum lane_life)atomic_load(&lane->reached);
}

uint32_t lane_in_flight(const struct lane *lane)
{
    uint64_t ended = atomic_load(&lane->n_ended); /* first: no more end than were submitted */
    return (uint32_t)(atomic_load(&lane->n_submitted) - ended);
}

uint64_t lane_workspace_bytes(const struct lane *lane)
{
    return lane->workspace_bytes;
}

/* ---- its counters ---- */

void lane_stats_copy(const struct lane *lane, struct engine_stats *ret_stats)
{
    stats_board_read(&lane->board, ret_stats);
}

void lane_stats_measure(struct lane *lane, struct engine_stats *stats)
{
    stats->kv_measured_bytes = 0;
    for (uint32_t g = 0; g < stats->n_groups; g++)
        stats->groups[g].kv_measured_bytes = 0;
    if (pthread_mutex_trylock(&lane->pool_lock) != 0)
        return; /* it is being given back */
    for (uint32_t g = 0; lane->parts.cache != NULL && g < stats->n_groups; g++) {
        stats->groups[g].kv_measured_bytes = cache_measured_bytes(lane->parts.cache, g);
        stats->kv_measured_bytes += stats->groups[g].kv_measured_bytes;
    }
    pthread_mutex_unlock(&lane->pool_lock);
}
