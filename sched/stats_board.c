/* stats_board.c: a sequence lock over a struct of counters.
 *
 * WHY     A scrape must see counters that add up (admitted = finished + aborted + failed + running
 *         + waiting) and never wait.
 * HOW     The writer makes the version odd, writes, makes it even; a reader that saw an odd or
 *         changed version reads again. Words are atomics so that the overlap is defined.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/stats_board.h"

#include <string.h>

void stats_board_publish(struct stats_board *board, const struct engine_stats *stats)
{
    uint64_t words[STATS_WORDS];
    size_t used = offsetof(struct engine_stats, groups) + stats->n_groups * sizeof *stats->groups;
    memcpy(words, stats, used);
    unsigned version = atomic_load_explicit(&board->version, memory_order_relaxed);
    atomic_store(&board->version, version + 1);
    for (size_t i = 0; i < used / sizeof *words; i++)
        atomic_store_explicit(&board->words[i], words[i], memory_order_release);
    atomic_store(&board->version, version + 2);
}

void stats_board_read(const struct stats_board *board, struct engine_stats *ret_stats)
{
    uint64_t words[STATS_WORDS];
    unsigned before, after;
    do {
        before = atomic_load(&board->version);
        for (size_t i = 0; i < STATS_WORDS; i++)
            words[i] = atomic_load_explicit(&board->words[i], memory_order_acquire);
        after = atomic_load(&board->version);
    } while (before != after || before % 2 != 0);
    memcpy(ret_stats, words, sizeof words);
}
