/* Namespace test: the one way through the states, and every other move aborts. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/namespace.h"

#include <signal.h>

#include "tests/support/suite_run.h"

enum { N_STATES = NAMESPACE_FREED + 1 };

static struct namespace in_state(enum namespace_state state)
{
    struct namespace space = {NAMESPACE_OPEN};
    for (int s = NAMESPACE_OPEN; s < (int)state; s++)
        namespace_set_state(&space, (enum namespace_state)(s + 1));
    ck_assert_int_eq(space.state, state);
    return space;
}

START_TEST(each_state_answers)
{
    static const enum status want[N_STATES] = {OK, STATUS_DRAINING, STATUS_FENCED, STATUS_FENCED};
    struct namespace space = in_state((enum namespace_state)_i);
    ck_assert_int_eq(namespace_admits(&space), want[_i]);
}
END_TEST

static const struct {
    enum namespace_state from, to;
} wrong_moves[] = {
    {NAMESPACE_OPEN, NAMESPACE_OPEN},
    {NAMESPACE_OPEN, NAMESPACE_FENCED},
    {NAMESPACE_OPEN, NAMESPACE_FREED},
    {NAMESPACE_DRAINING, NAMESPACE_OPEN},
    {NAMESPACE_DRAINING, NAMESPACE_DRAINING},
    {NAMESPACE_DRAINING, NAMESPACE_FREED},
    {NAMESPACE_FENCED, NAMESPACE_OPEN},
    {NAMESPACE_FENCED, NAMESPACE_DRAINING},
    {NAMESPACE_FENCED, NAMESPACE_FENCED},
    {NAMESPACE_FREED, NAMESPACE_OPEN},
    {NAMESPACE_FREED, NAMESPACE_DRAINING},
    {NAMESPACE_FREED, NAMESPACE_FENCED},
    {NAMESPACE_FREED, NAMESPACE_FREED},
    {NAMESPACE_FREED, (enum namespace_state)(NAMESPACE_FREED + 1)},
};

START_TEST(every_move_but_the_next_aborts)
{
    struct namespace space = in_state(wrong_moves[_i].from);
    namespace_set_state(&space, wrong_moves[_i].to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("namespace");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, each_state_answers, 0, N_STATES);
    tcase_add_loop_test_raise_signal(tcase, every_move_but_the_next_aborts, SIGABRT, 0,
                                     (int)ARRAY_LEN(wrong_moves));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
