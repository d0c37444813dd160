/* engine_load.h: what an engine is made of, built in order and taken down in the reverse one.
 * Private to the engine. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_LOAD_H
#define FOLDKV_SCHED_ENGINE_LOAD_H

#include "sched/engine.h"
#include "sched/pass.h"

struct engine_parts {
    struct kernels kernels;
    struct workers *workers;
    struct model *model;
    struct cache *cache;
    struct pass *pass;
    struct scheduler *scheduler;
    uint32_t context_max;
};

/* Everything but the thread. On failure all is undone and ret_why says why. */
enum status engine_parts_init(struct engine_parts *parts, const struct gguf *gguf,
                              const struct engine_options *options, scheduler_news_fn *on_news,
                              void *user, struct why *ret_why) MUST_USE;
/* Takes half-built parts. */
void engine_parts_release(struct engine_parts *parts);
/* A cache group's blocks whose memory is there before ready: those of one context of at most 8,192
 * tokens, or all there are. The rest comes in the background (pool_warmer.h). */
uint32_t engine_parts_ready_blocks(const struct engine_parts *parts, uint32_t group);

#endif
