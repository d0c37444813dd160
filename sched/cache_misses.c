/* cache_misses.c: one counter a thread, by perf_event_open.
 *
 * WHY     What run() issues is what we ask for; what comes from memory is what the machine does with it. Only a
 *         counter of its own can tell them apart.
 * HOW     A thread may count itself without privileges where the system lets it. Each opens its counter when it
 *         first enters, and reads it on the way in and out.
 * OWNS    The descriptors.
 * THREAD  each member its own record; total while none is inside
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/cache_misses.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/mem.h"

/* A line each, so that members do not wait for each other. */
struct member {
    int fd; /* 0: not opened yet; -1: cannot be */
    bool has_failed;
    uint64_t before, total;
} __attribute__((aligned(64)));

struct cache_misses {
    enum cache_misses_event event;
    uint32_t n;
    struct member *members;
};

static int open_counter(enum cache_misses_event event)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = event == COUNT_CACHE_MISSES ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
        .config = event == COUNT_CACHE_MISSES ? PERF_COUNT_HW_CACHE_MISSES
                                              : PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

bool cache_misses_can_count(enum cache_misses_event event)
{
    int fd = open_counter(event);
    if (fd < 0)
        return false;
    uint64_t count;
    bool can = read(fd, &count, sizeof count) == (ssize_t)sizeof count;
    close(fd);
    return can;
}

enum status cache_misses_new(enum cache_misses_event event, uint32_t n_threads,
                             struct cache_misses **ret_misses)
{
    struct cache_misses *m = *ret_misses = mem_zalloc(1, sizeof *m);
    if (m == NULL)
        return STATUS_NO_MEMORY;
    m->event = event;
    m->n = n_threads;
    m->members = mem_aligned(n_threads * sizeof *m->members);
    if (m->members == NULL) {
        cache_misses_free(ret_misses);
        return STATUS_NO_MEMORY;
    }
    return OK;
}

void cache_misses_free(struct cache_misses **misses)
{
    struct cache_misses *m = *misses;
    *misses = NULL;
    if (m == NULL)
        return;
    for (uint32_t i = 0; m->members != NULL && i < m->n; i++)
        if (m->members[i].fd > 0)
            close(m->members[i].fd);
    mem_free(m->members);
    mem_free(m);
}

static uint64_t count_of(struct member *member)
{
    uint64_t count = 0;
    if (read(member->fd, &count, sizeof count) != (ssize_t)sizeof count)
        member->has_failed = true;
    return count;
}

void cache_misses_enter(struct cache_misses *m, uint32_t tid)
{
    ASSERT(tid < m->n);
    struct member *member = &m->members[tid];
    if (member->fd == 0) {
        member->fd = open_counter(m->event);
        member->has_failed = member->fd < 0;
    }
    if (!member->has_failed)
        member->before = count_of(member);
}

void cache_misses_leave(struct cache_misses *m, uint32_t tid)
{
    struct member *member = &m->members[tid];
    if (member->has_failed)
        return;
    uint64_t after = count_of(member);
    member->total += after - member->before;
}

bool cache_misses_total(const struct cache_misses *m, uint64_t *ret_count)
{
    *ret_count = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->members[i].has_failed)
            return false;
        *ret_count += m->members[i].total;
    }
    return true;
}
