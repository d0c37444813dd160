/* stats_board.h: the engine's counters, published after each step and read whole by anyone without
 * waiting for a step. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_STATS_BOARD_H
#define FOLDKV_SCHED_STATS_BOARD_H

#include <stdatomic.h>

#include "sched/engine_stats.h"

enum { STATS_WORDS = sizeof(struct engine_stats) / sizeof(uint64_t) };

/* Zeroed memory is a valid board. */
struct stats_board {
    atomic_uint version; /* odd while it is written */
    _Atomic uint64_t words[STATS_WORDS];
};

/* One thread writes. Groups beyond n_groups are left as they are. */
void stats_board_publish(struct stats_board *board, const struct engine_stats *stats);
/* A copy that belongs to one moment. Any thread. */
void stats_board_read(const struct stats_board *board, struct engine_stats *ret_stats);

#endif
