/* release_stats.c: counters by arm and generation. */
// SPDX-License-Identifier: Apache-2.0
#include "server/release_stats.h"

static struct release_stats_row *row_of(struct release_stats *stats, const char *generation, enum arm arm)
{
    struct release_stats_row *oldest = &stats->rows[0];
    for (size_t i = 0; i < RELEASE_STATS_ROWS; i++) {
        struct release_stats_row *row = &stats->rows[i];
        if (row->generation[0] != '\0' && row->arm == arm && strcmp(row->generation, generation) == 0)
            return row;
        if (row->used < oldest->used)
            oldest = row;
    }
    *oldest = (struct release_stats_row){.arm = arm};
    snprintf(oldest->generation, sizeof oldest->generation, "%s", generation);
    return oldest;
}

void release_stats_end(struct release_stats *stats, const char *generation, enum arm arm, bool is_error,
                       uint64_t ttft_ns, uint64_t tpot_ns)
{
    struct release_stats_row *row = row_of(stats, generation, arm);
    row->used = ++stats->n_ends;
    row->requests++;
    row->errors += is_error;
    if (ttft_ns > 0)
        histogram_add(&row->time_to_first_token, (double)ttft_ns * 1e-9);
    if (tpot_ns > 0)
        histogram_add(&row->time_per_output_token, (double)tpot_ns * 1e-9);
}
