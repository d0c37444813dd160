/* pool_warmer.c: populates the pool in slices until it is done or told to stop.
 *
 * WHY     A page fault in a step is a stall of a millisecond and more; touching all of a large pool
 *         before the first request is a start of seconds.
 * HOW     The pool gives low pages first, so the slices go upwards. SCHED_IDLE: it runs when
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
    atomic_uint blocks; /* the memory of those below is there */
    atomic_bool is_paused;
    atomic_bool is_stopping;
};

static void wait_while_paused(struct pool_warmer *w)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    while (atomic_load(&w->is_paused) && !atomic_load(&w->is_stopping))
        nanosleep(&pause, NULL);
}

static void *warm(void *arg)
{
    struct pool_warmer *w = arg;
    struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* a courtesy */
    uint32_t total = cache_blocks_total(w->cache, 0);
    for (uint32_t at = atomic_load(&w->blocks); at < total && !atomic_load(&w->is_stopping);) {
        wait_while_paused(w);
        uint32_t end = total - at > SLICE_BLOCKS ? at + SLICE_BLOCKS : total;
        cache_touch(w->cache, 0, at, end, 0, 1);
        atomic_store(&w->blocks, end);
        at = end;
    }
    return NULL;
}

enum status pool_warmer_new(const struct cache *cache, uint32_t first_block,
                            struct pool_warmer **ret_warmer)
{
    *ret_warmer = NULL;
    struct pool_warmer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL)
        return STATUS_NO_MEMORY;
    w->cache = cache;
    atomic_init(&w->blocks, first_block);
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
