/* doorbell_test.c: no ring is lost, whether it comes before, while or after the waiter falls
 * asleep. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/doorbell.h"

#include "tests/support/suite_run.h"

enum { RINGS = 5000 };
#define LONG_NS 20000000000u

struct ping {
    struct doorbell there, back;
};

static void *answer_rings(void *arg)
{
    struct ping *p = arg;
    for (int i = 0; i < RINGS; i++) {
        doorbell_wait(&p->there, LONG_NS);
        doorbell_ring(&p->back);
    }
    return NULL;
}

START_TEST(every_ring_wakes)
{
    struct ping p;
    pthread_t other;
    ck_assert_int_eq(doorbell_init(&p.there), OK);
    ck_assert_int_eq(doorbell_init(&p.back), OK);
    ck_assert_int_eq(pthread_create(&other, NULL, answer_rings, &p), 0);
    for (int i = 0; i < RINGS; i++) {
        doorbell_ring(&p.there);
        doorbell_wait(&p.back, LONG_NS);
    }
    pthread_join(other, NULL);
    doorbell_release(&p.there);
    doorbell_release(&p.back);
}
END_TEST

START_TEST(a_wait_ends_by_itself)
{
    struct doorbell bell;
    ck_assert_int_eq(doorbell_init(&bell), OK);
    doorbell_wait(&bell, 1000000);
    doorbell_ring(&bell);
    doorbell_ring(&bell);
    doorbell_wait(&bell, LONG_NS);
    doorbell_wait(&bell, 1000000); /* two rings were one */
    doorbell_release(&bell);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("doorbell");
    TCase *tc = tcase_create("doorbell");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, every_ring_wakes);
    tcase_add_test(tc, a_wait_ends_by_itself);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
