/* engine_stats.c: counters of several lanes as one.
 *
 * WHY     Who watches the daemon wants one sum that never falls, whatever generations come and go.
 * HOW     Each member is added by its row of the .def files; groups of one shape are one group.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine_stats.h"

#include <string.h>

/* What a row is when its lane is gone. */
#define KEEP_COUNTER(member) (void)0
#define KEEP_GAUGE(member) (member) = 0

void engine_stats_keep_counters(struct engine_stats *stats)
{
#define STAT(kind, name, unit, prose) KEEP_##kind(stats->name);
#include "sched/engine_stats.def"
#undef STAT
    for (uint64_t g = 0; g < stats->n_groups; g++) {
        struct group_stats *group = &stats->groups[g];
        uint64_t layers = group->layers, block_bytes = group->block_bytes; /* its shape */
#define STAT(kind, name, unit, prose) KEEP_##kind(group->name);
#include "sched/group_stats.def"
#undef STAT
        group->layers = layers;
        group->block_bytes = block_bytes;
    }
}

static bool is_one_shape(const struct group_stats *a, const struct group_stats *b)
{
    return a->heads == b->heads && a->window == b->window && a->layers == b->layers &&
           a->block_bytes == b->block_bytes;
}

static void add_group(struct group_stats *sum, const struct group_stats *group)
{
    struct group_stats shape = *sum;
#define STAT(kind, name, unit, prose) sum->name += group->name;
#include "sched/group_stats.def"
#undef STAT
    sum->layers = shape.layers;
    sum->block_bytes = shape.block_bytes;
}

struct group_stats *engine_stats_group_like(struct engine_stats *stats,
                                            const struct group_stats *like)
{
    for (uint64_t g = 0; g < stats->n_groups; g++)
        if (is_one_shape(&stats->groups[g], like))
            return &stats->groups[g];
    return NULL;
}

void engine_stats_add(struct engine_stats *sum, const struct engine_stats *stats)
{
#define STAT(kind, name, unit, prose) sum->name += stats->name;
#include "sched/engine_stats.def"
#undef STAT
    for (uint64_t g = 0; g < stats->n_groups; g++) {
        struct group_stats *same = engine_stats_group_like(sum, &stats->groups[g]);
        if (same != NULL)
            add_group(same, &stats->groups[g]);
        else if (sum->n_groups < ENGINE_GROUPS_MAX)
            sum->groups[sum->n_groups++] = stats->groups[g];
    }
}
