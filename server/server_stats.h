/* server_stats.h: the server's counters, made from server_stats.def. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SERVER_STATS_H
#define FOLDKV_SERVER_SERVER_STATS_H

#include "server/histogram.h"

enum { SERVER_STATS_CODE_LEAST = 100, SERVER_STATS_CODE_MOST = 599 };

/* The value of the label of foldkv_completions. */
enum completion_outcome {
    OUTCOME_STOP,
    OUTCOME_LENGTH,
    OUTCOME_CANCELLED,
    OUTCOME_ERROR,
    OUTCOME_REFUSED,
    OUTCOME_COUNT
};
const char *completion_outcome_name(enum completion_outcome outcome);

struct server_stats {
#define STAT(kind, name, unit, prose) uint64_t name;
#define HISTOGRAM(name, prose) struct histogram name;
#define LABELLED(name, label, prose)
#include "server/server_stats.def"
#undef STAT
#undef HISTOGRAM
#undef LABELLED
    uint64_t http_responses[SERVER_STATS_CODE_MOST - SERVER_STATS_CODE_LEAST + 1];
    uint64_t completions[OUTCOME_COUNT];
};

#endif
