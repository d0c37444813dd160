/* clock.h: the time that durations are taken from. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_CLOCK_H
#define FOLDKV_SCHED_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
