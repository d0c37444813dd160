/* stats_board_test.c: a reader never sees half of a publication, however fast the writer is. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/stats_board.h"

#include <pthread.h>

#include "tests/support/suite_run.h"

enum { ROUNDS = 20000 };

static struct stats_board board;

static void *publish_rounds(void *arg)
{
    (void)arg;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct engine_stats stats = {
            .requests_admitted = i, .requests_finished = i, .weight_bytes = i};
        stats_board_publish(&board, &stats);
    }
    return NULL;
}

START_TEST(copies_belong_to_one_moment)
{
    pthread_t writer;
    ck_assert_int_eq(pthread_create(&writer, NULL, publish_rounds, NULL), 0);
    struct engine_stats stats = {0};
    for (uint64_t last = 0; last < ROUNDS; last = stats.requests_admitted) {
        stats_board_read(&board, &stats);
        ck_assert_uint_eq(stats.requests_admitted, stats.requests_finished);
        ck_assert_uint_eq(stats.requests_admitted, stats.weight_bytes);
        ck_assert_uint_ge(stats.requests_admitted, last);
    }
    pthread_join(writer, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats_board");
    TCase *tc = tcase_create("stats_board");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, copies_belong_to_one_moment);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
