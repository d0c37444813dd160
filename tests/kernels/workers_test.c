/* workers_test.c: the pool: every member runs, barriers order memory, shares partition, more members than processors.
 *
 * HOW     Members write a cell of their own, meet, and read all cells: a barrier that lets one through early, or does not
 *         order memory, shows as an old number. Under ThreadSanitizer the same runs show races.
 */
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/mem.h"
#include "kernels/workers.h"
#include "tests/support/suite_run.h"

enum { MEMBERS_MAX = 9, ROUNDS = 300 };

static const uint32_t pool_sizes[] = {1, 2, 3, 5, MEMBERS_MAX};

static struct workers *new_pool(uint32_t n)
{
    struct workers *w = NULL;
    struct why why = {0};
    ck_assert_msg(workers_new(n, &w, &why) == OK, "%s", why.text);
    ck_assert_uint_eq(workers_count(w), n);
    return w;
}

struct meeting {
    struct workers *workers;
    uint32_t n;
    uint32_t cells[MEMBERS_MAX]; /* plain on purpose */
    atomic_uint wrong;
};

static void meet(void *arg, uint32_t tid)
{
    struct meeting *m = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        m->cells[tid] = round;
        workers_barrier(m->workers);
        for (uint32_t i = 0; i < m->n; i++)
            if (m->cells[i] != round)
                atomic_fetch_add(&m->wrong, 1);
        workers_barrier(m->workers);
    }
}

START_TEST(barriers_order_what_members_write)
{
    struct meeting m = {.n = pool_sizes[_i]};
    m.workers = new_pool(m.n);
    workers_run(m.workers, meet, &m);
    ck_assert_uint_eq(atomic_load(&m.wrong), 0);
    for (uint32_t i = 0; i < m.n; i++)
        ck_assert_uint_eq(m.cells[i], ROUNDS);
    workers_free(&m.workers);
    ck_assert_ptr_null(m.workers);
}
END_TEST

static void count_run(void *arg, uint32_t tid)
{
    uint32_t *runs = arg;
    runs[tid]++;
}

START_TEST(a_run_runs_every_member_once)
{
    uint32_t n = pool_sizes[_i];
    struct workers *w = new_pool(n);
    uint32_t runs[MEMBERS_MAX] = {0};
    uint64_t calls = mem_calls();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        workers_run(w, count_run, runs);
        for (uint32_t t = 0; t < n; t++)
            ck_assert_uint_eq(runs[t], i + 1);
    }
    ck_assert_uint_eq(mem_calls(), calls);
    workers_free(&w);
}
END_TEST

/* Long enough that the members have gone to sleep. */
START_TEST(members_wake_from_sleep)
{
    uint32_t n = pool_sizes[_i];
    struct workers *w = new_pool(n);
    uint32_t runs[MEMBERS_MAX] = {0};
    for (uint32_t i = 0; i < 5; i++) {
        usleep(20000);
        workers_run(w, count_run, runs);
    }
    for (uint32_t t = 0; t < n; t++)
        ck_assert_uint_eq(runs[t], 5);
    workers_free(&w);
}
END_TEST

static void late_member(void *arg, uint32_t tid)
{
    struct meeting *m = arg;
    if (tid == m->n - 1)
        usleep(20000); /* the others sleep inside the barrier meanwhile */
    m->cells[tid] = 1;
    workers_barrier(m->workers);
    for (uint32_t i = 0; i < m->n; i++)
        if (m->cells[i] != 1)
            atomic_fetch_add(&m->wrong, 1);
}

START_TEST(a_late_member_is_waited_for)
{
    struct meeting m = {.n = pool_sizes[_i]};
    m.workers = new_pool(m.n);
    workers_run(m.workers, late_member, &m);
    ck_assert_uint_eq(atomic_load(&m.wrong), 0);
    workers_free(&m.workers);
}
END_TEST

static void *run_elsewhere(void *arg)
{
    struct meeting *m = arg;
    workers_run(m->workers, meet, m);
    return NULL;
}

START_TEST(another_thread_may_take_the_pool_over)
{
    struct meeting m = {.n = 3};
    m.workers = new_pool(3);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_elsewhere, &m), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(atomic_load(&m.wrong), 0);
    ck_assert_uint_eq(m.cells[2], ROUNDS);
    workers_free(&m.workers);
}
END_TEST

enum { ENCOUNTERS = 20, ENCOUNTER_BUSY_US = 3000 };

struct encounter {
    struct workers *workers;
    cpu_set_t allowed;
    atomic_int member_at;
    bool is_apart;
};

static void busy(uint32_t us)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}

/* The caller goes to the processor of member 1, waits for it there, and looks where both are then. */
static void encounter(void *arg, uint32_t tid)
{
    struct encounter *e = arg;
    if (tid == 1)
        atomic_store(&e->member_at, sched_getcpu());
    workers_barrier(e->workers);
    if (tid == 0) {
        cpu_set_t there;
        CPU_ZERO(&there);
        CPU_SET((size_t)atomic_load(&e->member_at), &there);
        ck_assert_int_eq(sched_setaffinity(0, sizeof there, &there), 0);
        ck_assert_int_eq(sched_setaffinity(0, sizeof e->allowed, &e->allowed), 0);
    } else {
        busy(ENCOUNTER_BUSY_US);
    }
    workers_barrier(e->workers);
    if (tid == 1)
        atomic_store(&e->member_at, sched_getcpu());
    workers_barrier(e->workers);
    if (tid == 0)
        e->is_apart = sched_getcpu() != atomic_load(&e->member_at);
}

/* Only a pool with a member a processor keeps them apart. The system may move the caller at any moment, so most
 * encounters count. */
START_TEST(a_caller_on_a_members_processor_is_left_alone_there)
{
    struct encounter e = {0};
    ck_assert_int_eq(sched_getaffinity(0, sizeof e.allowed, &e.allowed), 0);
    uint32_t n = (uint32_t)CPU_COUNT(&e.allowed), n_apart = 0;
    if (n < 2)
        return; /* there is nowhere to go */
    e.workers = new_pool(n);
    for (int i = 0; i < ENCOUNTERS; i++) {
        workers_run(e.workers, encounter, &e);
        n_apart += e.is_apart;
    }
    ck_assert_uint_ge(n_apart, ENCOUNTERS * 3 / 4);
    workers_free(&e.workers);
}
END_TEST

START_TEST(a_pool_knows_whether_it_takes_all_processors)
{
    cpu_set_t allowed;
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    uint32_t processors = (uint32_t)CPU_COUNT(&allowed);
    for (uint32_t n = processors > 3 ? processors - 3 : 1; n <= processors + 1 && n <= 256; n++) {
        struct workers *w = new_pool(n);
        ck_assert_int_eq(workers_take_all(w), n >= processors);
        workers_free(&w);
    }
}
END_TEST

static void see_signals(void *arg, uint32_t tid)
{
    bool *blocked = arg;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    blocked[tid] = sigismember(&set, SIGTERM) == 1;
}

START_TEST(workers_leave_signals_to_others)
{
    struct workers *w = new_pool(2);
    bool blocked[2];
    workers_run(w, see_signals, blocked);
    ck_assert(!blocked[0]);
    ck_assert(blocked[1]);
    workers_free(&w);
}
END_TEST

START_TEST(bad_counts_and_no_memory_are_refused)
{
    struct workers *w = NULL;
    struct why why = {0};
    ck_assert_int_eq(workers_new(0, &w, &why), STATUS_BAD_OPTION);
    ck_assert_int_eq(workers_new(257, &w, &why), STATUS_BAD_OPTION);
    ck_assert_ptr_nonnull(strstr(why.text, "257"));
    mem_fail_nth(1);
    ck_assert_int_eq(workers_new(2, &w, &why), STATUS_NO_MEMORY);
    mem_fail_nth(0);
    ck_assert_ptr_null(w);
    workers_free(&w);
}
END_TEST

/* A user of its own with room for a few threads; without the right to become one, no thread at all can be made. */
START_TEST(a_thread_that_cannot_be_made_ends_the_others)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* the sanitizer ends the process where a thread's memory cannot be had */
#endif
    struct rlimit limit = {.rlim_cur = 8, .rlim_max = 8};
    if (geteuid() != 0)
        limit.rlim_cur = 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &limit), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(setuid(61234), 0);
    struct workers *w = NULL;
    struct why why = {0};
    ck_assert_int_eq(workers_new(250, &w, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_null(w);
    ck_assert_ptr_nonnull(strstr(why.text, "of 250 threads"));
}
END_TEST

START_TEST(shares_partition_in_whole_grains)
{
    static const uint32_t counts[] = {0, 1, 2, 3, 15, 16, 17, 100, 3072, UINT32_MAX};
    for (size_t c = 0; c < ARRAY_LEN(counts); c++)
        for (uint32_t grain = 1; grain <= 5; grain++)
            for (uint32_t threads = 1; threads <= 7; threads++) {
                uint32_t next = 0, least = UINT32_MAX, most = 0;
                for (uint32_t tid = 0; tid < threads; tid++) {
                    uint32_t first, end;
                    workers_share(counts[c], grain, tid, threads, &first, &end);
                    ck_assert_uint_eq(first, next);
                    ck_assert_uint_le(first, end);
                    ck_assert(end == counts[c] || end % grain == 0);
                    least = end - first < least ? end - first : least;
                    most = end - first > most ? end - first : most;
                    next = end;
                }
                ck_assert_uint_eq(next, counts[c]);
                ck_assert_uint_le(most - least, 2 * grain);
            }
}
END_TEST

int main(void)
{
    int sizes = (int)ARRAY_LEN(pool_sizes);
    TCase *c = tcase_create("workers");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, shares_partition_in_whole_grains);
    tcase_add_test(c, bad_counts_and_no_memory_are_refused);
    tcase_add_loop_test(c, a_run_runs_every_member_once, 0, sizes);
    tcase_add_loop_test(c, barriers_order_what_members_write, 0, sizes);
    tcase_add_loop_test(c, members_wake_from_sleep, 0, sizes);
    tcase_add_loop_test(c, a_late_member_is_waited_for, 0, sizes);
    tcase_add_test(c, another_thread_may_take_the_pool_over);
    tcase_add_test(c, a_caller_on_a_members_processor_is_left_alone_there);
    tcase_add_test(c, a_pool_knows_whether_it_takes_all_processors);
    tcase_add_test(c, workers_leave_signals_to_others);
    tcase_add_test(c, a_thread_that_cannot_be_made_ends_the_others);
    Suite *s = suite_create("workers");
    suite_add_tcase(s, c);
    return suite_run(s);
}
