/* pool_warmer.c: populates the pool in slices until it is done or told to stop.
 *
 * WHY     A page fault in a step is a stall of a millisecond and more; touching all of a large pool
 *         before the first request is a start of seconds.
 * HOW     A pool gives low pages first, so the slices go upwards, a slice of each group in turn. SCHED_IDLE: it runs when
 *         nobody else wants the core; and since zeroing takes the bandwidth that a step lives on, it
 *         waits while there are steps.
 * OWNS    Its thread.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pool_warmer.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "config/mem.h"

enum { SLICE_BLOCKS = 16, PAUSE_NS = 20000000 };

struct pool_warmer {
    const struct cache *cache;
    pthread_t thread;
    uint32_t next
        [CACHE_GROUPS_MAX]; /* the warmer's: the memory of each group's blocks before is there */
    atomic_uint blocks;     /* their sum */
    atomic_bool is_paused;
    atomic_bool is_stopping;
};

static void wait_while_paused(struct pool_warmer *w)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    while (atomic_load(&w->is_paused) && !atomic_load(&w->is_stopping))
        nanosleep(&pause, NULL);
}

/* The next slice of a group; false if all of it is there. */
static bool warm_slice(struct pool_warmer *w, uint32_t group)
{
    uint32_t at = w->next[group], total = cache_blocks_total(w->cache, group);
    if (at == total)
        return false;
    uint32_t end = total - at > SLICE_BLOCKS ? at + SLICE_BLOCKS : total;
    wait_while_paused(w);
    cache_touch(w->cache, group, at, end, 0, 1);
    w->next[group] = end;
    atomic_fetch_add(&w->blocks, end - at);
    return true;
}

static void *warm(void *arg)
{
    struct pool_warmer *w = arg;
    struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* a courtesy */
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t g = 0; g < cache_groups(w->cache) && !atomic_load(&w->is_stopping); g++)
            goes_on |= warm_slice(w, g);
    }
    return NULL;
}

enum status pool_warmer_new(const struct cache *cache, const uint32_t *first_blocks,
                            struct pool_warmer **ret_warmer)
{
    *ret_warmer = NULL;
    struct pool_warmer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL)
        return STATUS_NO_MEMORY;
    w->cache = cache;
    uint32_t sum = 0;
    for (uint32_t g = 0; g < cache_groups(cache); g++) {
        w->next[g] = first_blocks[g];
        sum += first_blocks[g];
    }
    atomic_init(&w->blocks, sum);
    if (pthread_create(&w->thread, NULL, warm, w) != 0) {
        mem_free(w);
        return STATUS_UNAVAILABLE;
    }
    *ret_warmer = w;
    return OK;
}

void pool_warmer_free(struct pool_warmer **warmer)
{
    struct pool_warmer *w = *warmer;
    if (w == NULL)
        return;
    atomic_store(&w->is_stopping, true);
    pthread_join(w->thread, NULL);
    mem_free(w);
    *warmer = NULL;
}

void pool_warmer_pause(struct pool_warmer *warmer, bool is_paused)
{
    if (atomic_load_explicit(&warmer->is_paused, memory_order_relaxed) != is_paused)
        atomic_store(&warmer->is_paused, is_paused);
}

uint32_t pool_warmer_blocks(const struct pool_warmer *warmer)
{
    return atomic_load(&warmer->blocks);
}
