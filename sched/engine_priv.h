/* engine_priv.h: the inside of the engine, for its files: engine.c (its threads and its life),
 * engine_lanes.c (who is in it), engine_port.c (requests in and out); and for lanes, which are loaded
 * for an engine.
 *
 * ROSTER  Lanes and ports come and go under the lock; the engine thread works with a copy, which it
 *         renews between cycles when the version has moved. Whoever changes it waits until the engine
 *         has seen it: after that no step and no push can touch what left.
 * LOCKS   lock, then a lane's pool_lock. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_PRIV_H
#define FOLDKV_SCHED_ENGINE_PRIV_H

#include "sched/doorbell.h"
#include "sched/engine.h"
#include "sched/lane_priv.h"
#include "sched/request_queue.h"

enum {
    /* Requests that ended but that a port's thread has not collected yet, beyond those that wait or
     * run. */
    UNCOLLECTED_MAX = 4096,
    ENGINE_PASSES_MAX = 2 * ENGINE_LANES_MAX
};

struct engine_port {
    struct engine *engine;
    void (*on_wake)(void *user);
    void *user;
    struct request_queue *submitted;
    struct request_queue *ready;
    atomic_bool is_awaited; /* the engine thread waits until it has collected */
    bool has_news;     /* engine thread: something was queued since the last wake */
    atomic_uint alive; /* accepted and not yet collected as done; the port's thread writes */
};

struct engine_roster {
    struct lane *lanes[ENGINE_LANES_MAX]; /* NULL: free */
    struct engine_port *ports[ENGINE_PORTS_MAX];
};

struct engine {
    struct engine_options options;
    atomic_uint queue_max, queue_tokens_max; /* as they are now; options has those of the start */
    struct lane_limits limits;
    struct workers *workers;
    pthread_t thread, reclaimer;
    bool has_thread, has_reclaimer;
    bool has_bell, has_reclaim_bell;
    struct doorbell bell, reclaim_bell;
    atomic_bool is_stopping;
    atomic_bool is_reclaimer_stopping;
    atomic_bool is_draining;
    _Atomic uint64_t progress_ns;
    _Atomic uint64_t version; /* of the roster; written under the lock */

    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the roster was seen, or a lane has reached a state */
    struct engine_roster roster;
    uint64_t seen; /* the version that the engine thread works with */
    struct shared_pass *passes[ENGINE_PASSES_MAX]; /* NULL: free */
    struct engine_stats gone;                      /* counters of lanes that were removed */

    /* engine thread */
    struct engine_roster now;
    uint64_t cycle;
};

/* engine_port.c: one that the engine thread does not see. Takes NULL. */
void engine_port_release(struct engine_port **port);

/* ---- engine_lanes.c ---- */

/* The engine thread's: takes the newest roster over. */
void engine_renew_roster(struct engine *engine);
/* A change that was made to the roster, under the lock: returns once the engine thread has seen it. */
void engine_await_roster(struct engine *engine);
/* A lane has reached a state: tells who waits for it. Not under the lock. */
void engine_tell_change(struct engine *engine);
/* How many lanes are in. */
uint32_t engine_lane_count(struct engine *engine);
/* Weights of this file among the lanes, one holder more; NULL: there are none. */
struct weights *engine_find_weights(struct engine *engine,
                                    const uint8_t checkpoint_sha256[SHA256_BYTES]);
/* A pass to join, with the seat taken: another's, or a new one. */
enum status engine_take_seat(struct engine *engine, const struct lane_parts *parts,
                             struct shared_pass **ret_shared, struct why *ret_why) MUST_USE;
/* Frees the pass with its last seat. Takes NULL. */
void engine_give_seat_back(struct engine *engine, struct shared_pass **shared);

#endif
