/* cache_misses.h: what threads read from memory, as the processor counts it: last-level cache misses, in
 * user space, between enter and leave.
 *
 * Many hosts do not let a process count, or have nothing to count with; that is settled once, when this is made, and then
 * enter and leave do nothing. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_CACHE_MISSES_H
#define FOLDKV_SCHED_CACHE_MISSES_H

#include "config/status.h"

enum { CACHE_LINE_BYTES = 64 };

/* What is counted; others than misses are for tests of the counting itself. */
enum cache_misses_event { COUNT_CACHE_MISSES, COUNT_TASK_CLOCK };

struct cache_misses;

/* True if the calling thread could open a counter of the event just now. */
bool cache_misses_can_count(enum cache_misses_event event);
/* For members 0..n_threads-1. NO_MEMORY. */
enum status cache_misses_new(enum cache_misses_event event, uint32_t n_threads,
                             struct cache_misses **ret_misses) MUST_USE;
void cache_misses_free(struct cache_misses **misses);
/* By member tid itself, always the same thread, in pairs. */
void cache_misses_enter(struct cache_misses *misses, uint32_t tid);
void cache_misses_leave(struct cache_misses *misses, uint32_t tid);
/* What all members have counted so far. False if a member could not count: then it means nothing. While no member is inside. */
bool cache_misses_total(const struct cache_misses *misses, uint64_t *ret_count) MUST_USE;

#endif
