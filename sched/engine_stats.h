/* engine_stats.h: the engine's counters as a struct, made from engine_stats.def, and its latency
 * histograms. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_STATS_H
#define FOLDKV_SCHED_ENGINE_STATS_H

#include "config/base.h"

enum { ENGINE_GROUPS_MAX = 16 };

/* One cache group's. */
struct group_stats {
    uint64_t heads, window; /* labels: K/V heads a layer; 0: no window */
#define STAT(kind, name, unit, prose) uint64_t name;
#include "sched/group_stats.def"
#undef STAT
};

struct engine_stats {
#define STAT(kind, name, unit, prose) uint64_t name;
#include "sched/engine_stats.def"
#undef STAT
    uint64_t n_groups;
    struct group_stats groups[ENGINE_GROUPS_MAX];
};

/* Counters of a lane that is gone: what it held is zero, what it counted stays. */
void engine_stats_keep_counters(struct engine_stats *stats);
/* Adds all members. A group is added to the one of its shape (heads, window, layers, block bytes), or
 * becomes a new one; beyond ENGINE_GROUPS_MAX shapes it counts in the members alone. */
void engine_stats_add(struct engine_stats *sum, const struct engine_stats *stats);
/* The group of the same shape, or NULL. */
struct group_stats *engine_stats_group_like(struct engine_stats *stats,
                                            const struct group_stats *like);

#endif
