/* pool_warmer.c: populates the pool in slices until it is done or told to stop.
 *
 * WHY     A page fault in a step is a stall of a millisecond and more; touching all of a large pool
 *         before the first request is a start of seconds.
 * HOW     A pool gives low pages first, so the slices go upwards, a slice of each group in turn. Zeroing takes the
 *         bandwidth that a step lives on: so while there are steps it waits, unless use comes within AHEAD_BLOCKS of what is
 *         there; then it works a tenth of the time, a few pages of the system's at once, and stays ahead of the fastest
 *         prompts, which take a hundredth of a second for a block.
 * OWNS    Its thread.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pool_warmer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/clock.h"

enum {
    SLICE_BLOCKS = 16,
    SLICE_SHARES = 1024, /* parts of a slice, each touched at once: a huge page or none */
    AHEAD_BLOCKS = 32,
    PAUSE_NS = 20000000,
    REST_TIMES = 9, /* beside steps, rest so many times as long as work */
    NICE_MOST = 19
};

struct pool_warmer {
    const struct cache *cache;
    pthread_t thread;
    uint32_t next
        [CACHE_GROUPS_MAX]; /* the warmer's: the memory of each group's blocks before is there */
    atomic_uint blocks;     /* their sum */
    atomic_uint in_use[CACHE_GROUPS_MAX];
    atomic_bool is_busy; /* there are steps */
    atomic_bool is_stopping;
};

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                                 .tv_nsec = (long)(ns % 1000000000u)},
              NULL);
}

static bool is_urgent(struct pool_warmer *w, uint32_t group)
{
    uint32_t in_use = atomic_load(&w->in_use[group]);
    return w->next[group] < in_use || w->next[group] - in_use < AHEAD_BLOCKS;
}

/* Whether this group's next slice may be touched now. */
static bool has_turn(struct pool_warmer *w, uint32_t group)
{
    return w->next[group] < cache_blocks_total(w->cache, group) &&
           (!atomic_load(&w->is_busy) || is_urgent(w, group));
}

static void touch(struct pool_warmer *w, uint32_t group, uint32_t first, uint32_t end)
{
    for (uint32_t share = 0; share < SLICE_SHARES && !atomic_load(&w->is_stopping); share++) {
        uint64_t start = clock_now_ns();
        cache_touch(w->cache, group, first, end, share, SLICE_SHARES);
        if (atomic_load(&w->is_busy))
            sleep_ns(REST_TIMES * (clock_now_ns() - start));
    }
}

static void warm_slice(struct pool_warmer *w, uint32_t group)
{
    uint32_t at = w->next[group], total = cache_blocks_total(w->cache, group);
    uint32_t end = total - at > SLICE_BLOCKS ? at + SLICE_BLOCKS : total;
    touch(w, group, at, end);
    w->next[group] = end;
    atomic_fetch_add(&w->blocks, end - at);
}

/* A slice of each group whose turn it is; whether there was one, and whether all is there. */
static bool warm_round(struct pool_warmer *w, bool *ret_is_done)
{
    bool any = false;
    *ret_is_done = true;
    for (uint32_t g = 0; g < cache_groups(w->cache) && !atomic_load(&w->is_stopping); g++) {
        if (has_turn(w, g)) {
            warm_slice(w, g);
            any = true;
        }
        *ret_is_done &= w->next[g] == cache_blocks_total(w->cache, g);
    }
    return any;
}

static void *warm(void *arg)
{
    struct pool_warmer *w = arg;
    (void)pthread_setname_np(pthread_self(), "warmer");
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_MOST); /* a courtesy */
    for (bool is_done = false; !is_done && !atomic_load(&w->is_stopping);)
        if (!warm_round(w, &is_done) && !is_done)
            sleep_ns(PAUSE_NS);
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

void pool_warmer_note(struct pool_warmer *w, bool is_busy, const uint32_t *in_use)
{
    if (atomic_load_explicit(&w->is_busy, memory_order_relaxed) != is_busy)
        atomic_store(&w->is_busy, is_busy);
    for (uint32_t g = 0; g < cache_groups(w->cache); g++)
        atomic_store_explicit(&w->in_use[g], in_use[g], memory_order_relaxed);
}

uint32_t pool_warmer_blocks(const struct pool_warmer *warmer)
{
    return atomic_load(&warmer->blocks);
}
