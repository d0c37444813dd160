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

#endif
