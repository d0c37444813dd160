/* Page pool test: runs, extents, coalescing, and a random walk against a plain array. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/page_pool.h"

#include <signal.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { N = 100 };

static struct page_pool *make(uint32_t n)
{
    struct page_pool *pool;
    ck_assert_int_eq(page_pool_new(n, &pool), OK);
    ck_assert_ptr_null(page_pool_check(pool));
    return pool;
}

START_TEST(a_sequence_gets_consecutive_pages)
{
    struct page_pool *pool = make(N);
    uint32_t page = page_pool_take(pool, NO_PAGE);
    for (uint32_t i = 1; i < N; i++) {
        uint32_t next = page_pool_take(pool, page);
        ck_assert_uint_eq(next, page + 1);
        page = next;
    }
    ck_assert_uint_eq(page_pool_free_pages(pool), 0);
    ck_assert_uint_eq(page_pool_take(pool, page), NO_PAGE);
    ck_assert_uint_eq(page_pool_take(pool, NO_PAGE), NO_PAGE);
    page_pool_free(&pool);
    ck_assert_ptr_null(pool);
}
END_TEST

START_TEST(new_sequences_start_an_extent_apart)
{
    struct page_pool *pool = make(64);
    uint32_t starts[4], last[4];
    for (uint32_t i = 0; i < 4; i++) {
        starts[i] = last[i] = page_pool_take(pool, NO_PAGE);
        ck_assert_uint_eq(starts[i] % PAGE_EXTENT, 0);
    }
    for (uint32_t k = 1; k < PAGE_EXTENT; k++) /* all four grow side by side, each in one run */
        for (uint32_t i = 0; i < 4; i++) {
            last[i] = page_pool_take(pool, last[i]);
            ck_assert_uint_eq(last[i], starts[i] + k);
        }
    ck_assert_ptr_null(page_pool_check(pool));
    page_pool_free(&pool);
}
END_TEST

START_TEST(extents_are_split_when_memory_is_tight)
{
    struct page_pool *pool = make(32);
    bool is_taken[32] = {false};
    for (uint32_t i = 0; i < 32; i++) { /* more starts than extents */
        uint32_t page = page_pool_take(pool, NO_PAGE);
        ck_assert_uint_lt(page, 32);
        ck_assert(!is_taken[page]);
        is_taken[page] = true;
        ck_assert_ptr_null(page_pool_check(pool));
    }
    ck_assert_uint_eq(page_pool_free_pages(pool), 0);
    page_pool_free(&pool);
}
END_TEST

START_TEST(freed_pages_join_their_neighbours)
{
    struct page_pool *pool = make(48);
    uint32_t page = NO_PAGE;
    for (uint32_t i = 0; i < 48; i++)
        page = page_pool_take(pool, page);
    for (uint32_t i = 1; i < 48; i += 2)
        page_pool_give(pool, i);
    ck_assert_ptr_null(page_pool_check(pool));
    for (uint32_t i = 0; i < 48; i += 2)
        page_pool_give(pool, i);
    ck_assert_ptr_null(page_pool_check(pool));
    page = page_pool_take(pool, NO_PAGE); /* one run again: 48 pages in a row are to be had */
    ck_assert_uint_eq(page, 0);
    for (uint32_t i = 1; i < 48; i++)
        ck_assert_uint_eq(page_pool_take(pool, i - 1), i);
    page_pool_free(&pool);
}
END_TEST

START_TEST(random_walk_agrees_with_an_array)
{
    uint32_t n = (uint32_t[]){1, 2, 17, N}[_i], state = 12345, n_taken = 0, taken[N];
    struct page_pool *pool = make(n);
    for (uint32_t step = 0; step < 5000; step++) {
        state = state * 1664525 + 1013904223;
        uint32_t draw = state >> 8;
        if (draw % 2 == 0) {
            uint32_t after = n_taken > 0 && draw % 3 == 0 ? taken[draw % n_taken] : NO_PAGE;
            bool is_next_free =
                after != NO_PAGE && after + 1 < n && page_pool_is_free(pool, after + 1);
            uint32_t page = page_pool_take(pool, after);
            ck_assert_int_eq(page == NO_PAGE, n_taken == n);
            if (is_next_free)
                ck_assert_uint_eq(page, after + 1);
            for (uint32_t i = 0; i < n_taken; i++)
                ck_assert_uint_ne(page, taken[i]);
            if (page != NO_PAGE)
                taken[n_taken++] = page;
        } else if (n_taken > 0) {
            uint32_t i = draw / 2 % n_taken;
            page_pool_give(pool, taken[i]);
            taken[i] = taken[--n_taken];
        }
        ck_assert_uint_eq(page_pool_free_pages(pool), n - n_taken);
        ck_assert_ptr_null(page_pool_check(pool));
    }
    page_pool_free(&pool);
}
END_TEST

START_TEST(giving_a_free_page_aborts)
{
    struct page_pool *pool = make(4);
    page_pool_give(pool, 2);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct page_pool *pool;
    uint64_t nth = 1;
    for (;; nth++) {
        mem_fail_nth(nth);
        enum status status = page_pool_new(N, &pool);
        if (!mem_failure_struck())
            break;
        ck_assert_int_eq(status, STATUS_NO_MEMORY);
        ck_assert_ptr_null(pool);
    }
    mem_fail_nth(0);
    ck_assert_uint_ge(nth, 5);
    page_pool_free(&pool);
    page_pool_free(&pool); /* NULL is fine */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page_pool");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_sequence_gets_consecutive_pages);
    tcase_add_test(tcase, new_sequences_start_an_extent_apart);
    tcase_add_test(tcase, extents_are_split_when_memory_is_tight);
    tcase_add_test(tcase, freed_pages_join_their_neighbours);
    tcase_add_loop_test(tcase, random_walk_agrees_with_an_array, 0, 4);
    tcase_add_test_raise_signal(tcase, giving_a_free_page_aborts, SIGABRT);
    tcase_add_test(tcase, every_allocation_fails_once);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
