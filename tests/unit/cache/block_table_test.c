/* Block table test: pages and runs say the same after every change. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/block_table.h"

#include <signal.h>

#include "tests/support/suite_run.h"

enum { CAPACITY = 12 };

static uint32_t pages[CAPACITY];
static struct page_span spans[CAPACITY];

/* The runs that want[n] makes, built anew. */
static void expect(const struct block_table *table, const uint32_t *want, uint32_t n)
{
    uint32_t n_spans = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool joins = i > 0 && want[i] == want[i - 1] + 1;
        n_spans += !joins;
        ck_assert_uint_eq(table->pages[i], want[i]);
        ck_assert_uint_ge(table->n_spans, n_spans);
        const struct page_span *span = &table->spans[n_spans - 1];
        ck_assert_uint_ge(want[i], span->first_page);
        ck_assert_uint_lt(want[i], span->first_page + span->n_pages);
        if (!joins)
            ck_assert_uint_eq(span->first_page, want[i]);
    }
    ck_assert_uint_eq(table->n_pages, n);
    ck_assert_uint_eq(table->n_spans, n_spans);
    ck_assert_uint_eq(block_table_last(table), n > 0 ? want[n - 1] : NO_PAGE);
    uint32_t covered = 0;
    for (uint32_t i = 0; i < n_spans; i++)
        covered += table->spans[i].n_pages;
    ck_assert_uint_eq(covered, n);
}

START_TEST(pages_make_the_longest_runs)
{
    static const uint32_t want[] = {4, 5, 6, 9, 10, 2, 1, 0, 11};
    struct block_table table;
    block_table_init(&table, pages, spans, CAPACITY);
    expect(&table, want, 0);
    for (uint32_t i = 0; i < ARRAY_LEN(want); i++) {
        block_table_push(&table, want[i]);
        expect(&table, want, i + 1);
    }
    ck_assert_uint_eq(table.n_spans, 6);
    for (uint32_t i = ARRAY_LEN(want); i-- > 0;) {
        ck_assert_uint_eq(block_table_pop(&table), want[i]);
        expect(&table, want, i);
    }
}
END_TEST

START_TEST(an_exchanged_page_splits_and_joins_runs)
{
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t page = 0; page < 20; page++) {
            uint32_t want[] = {3, 4, 5, 6, 12, 13};
            struct block_table table;
            block_table_init(&table, pages, spans, CAPACITY);
            for (uint32_t k = 0; k < 6; k++)
                block_table_push(&table, want[k]);
            want[i] = page;
            block_table_replace(&table, i, page);
            expect(&table, want, 6);
        }
}
END_TEST

START_TEST(more_than_its_capacity_aborts)
{
    struct block_table table;
    block_table_init(&table, pages, spans, 2);
    for (uint32_t i = 0; i < 3; i++)
        block_table_push(&table, i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_table");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, pages_make_the_longest_runs);
    tcase_add_test(tcase, an_exchanged_page_splits_and_joins_runs);
    tcase_add_test_raise_signal(tcase, more_than_its_capacity_aborts, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
