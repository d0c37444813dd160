/* workers.c: a fixed pool of threads that meet at one barrier: they spin, then sleep.
 *
 * WHY     A decode step has hundreds of barriers with microseconds of work between them: waking a thread through the
 *         system costs more than the work. But with fewer free cores than members the one waited for must get to run.
 * HOW     One counter of arrivals and one phase word. The last to arrive clears the counter and raises the phase; the
 *         others watch the phase for SPINS pauses (some 200 us), then sleep on a futex. They do not yield: to the scheduler
 *         a yield gives up the rest of a turn, and a neighbour that computes then has the processor for milliseconds, at
 *         every barrier. Only where there are more members than processors they yield instead of spinning.
 *         A run is two such barriers, before and after the function, in which the caller takes part, so the pool needs no
 *         other state.
 *         Two members on one processor wait for each other's spins at every barrier, and a busy system may leave them so. So
 *         a pool with as many members as there are processors binds each thread it made to a processor of its own. The
 *         caller is not ours to bind: when a run or a long wait finds it on a member's processor, that member moves to the one
 *         left over.
 * ALWAYS  (1) The phase rises only when all members have arrived.                      barrier_arrive
 *         (2) Nobody sleeps through a rise: a sleeper counts itself before the futex compares the phase, and the
 *             riser looks at the count after the rise, both in one total order.         sleep_on, barrier_arrive
 *         (3) What a member wrote before a barrier every member sees after it.          barrier_arrive
 * OWNS    The threads, from workers_new to workers_free.
 * THREAD  the caller's and the pool's own
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/workers.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/mem.h"

enum { WORKERS_MAX = 256, SPINS_BRIEF = 400, SPINS = 8000, YIELDS = 1000 };

/* Arrivals are written by all while the phase is watched by all, so each has a pair of cache lines of its own. */
struct workers {
    atomic_uint arrived;
    char apart_1[124];
    atomic_uint phase;
    atomic_uint sleepers;
    char apart_2[120];
    workers_fn *fn; /* of the run; written before its first barrier, read after */
    void *arg;
    bool stopping;
    uint32_t n_processors; /* that the process may use */
    bool bound;            /* each member but the caller to its processor */
    _Atomic pthread_t caller; /* of the run */
    uint32_t n;
    struct worker {
        struct workers *pool;
        pthread_t thread;
        uint32_t tid;
        int processor; /* if bound */
    } members[];
};

/* ---- where they run ---- */

/* The processors this process may use; their number. */
static uint32_t processors(cpu_set_t *ret_set)
{
    CPU_ZERO(ret_set);
    if (sched_getaffinity(0, sizeof *ret_set, ret_set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(ret_set);
}

/* A refusal costs speed only. */
static void bind_member(const struct worker *member)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)member->processor, &one);
    (void)pthread_setaffinity_np(member->thread, sizeof one, &one);
}

/* Gives each member but the caller the processor that is as far in the list of allowed ones. */
static void bind_all(struct workers *w, const cpu_set_t *allowed)
{
    uint32_t tid = 0;
    for (int i = 0; i < CPU_SETSIZE && tid < w->n; i++)
        if (CPU_ISSET((size_t)i, allowed))
            w->members[tid++].processor = i;
    for (tid = 1; tid < w->n; tid++)
        bind_member(&w->members[tid]);
}

/* If the caller runs on a member's processor, the two change places. members[0] is the caller's, which is not bound. */
static void make_way(struct workers *w)
{
    int here = sched_getcpu();
    if (!w->bound || here < 0 || here == w->members[0].processor)
        return;
    for (uint32_t tid = 1; tid < w->n; tid++) {
        struct worker *member = &w->members[tid];
        if (member->processor != here)
            continue;
        member->processor = w->members[0].processor;
        w->members[0].processor = here;
        bind_member(member);
        return;
    }
}

/* ---- the barrier ---- */

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* yield is a no-op on most cores */
#endif
}

static bool phase_is(struct workers *w, unsigned phase)
{
    return atomic_load_explicit(&w->phase, memory_order_acquire) == phase;
}

static void sleep_on(struct workers *w, unsigned phase)
{
    atomic_fetch_add(&w->sleepers, 1);
    while (atomic_load(&w->phase) == phase)
        (void)syscall(SYS_futex, &w->phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    atomic_fetch_sub(&w->sleepers, 1);
}

static bool spin_past(struct workers *w, unsigned phase, uint32_t pauses)
{
    for (uint32_t i = 0; i < pauses; i++) {
        if (!phase_is(w, phase))
            return true;
        pause_briefly();
    }
    return false;
}

static bool yield_past(struct workers *w, unsigned phase)
{
    for (uint32_t i = 0; i < YIELDS; i++) {
        if (!phase_is(w, phase))
            return true;
        (void)sched_yield();
    }
    return false;
}

static void wait_past(struct workers *w, unsigned phase)
{
    const bool is_crowded = w->n > w->n_processors;
    if (!is_crowded && spin_past(w, phase, SPINS_BRIEF))
        return;
    if (pthread_equal(pthread_self(), atomic_load_explicit(&w->caller, memory_order_relaxed)))
        make_way(w);
    if (!(is_crowded ? yield_past(w, phase) : spin_past(w, phase, SPINS)))
        sleep_on(w, phase);
}

/* Arrives for count members. The phase cannot rise between its reading and our arrival: it waits for us. */
static void barrier_arrive(struct workers *w, uint32_t count)
{
    unsigned phase = atomic_load_explicit(&w->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&w->arrived, count, memory_order_acq_rel) + count != w->n) {
        wait_past(w, phase);
        return;
    }
    atomic_store_explicit(&w->arrived, 0, memory_order_relaxed);
    atomic_store(&w->phase, phase + 1);
    if (atomic_load(&w->sleepers) != 0)
        (void)syscall(SYS_futex, &w->phase, FUTEX_WAKE_PRIVATE, WORKERS_MAX, NULL, NULL, 0);
}

void workers_barrier(struct workers *workers)
{
    if (workers->n > 1)
        barrier_arrive(workers, 1);
}

static void *worker_main(void *arg)
{
    struct worker *member = arg;
    struct workers *w = member->pool;
    for (;;) {
        barrier_arrive(w, 1);
        if (w->stopping)
            return NULL;
        w->fn(w->arg, member->tid);
        barrier_arrive(w, 1);
    }
}

/* Makes the members 1..n-1; returns how many members there are then. Signals are left to the threads that want them. */
static uint32_t start_members(struct workers *w)
{
    cpu_set_t allowed;
    w->n_processors = processors(&allowed);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    uint32_t made = 1;
    for (; made < w->n; made++) {
        struct worker *member = &w->members[made];
        *member = (struct worker){.pool = w, .tid = made};
        if (pthread_create(&member->thread, NULL, worker_main, member) != 0)
            break;
        (void)pthread_setname_np(member->thread, "worker");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->bound = made > 1 && made == w->n && made == w->n_processors;
    if (w->bound)
        bind_all(w, &allowed);
    return made;
}

/* Ends the members 1..made-1; arrives for those that were never made, too. */
static void stop_members(struct workers *w, uint32_t made)
{
    w->stopping = true;
    if (made > 1)
        barrier_arrive(w, w->n - (made - 1));
    for (uint32_t i = 1; i < made; i++)
        pthread_join(w->members[i].thread, NULL);
}

enum status workers_new(uint32_t n, struct workers **ret_workers, struct why *ret_why)
{
    if (n < 1 || n > WORKERS_MAX)
        return why_set(ret_why, STATUS_BAD_OPTION, "server.threads",
                       "server.threads: %u is not in 1..%d", n, WORKERS_MAX);
    struct workers *w = mem_aligned(sizeof *w + n * sizeof w->members[0]);
    if (w == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "server.threads", "no memory for %u workers", n);
    w->n = n;
    uint32_t made = start_members(w);
    if (made < n) {
        stop_members(w, made);
        mem_free(w);
        return why_set(ret_why, STATUS_UNAVAILABLE, "server.threads",
                       "server.threads: the system gave %u of %u threads", made, n);
    }
    *ret_workers = w;
    return OK;
}

void workers_free(struct workers **workers)
{
    struct workers *w = *workers;
    *workers = NULL;
    if (w == NULL)
        return;
    stop_members(w, w->n);
    mem_free(w);
}

uint32_t workers_count(const struct workers *workers)
{
    return workers->n;
}

bool workers_take_all(const struct workers *workers)
{
    return workers->n >= workers->n_processors;
}

void workers_run(struct workers *workers, workers_fn *fn, void *arg)
{
    atomic_store_explicit(&workers->caller, pthread_self(), memory_order_relaxed);
    make_way(workers);
    workers->fn = fn;
    workers->arg = arg;
    workers_barrier(workers);
    fn(arg, 0);
    workers_barrier(workers);
}

void workers_share(uint32_t n, uint32_t grain, uint32_t tid, uint32_t n_threads,
                   uint32_t *ret_first, uint32_t *ret_end)
{
    ASSERT(grain > 0 && tid < n_threads);
    uint64_t grains = ((uint64_t)n + grain - 1) / grain;
    uint64_t first = grains * tid / n_threads * grain;
    uint64_t end = grains * (tid + 1) / n_threads * grain;
    *ret_first = (uint32_t)(first < n ? first : n);
    *ret_end = (uint32_t)(end < n ? end : n);
}
