/* request_queue_test.c: order, fullness and the hand-over between two threads. */
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>

#include "config/mem.h"
#include "sched/request_queue.h"
#include "tests/support/suite_run.h"

/* The queue never looks into a request, so any address will do. */
static struct request *fake(uintptr_t n)
{
    return (struct request *)(n + 1);
}

START_TEST(holds_its_capacity_in_order)
{
    uint32_t capacity = (uint32_t)_i;
    struct request_queue *queue;
    ck_assert_int_eq(request_queue_new(capacity, &queue), OK);
    for (uintptr_t round = 0; round < 5; round++) {
        ck_assert_ptr_null(request_queue_pop(queue));
        for (uintptr_t n = 0; n < capacity; n++)
            ck_assert(request_queue_try_push(queue, fake(round * 100 + n)));
        for (uintptr_t n = 0; n < capacity; n++)
            ck_assert_ptr_eq(request_queue_pop(queue), fake(round * 100 + n));
    }
    request_queue_free(&queue);
    ck_assert_ptr_null(queue);
}
END_TEST

START_TEST(a_full_queue_says_so_and_keeps_what_it_has)
{
    struct request_queue *queue;
    ck_assert_int_eq(request_queue_new(4, &queue), OK);
    for (uintptr_t n = 0; n < 4; n++)
        ck_assert(request_queue_try_push(queue, fake(n)));
    ck_assert(!request_queue_try_push(queue, fake(9)));
    ck_assert_ptr_eq(request_queue_pop(queue), fake(0));
    ck_assert(request_queue_try_push(queue, fake(4)));
    for (uintptr_t n = 1; n < 5; n++)
        ck_assert_ptr_eq(request_queue_pop(queue), fake(n));
    ck_assert_ptr_null(request_queue_pop(queue));
    request_queue_free(&queue);
}
END_TEST

START_TEST(no_memory_is_told)
{
    struct request_queue *queue = NULL;
    mem_fail_nth(1);
    ck_assert_int_eq(request_queue_new(4, &queue), STATUS_NO_MEMORY);
    ck_assert_ptr_null(queue);
    mem_fail_nth(0);
}
END_TEST

enum { N_PASSED = 200000 };

static void *producer(void *queue)
{
    for (uintptr_t n = 0; n < N_PASSED; n++)
        while (!request_queue_try_push(queue, fake(n)))
            sched_yield();
    return NULL;
}

START_TEST(two_threads_keep_the_order)
{
    struct request_queue *queue;
    pthread_t thread;
    ck_assert_int_eq(request_queue_new(64, &queue), OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, producer, queue), 0);
    for (uintptr_t n = 0; n < N_PASSED;) {
        struct request *got = request_queue_pop(queue);
        if (got == NULL) {
            sched_yield();
            continue;
        }
        if (got != fake(n)) /* an assertion that holds is a write to a pipe */
            ck_abort_msg("%p instead of %p", (void *)got, (void *)fake(n));
        n++;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    request_queue_free(&queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_queue");
    TCase *tcase = tcase_create("request_queue");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, holds_its_capacity_in_order, 1, 20);
    tcase_add_test(tcase, a_full_queue_says_so_and_keeps_what_it_has);
    tcase_add_test(tcase, no_memory_is_told);
    tcase_add_test(tcase, two_threads_keep_the_order);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
