/* lane_parts.h: what a lane is made of, built in order and taken down in the reverse one.
 * Private to lanes, and to tests that step them by hand. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LANE_PARTS_H
#define FOLDKV_SCHED_LANE_PARTS_H

#include "sched/lane.h"
#include "sched/pass.h"

struct lane_parts {
    struct kernels kernels;
    struct model *model;
    struct cache *cache;
    struct scheduler *scheduler;
    uint32_t context_max;
    uint8_t namespace_id[SHA256_BYTES];
};

/* What the engine decides for all its lanes. */
struct lane_limits {
    uint32_t running_max;
    uint32_t prefill_chunk;
};

/* All that does not depend on other lanes: the scheduler has joined no pass. Packs on these workers,
 * unless weights of this file are given, and touches the pool's first blocks. Parts that have a model
 * already keep it and their kernels: gguf is not read then, and without workers (NULL) nothing is
 * touched. On failure what was built is left for lane_parts_release. */
enum status lane_parts_init(struct lane_parts *parts, const struct gguf *gguf,
                            const struct lane_terms *terms, const struct lane_limits *limits,
                            struct workers *workers, struct weights *weights,
                            scheduler_news_fn *on_news, void *user, struct why *ret_why) MUST_USE;
/* Gives pool and scheduler back; model and kernels stay. The scheduler has left its pass. */
void lane_parts_release_pool(struct lane_parts *parts);
/* Takes half-built parts. */
void lane_parts_release(struct lane_parts *parts);

/* The namespace of a process without a registry: its identity and binding, so that restarts agree. */
enum status lane_parts_namespace(const struct manifest *manifest,
                                 uint8_t ret_namespace[SHA256_BYTES]) MUST_USE;
/* Where the pages are, as a pass wants to know it. */
struct decoder_memory lane_parts_memory(const struct lane_parts *parts);
/* A cache group's blocks whose memory is there before ready: those of one context of at most 8,192
 * tokens, or all there are. The rest comes in the background (pool_warmer.h). */
uint32_t lane_parts_ready_blocks(const struct lane_parts *parts, uint32_t group);

#endif
