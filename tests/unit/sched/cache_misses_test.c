/* cache_misses_test.c: members count what they do between enter and leave, or say that they cannot. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/cache_misses.h"

#include <pthread.h>

#include "sched/clock.h"
#include "tests/support/suite_run.h"

static void work_ns(uint64_t ns)
{
    uint64_t end = clock_now_ns() + ns;
    while (clock_now_ns() < end)
        ;
}

struct member {
    struct cache_misses *misses;
    uint32_t tid;
    uint64_t outside_ns, inside_ns;
};

static void *run(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < 5; i++) {
        work_ns(m->outside_ns);
        cache_misses_enter(m->misses, m->tid);
        work_ns(m->inside_ns);
        cache_misses_leave(m->misses, m->tid);
    }
    return NULL;
}

/* The same code counts misses where the host can, and here a thread's time, which every host can. */
START_TEST(what_happens_inside_is_counted)
{
    ck_assert(cache_misses_can_count(COUNT_TASK_CLOCK));
    struct cache_misses *misses;
    uint64_t total;
    ck_assert_int_eq(cache_misses_new(COUNT_TASK_CLOCK, 2, &misses), OK);
    struct member members[2] = {{misses, 0, 0, 4000000}, {misses, 1, 30000000, 1000000}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, &members[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert(cache_misses_total(misses, &total));
    ck_assert_uint_gt(total, 500000);   /* busy hosts give a thread less than the clock says */
    ck_assert_uint_lt(total, 100000000); /* 25 ms inside; outside were 150 */
    cache_misses_free(&misses);
}
END_TEST

START_TEST(what_a_host_cannot_count_is_said)
{
    bool can = cache_misses_can_count(COUNT_CACHE_MISSES);
    struct cache_misses *misses;
    uint64_t total;
    ck_assert_int_eq(cache_misses_new(COUNT_CACHE_MISSES, 1, &misses), OK);
    cache_misses_enter(misses, 0);
    cache_misses_leave(misses, 0);
    ck_assert_int_eq(cache_misses_total(misses, &total), can);
    cache_misses_free(&misses);
    printf("this host %s count cache misses\n", can ? "can" : "cannot");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_misses");
    TCase *tc = tcase_create("misses");
    tcase_add_test(tc, what_happens_inside_is_counted);
    tcase_add_test(tc, what_a_host_cannot_count_is_said);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
