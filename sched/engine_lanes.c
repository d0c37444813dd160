/* engine_lanes.c: who is in the engine: lanes that come and go, their seats, their sum.
 *
 * HOW     The list that all may change is under the lock; the engine thread works with a copy. Adding
 *         waits until the copy has the lane (and its scheduler has joined its pass), removing until the
 *         copy has it no more.
 * ALWAYS  (1) A pass is in the list as long as somebody has a seat there.     engine_give_seat_back
 *         (2) The sum's counters never fall.                                  engine_remove
 * THREAD  any, but for engine_renew_roster, which is the engine thread's
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/engine_priv.h"

/* ---- the roster ---- */

static void join_newcomers(struct engine *e)
{
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        struct lane *lane = e->roster.lanes[i];
        if (lane != NULL && !lane->has_joined && !atomic_load(&lane->is_let_go))
            lane_join(lane);
    }
}

void engine_renew_roster(struct engine *e)
{
    if (atomic_load(&e->version) == e->seen) /* seen is written by this thread alone */
        return;
    pthread_mutex_lock(&e->lock);
    join_newcomers(e);
    e->now = e->roster;
    e->seen = atomic_load(&e->version);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void engine_await_roster(struct engine *e)
{
    uint64_t mine = atomic_fetch_add(&e->version, 1) + 1;
    doorbell_ring(&e->bell);
    while (e->has_thread && e->seen < mine)
        pthread_cond_wait(&e->changed, &e->lock);
}

void engine_tell_change(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (e->options.on_lane_change != NULL)
        e->options.on_lane_change(e->options.user);
}

/* ---- lanes ---- */

static struct lane **find_slot(struct engine *e, const struct lane *lane)
{
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        if (e->roster.lanes[i] == lane)
            return &e->roster.lanes[i];
    return NULL;
}

static enum status add(struct engine *e, struct lane *lane, struct why *ret_why)
{
    struct lane **slot = find_slot(e, NULL);
    if (slot == NULL)
        return why_set(ret_why, STATUS_UNAVAILABLE, "",
                       "%d generations are loaded already, which is the most", ENGINE_LANES_MAX);
    *slot = lane;
    engine_await_roster(e);
    if (lane->has_joined)
        return OK;
    *slot = NULL;
    engine_await_roster(e);
    if (ret_why != NULL)
        *ret_why = lane->join_why;
    return lane->join_status;
}

enum status engine_add(struct engine *e, struct lane *lane, struct why *ret_why)
{
    ASSERT(lane->engine == e && !lane->has_joined);
    pthread_mutex_lock(&e->lock);
    enum status s = add(e, lane, ret_why);
    pthread_mutex_unlock(&e->lock);
    return s;
}

void engine_remove(struct engine *e, struct lane **lane)
{
    struct lane *l = *lane;
    *lane = NULL;
    if (l == NULL)
        return;
    lane_want(l, LANE_FREED);
    pthread_mutex_lock(&e->lock);
    while (lane_reached(l) != LANE_FREED)
        pthread_cond_wait(&e->changed, &e->lock);
    struct lane **slot = find_slot(e, l);
    ASSERT(slot != NULL);
    struct engine_stats stats;
    lane_stats_copy(l, &stats);
    engine_stats_keep_counters(&stats);
    engine_stats_add(&e->gone, &stats);
    *slot = NULL;
    engine_await_roster(e);
    pthread_mutex_unlock(&e->lock);
    lane_free(&l);
}

uint32_t engine_lane_count(struct engine *e)
{
    uint32_t n = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++)
        n += e->roster.lanes[i] != NULL;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* ---- what they share ---- */

struct weights *engine_find_weights(struct engine *e, const uint8_t checkpoint_sha256[SHA256_BYTES])
{
    struct weights *found = NULL;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX && found == NULL; i++) {
        struct lane *lane = e->roster.lanes[i];
        struct weights *its = lane != NULL ? lane->parts.model->weights : NULL;
        if (its != NULL && memcmp(its->checkpoint_sha256, checkpoint_sha256, SHA256_BYTES) == 0)
            found = weights_hold(its);
    }
    pthread_mutex_unlock(&e->lock);
    return found;
}

/* A pass with the seat taken, or NULL; under the lock. */
static struct shared_pass *join_seat(struct engine *e, const struct lane_parts *parts)
{
    for (uint32_t i = 0; i < ENGINE_PASSES_MAX; i++) {
        struct shared_pass *shared = e->passes[i];
        if (shared == NULL || !shared_pass_suits(shared, parts))
            continue;
        shared->n_seats++;
        return shared;
    }
    return NULL;
}

enum status engine_take_seat(struct engine *e, const struct lane_parts *parts,
                             struct shared_pass **ret_shared, struct why *ret_why)
{
    pthread_mutex_lock(&e->lock);
    *ret_shared = join_seat(e, parts);
    pthread_mutex_unlock(&e->lock);
    if (*ret_shared != NULL)
        return OK;
    TRY(shared_pass_new(parts, &e->limits, e->workers, ret_shared, ret_why));
    pthread_mutex_lock(&e->lock);
    uint32_t i = 0;
    while (i < ENGINE_PASSES_MAX && e->passes[i] != NULL)
        i++;
    if (i < ENGINE_PASSES_MAX) /* one that is not in the list serves its lane alone */
        e->passes[i] = *ret_shared;
    pthread_mutex_unlock(&e->lock);
    return OK;
}

void engine_give_seat_back(struct engine *e, struct shared_pass **shared)
{
    struct shared_pass *p = *shared;
    *shared = NULL;
    if (p == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    bool is_last = --p->n_seats == 0;
    for (uint32_t i = 0; is_last && i < ENGINE_PASSES_MAX; i++)
        if (e->passes[i] == p)
            e->passes[i] = NULL;
    pthread_mutex_unlock(&e->lock);
    if (is_last)
        shared_pass_free(&p);
}

/* ---- the sum ---- */

/* Whether an earlier lane holds the same weights. */
static bool is_counted(const struct engine *e, uint32_t index)
{
    const struct weights *weights = e->roster.lanes[index]->parts.model->weights;
    for (uint32_t i = 0; i < index; i++)
        if (e->roster.lanes[i] != NULL && e->roster.lanes[i]->parts.model->weights == weights)
            return true;
    return false;
}

void engine_stats_copy(struct engine *e, struct engine_stats *ret_stats)
{
    pthread_mutex_lock(&e->lock);
    *ret_stats = e->gone;
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        if (e->roster.lanes[i] == NULL)
            continue;
        struct engine_stats stats;
        lane_stats_copy(e->roster.lanes[i], &stats);
        if (is_counted(e, i))
            stats.weight_bytes = 0;
        engine_stats_add(ret_stats, &stats);
    }
    pthread_mutex_unlock(&e->lock);
}

void engine_stats_measure(struct engine *e, struct engine_stats *stats)
{
    stats->kv_measured_bytes = 0;
    for (uint64_t g = 0; g < stats->n_groups; g++)
        stats->groups[g].kv_measured_bytes = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_LANES_MAX; i++) {
        if (e->roster.lanes[i] == NULL)
            continue;
        struct engine_stats own;
        lane_stats_copy(e->roster.lanes[i], &own);
        lane_stats_measure(e->roster.lanes[i], &own);
        stats->kv_measured_bytes += own.kv_measured_bytes;
        for (uint64_t g = 0; g < own.n_groups; g++) {
            struct group_stats *same = engine_stats_group_like(stats, &own.groups[g]);
            if (same != NULL)
                same->kv_measured_bytes += own.groups[g].kv_measured_bytes;
        }
    }
    pthread_mutex_unlock(&e->lock);
}

uint32_t engine_active(struct engine *e)
{
    uint32_t n = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++)
        n += e->roster.ports[i] != NULL ? engine_port_active(e->roster.ports[i]) : 0;
    pthread_mutex_unlock(&e->lock);
    return n;
}
