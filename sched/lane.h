/* lane.h: a generation loaded in the engine: a model over shared weights, a page pool with a
 * namespace of its own, and the scheduler of its requests.
 *
 *   lane_load --> engine_add --> OPEN --> CLOSED --> ABORTING --> FENCED --> FREED --> engine_remove
 *
 * What is wanted (lane_want, any thread, only forward) and what is reached (lane_reached, any thread)
 * are told apart:
 *
 *   OPEN      takes requests.
 *   CLOSED    wanted: from this very call on engine_submit refuses with LANE_CLOSED.
 *             reached: of those that were accepted none waits for its first step any more; they ended
 *             as FINISH_ERROR with LANE_CLOSED and no output, so that they may go elsewhere. Within
 *             one step. Those that run go on to their last token.
 *   ABORTING  reached: nothing is in flight. What ran ended as FINISH_ERROR, with UNAVAILABLE if it
 *             had outputs, with LANE_CLOSED if not. Within one step.
 *   FENCED    reached: a look-up in its cache answers FENCED, for ever. Wanting it wants ABORTING
 *             first.
 *   FREED     reached: the page pool went back to the system. Model, weights and what a step of them
 *             works in stay until engine_remove.
 *
 * Whoever drains wants CLOSED, waits until lane_in_flight is 0 (or no longer than it may), and then
 * wants FENCED. Each state reached is told by the engine's on_lane_change. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LANE_H
#define FOLDKV_SCHED_LANE_H

#include "config/gguf.h"
#include "config/sha256.h"
#include "sched/engine_stats.h"

struct cache;
struct cache_memory;
struct engine;
struct kernels;
struct lane;
struct lane_collector;
struct model;

enum lane_life { LANE_OPEN, LANE_CLOSED, LANE_ABORTING, LANE_FENCED, LANE_FREED };

struct lane_terms {
    char id[SHA256_HEX]; /* the generation's id in hex; "": the manifest's identity */
    uint8_t namespace_id[SHA256_BYTES]; /* zeros: one made from identity and binding */
    uint64_t
        cache_bytes; /* page pool; 0: a quarter of the available memory, at most 2 GiB, at least one context */
    uint64_t control_bytes; /* page pool of a control arm that will be made beside it: it must fit, too */
    const char *cache_type;        /* "f16", "f32" or "int8" */
    const char *isa;               /* NULL or "": the best; read only without kernels */
    const struct kernels *kernels; /* copied; NULL: picked by isa */
    const uint32_t *stop_ids;      /* end-of-generation tokens, copied */
    uint32_t n_stop_ids;
    uint8_t checkpoint[SHA256_BYTES]; /* the file's SHA-256 as far as it is known; zeros: it is taken.
                                       * Loaded weights are looked for by it; what is packed is hashed, unless gguf was */
    /* A lane of the engine, on loan, whose pool may have been given back: the new one computes as it does, with its model,
     * kernels and K/V type, and no file is read. NULL: none. */
    const struct lane *kept;
    bool is_urgent; /* of a kept one: somebody waits to be served by it. Its pool's memory comes in the background */
};

/* Loads an opened file (which may be closed afterwards) for engine; any thread but the engine's, and
 * it takes as long as packing takes. While the engine has lanes that is done by a few threads of the
 * lowest priority. Weights of a file that is loaded already are shared. NO_MEMORY with the figures if
 * weights and pools do not fit into the available memory; all else as model_load and cache_new. On
 * failure nothing is kept. With terms->kept gguf is NULL and only the pool is made; where that is
 * urgent it takes a few milliseconds. */
enum status lane_load(const struct gguf *gguf, const struct lane_terms *terms,
                      struct engine *engine, struct lane **ret_lane, struct why *ret_why) MUST_USE;
/* NO_MEMORY with the figures, in ret_why's parts too (weights_bytes, cache_bytes, control_bytes, available_bytes), if lane_load
 * would refuse the file for want of memory now; terms->checkpoint is known, or terms->kept is there and gguf not looked at. */
enum status lane_check_room(const struct gguf *gguf, const struct lane_terms *terms,
                            struct engine *engine, struct why *ret_why) MUST_USE;
/* One that was never added; others go by engine_remove. Takes NULL. */
void lane_free(struct lane **lane);

/* ---- what it is; settled by lane_load ---- */

const char *lane_id(const struct lane *lane);
const struct model *lane_model(const struct lane *lane);
const struct kernels *lane_kernels(const struct lane *lane);
const uint8_t *lane_namespace(const struct lane *lane); /* [SHA256_BYTES] */
/* Tokens a sequence may hold. */
uint32_t lane_context(const struct lane *lane);
/* Tokens that the page pool can hold, over all sequences: those of the groups without a window. */
uint64_t lane_pool_tokens(const struct lane *lane);
/* Where its pool was mapped, group by group; the places stay told once it is freed. */
const struct cache_memory *lane_pool(const struct lane *lane, uint32_t *ret_n_groups);
/* The pool's books: between lane_load and engine_add; later they are the engine thread's. */
const struct cache *lane_cache(const struct lane *lane);
/* What its attention plans were given to work in, which lanes of one pass and K/V type share; since engine_add. */
uint64_t lane_workspace_bytes(const struct lane *lane);
/* What watches it (lane_collector.h); there as long as the lane. */
struct lane_collector *lane_evidence_collector(const struct lane *lane);

/* ---- its quota ----
 *
 * Candidate and control hold equally many pages while they are judged, whatever their pools are. */

/* The most blocks that a group may hold now: all of its pool without a quota. Any thread. */
uint32_t lane_blocks(const struct lane *lane);
/* Between lane_load and engine_add: it holds no more than so many blocks (at least 1; UINT32_MAX: all) in groups without a window, and
 * in the others what goes with them, used and cached ones together. */
void lane_set_quota(struct lane *lane, uint32_t blocks);
/* Its whole pool is its own again, within one step. Any thread; without a quota nothing happens. */
void lane_lift_quota(struct lane *lane);

/* ---- its life ---- */

/* A state that is behind what was wanted already changes nothing. */
void lane_want(struct lane *lane, enum lane_life life);
enum lane_life lane_wanted(const struct lane *lane);
enum lane_life lane_reached(const struct lane *lane);
/* Forgets cached pages that no sequence holds, within one step; any thread. */
void lane_purge(struct lane *lane);
/* Accepted and not yet handed back as done; any thread. */
uint32_t lane_in_flight(const struct lane *lane);

/* ---- its counters; any thread, never waits for a step ---- */

/* A consistent copy: admitted = finished + aborted + failed + running + waiting. */
void lane_stats_copy(const struct lane *lane, struct engine_stats *ret_stats);
/* Fills in what the system says of the K/V memory (kv_measured_bytes), a few milliseconds for a pool
 * of gigabytes. */
void lane_stats_measure(struct lane *lane, struct engine_stats *stats);

#endif
