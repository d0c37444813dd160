/* engine_stats.h: the engine's counters as a struct, made from engine_stats.def, and its latency
 * histograms. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_STATS_H
#define FOLDKV_SCHED_ENGINE_STATS_H

#include "config/base.h"

struct engine_stats {
#define STAT(kind, name, unit, prose) uint64_t name;
#include "sched/engine_stats.def"
#undef STAT
};

#endif
