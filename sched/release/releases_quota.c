/* releases_quota.c: how many pages candidate and control may hold while they are judged: equally many.
 *
 * WHY     An arm with more pages finds more prefixes and preempts less, which is no merit of its model.
 * HOW     The smaller of two numbers: the pages of the candidate's pool, and those that the control arm's bytes are under
 *         stable's shape (another K/V type has other pages). A candidate is held to it from its load on, so that its
 *         evaluation has it, too; promotion lifts it. The control lane's pool is made for it. That there is room for both
 *         pools is looked at when the candidate is loaded and again when a rollout starts, when memory may have gone.
 * ALWAYS  (1) A quota is set on a lane that has no request yet, and only lifted later.
 * THREAD  loader, rescue, or whoever starts; the check: registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include <inttypes.h>

#include "cache/cache.h"
#include "cache/pool_split.h"
#include "sched/available_memory.h"

uint64_t releases_quota_bytes(const struct releases *r, uint64_t candidate_bytes)
{
    return r->terms.control_bytes > 0 ? r->terms.control_bytes : candidate_bytes;
}

static uint64_t budget_of(const struct releases *r, const struct cache_shape *candidate)
{
    return releases_quota_bytes(r, candidate->pool_bytes);
}

/* Pages of the group that has most, of a pool of stable's shape. */
static enum status pages_of(const struct cache_shape *stable, uint64_t bytes, uint32_t *ret_blocks,
                            struct why *ret_why)
{
    struct cache_shape shape = *stable;
    uint32_t blocks[CACHE_GROUPS_MAX];
    struct why unheard;
    *ret_blocks = 0;
    shape.pool_bytes = bytes;
    if (pool_split(&shape, blocks, &unheard) != OK)
        return why_set(ret_why, STATUS_BAD_OPTION, "release.control_bytes",
                       "a control arm of %" PRIu64 " bytes beside the stable generation cannot be "
                       "made, one page of its cache takes %" PRIu64 ": set release.control_bytes",
                       bytes, pool_split_sequence_bytes(&shape, 1));
    for (uint32_t g = 0; g < shape.n_groups; g++)
        *ret_blocks = blocks[g] > *ret_blocks ? blocks[g] : *ret_blocks;
    return OK;
}

static bool find_stable(struct releases *r, struct release_lane *ret_stable)
{
    struct projection p;
    releases_copy_route(r, &p);
    return release_lanes_find(&r->lanes, p.stable_namespace, ret_stable);
}

enum status releases_quota_candidate(struct releases *r, struct lane *lane, struct why *ret_why)
{
    struct release_lane stable;
    uint32_t blocks;
    if (!find_stable(r, &stable))
        return OK; /* there is nobody to be compared with */
    TRY(pages_of(&stable.shape, budget_of(r, cache_shape(lane_cache(lane))), &blocks, ret_why));
    lane_set_quota(lane, blocks);
    return OK;
}

enum status releases_quota_control(struct releases *r, const char *candidate, const char *baseline,
                                   struct release_load *load, struct why *ret_why)
{
    struct release_lane judged, stable;
    uint32_t blocks, each[CACHE_GROUPS_MAX];
    load->cache_bytes = r->terms.control_bytes;
    if (!release_lanes_find_id(&r->lanes, candidate, &judged) ||
        !release_lanes_find_id(&r->lanes, baseline, &stable))
        return OK;
    uint64_t budget = budget_of(r, &judged.shape);
    TRY(pages_of(&stable.shape, budget, &blocks, ret_why));
    if (lane_blocks(judged.lane) < blocks)
        blocks = lane_blocks(judged.lane);
    uint64_t bytes = pool_split_of(&stable.shape, blocks, each);
    load->cache_bytes = bytes < budget ? bytes : budget;
    load->quota_blocks = blocks;
    return OK;
}

/* A pool's memory is the system's until it is touched: what of the candidate's is still to come counts, too. */
static enum status check_room(const struct release_lane *candidate, uint64_t control,
                              struct why *ret_why)
{
    struct engine_stats stats;
    lane_stats_copy(candidate->lane, &stats);
    lane_stats_measure(candidate->lane, &stats);
    uint64_t pool = candidate->cache_bytes, has = stats.kv_measured_bytes;
    uint64_t rest = pool > has ? pool - has : 0, available = available_memory_bytes();
    const double mib = 1048576.0;
    if (rest <= available && control <= available - rest)
        return OK;
    (void)why_set(ret_why, STATUS_NO_MEMORY, "release.control_bytes",
                  "the control arm's page pool takes %.1f MiB and the rest of the candidate's "
                  "%.1f MiB: %.1f MiB are available",
                  (double)control / mib, (double)rest / mib, (double)available / mib);
    why_add_number(ret_why, "control_bytes", control);
    why_add_number(ret_why, "cache_bytes", rest);
    why_add_number(ret_why, "available_bytes", available);
    return STATUS_NO_MEMORY;
}

enum status releases_quota_check(struct releases *r, const struct release_lane *candidate,
                                 struct why *ret_why)
{
    struct release_lane stable;
    uint32_t has = lane_blocks(candidate->lane), control, each[CACHE_GROUPS_MAX];
    if (!find_stable(r, &stable))
        return OK;
    TRY(pages_of(&stable.shape, budget_of(r, &candidate->shape), &control, ret_why));
    if (control >= has)
        return check_room(candidate, pool_split_of(&stable.shape, has, each), ret_why);
    return why_set(ret_why, STATUS_BAD_OPTION, "release.control_bytes",
                   "the candidate was loaded to hold %" PRIu32 " pages, a control arm beside the "
                   "stable generation of now would hold %" PRIu32 ": release.control_bytes of at "
                   "least %" PRIu64 " makes them equal",
                   has, control, pool_split_of(&stable.shape, has, each));
}

void releases_quota_lift(struct releases *r, const struct projection *p)
{
    struct release_lane stable;
    if (release_lanes_find(&r->lanes, p->stable_namespace, &stable))
        lane_lift_quota(stable.lane);
}
