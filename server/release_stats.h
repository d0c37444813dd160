/* release_stats.h: requests, errors and times by arm and generation, since the start of the process.
 *
 * A row is made with the first request that ends; when all are taken the one that was used longest ago goes. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_RELEASE_STATS_H
#define FOLDKV_SERVER_RELEASE_STATS_H

#include "sched/judge/arm.h"
#include "server/histogram.h"

enum { RELEASE_STATS_ROWS = 24, RELEASE_STATS_ID_ROOM = 17 };

struct release_stats_row {
    char generation[RELEASE_STATS_ID_ROOM]; /* its first 16 hex digits; "": the row is free */
    enum arm arm;
    uint64_t used; /* the count of ends when it was used last */
    uint64_t requests, errors;
    struct histogram time_to_first_token, time_per_output_token;
};

struct release_stats {
    uint64_t n_ends;
    struct release_stats_row rows[RELEASE_STATS_ROWS];
};

/* One request ended. A time of 0 is none. */
void release_stats_end(struct release_stats *stats, const char *generation, enum arm arm, bool is_error,
                       uint64_t ttft_ns, uint64_t tpot_ns);

#endif
