/* token_ids_test.c: growth, the limit, and what is left when memory runs out. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/token_ids.h"
#include "tests/support/suite_run.h"

START_TEST(counts_past_its_limit)
{
    struct token_ids ids;
    token_ids_init(&ids, 1000);
    for (uint32_t i = 0; i < 5000; i++)
        ck_assert_int_eq(token_ids_add(&ids, i * 3), OK);
    ck_assert_uint_eq(ids.count, 5000);
    ck_assert_uint_eq(ids.room, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(ids.ids[i], i * 3);
    token_ids_release(&ids);
    ck_assert_uint_eq(ids.count, 0);
}
END_TEST

START_TEST(no_memory_leaves_it_as_it_was)
{
    struct token_ids ids;
    token_ids_init(&ids, 1000);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert_int_eq(token_ids_add(&ids, i), OK);
    mem_fail_nth(1);
    ck_assert_int_eq(token_ids_add(&ids, 64), STATUS_NO_MEMORY);
    mem_fail_nth(0);
    ck_assert_uint_eq(ids.count, 64);
    ck_assert_uint_eq(ids.ids[63], 63);
    ck_assert_int_eq(token_ids_add(&ids, 64), OK);
    token_ids_release(&ids);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("token_ids");
    TCase *tcase = tcase_create("token_ids");
    tcase_add_test(tcase, counts_past_its_limit);
    tcase_add_test(tcase, no_memory_leaves_it_as_it_was);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
