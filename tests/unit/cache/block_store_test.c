/* Block store test: who holds a block, what is evicted, in what order. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/block_store.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { N = 8 };

static struct block_store store;

static void set_up(void)
{
    ck_assert_int_eq(block_store_init(&store, N, NULL), OK);
}

static void tear_down(void)
{
    ck_assert_ptr_null(block_store_check(&store));
    block_store_release(&store);
}

/* Takes a block and enters it under parent (NO_PAGE: a root); one holder. */
static uint32_t make(uint32_t parent, uint32_t id)
{
    static const uint8_t root_key[SHA256_BYTES];
    uint32_t page = block_store_take(&store, NO_PAGE);
    struct block *block = &store.blocks[page];
    block->n_tokens = CACHE_PAGE_TOKENS;
    memset(block->ids, 0, sizeof block->ids);
    block->ids[0] = id;
    memset(block->key, (int)page + 1, SHA256_BYTES);
    prefix_index_insert(&store.index, page, parent == NO_PAGE ? root_key : store.blocks[parent].key,
                        parent);
    return page;
}

START_TEST(an_indexed_block_is_cached_another_is_free)
{
    uint32_t kept = make(NO_PAGE, 1), lost = block_store_take(&store, kept);
    ck_assert_uint_eq(store.n_used, 2);
    block_store_unref(&store, kept);
    block_store_unref(&store, lost);
    ck_assert_uint_eq(store.n_used, 0);
    ck_assert_uint_eq(store.n_cached, 1);
    ck_assert(store.blocks[kept].is_cached);
    ck_assert(page_pool_is_free(store.pages, lost));
}
END_TEST

START_TEST(shared_counts_more_than_one_holder)
{
    uint32_t page = make(NO_PAGE, 1);
    block_store_ref(&store, page);
    ck_assert_uint_eq(store.n_shared, 1);
    block_store_ref(&store, page);
    ck_assert_uint_eq(store.n_shared, 1);
    block_store_unref(&store, page);
    block_store_unref(&store, page);
    ck_assert_uint_eq(store.n_shared, 0);
    ck_assert_ptr_null(block_store_check(&store));
    block_store_unref(&store, page);
}
END_TEST

START_TEST(a_pin_keeps_a_block_that_nobody_else_holds)
{
    uint32_t page = make(NO_PAGE, 1);
    block_store_pin(&store, page);
    block_store_unref(&store, page);
    ck_assert_uint_eq(store.n_used, 1);
    ck_assert(!block_store_reserve(&store, N));
    block_store_forget(&store,
                       page); /* dropped while a copy reads it: stays until the copy is done */
    ck_assert(!page_pool_is_free(store.pages, page));
    block_store_unpin(&store, page);
    ck_assert(page_pool_is_free(store.pages, page));
}
END_TEST

START_TEST(the_least_recently_used_goes_first)
{
    uint32_t a = make(NO_PAGE, 1), b = make(NO_PAGE, 2), c = make(NO_PAGE, 3);
    block_store_unref(&store, b);
    block_store_unref(&store, a);
    block_store_unref(&store, c);
    block_store_ref(&store, b); /* used again: the youngest now */
    block_store_unref(&store, b);
    uint32_t order[] = {a, c, b};
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(store.oldest, order[i]);
        ck_assert(block_store_reserve(&store, page_pool_free_pages(store.pages) + 1));
        ck_assert(page_pool_is_free(store.pages, order[i]));
    }
    ck_assert_uint_eq(store.n_evicted, 3);
}
END_TEST

START_TEST(a_chain_goes_from_its_leaf)
{
    uint32_t chain[4];
    for (uint32_t i = 0; i < 4; i++)
        chain[i] = make(i == 0 ? NO_PAGE : chain[i - 1], 1);
    for (uint32_t i = 4; i-- > 0;)
        block_store_unref(&store, chain[i]);
    for (uint32_t i = 4; i-- > 0;) {
        ck_assert(block_store_reserve(&store, page_pool_free_pages(store.pages) + 1));
        ck_assert(page_pool_is_free(store.pages, chain[i]));
        ck_assert_ptr_null(block_store_check(&store));
    }
}
END_TEST

START_TEST(more_than_there_is_evicts_nothing)
{
    uint32_t cached = make(NO_PAGE, 1), used = make(NO_PAGE, 2);
    block_store_unref(&store, cached);
    ck_assert(!block_store_reserve(&store, N));
    ck_assert_uint_eq(store.n_cached, 1);
    ck_assert_uint_eq(store.n_evicted, 0);
    ck_assert(block_store_reserve(&store, N - 1));
    ck_assert_uint_eq(store.n_cached, 0);
    block_store_unref(&store, used);
}
END_TEST

START_TEST(a_large_pool_evicts_an_extent_at_a_time)
{
    block_store_release(&store);
    ck_assert_int_eq(block_store_init(&store, 320, NULL), OK);
    for (uint32_t i = 0; i < 320; i++)
        block_store_unref(&store, make(NO_PAGE, i));
    ck_assert(block_store_reserve(&store, 1));
    ck_assert_uint_eq(page_pool_free_pages(store.pages), PAGE_EXTENT);
    ck_assert_uint_eq(store.n_evicted, PAGE_EXTENT);
    ck_assert(block_store_reserve(&store, 100));
    ck_assert_uint_eq(page_pool_free_pages(store.pages), 100);
}
END_TEST

START_TEST(a_tree_is_forgotten_whole)
{
    uint32_t top = make(NO_PAGE, 1), a = make(top, 2), b = make(top, 3), c = make(a, 4),
             d = make(a, 5), other = make(NO_PAGE, 6);
    uint32_t below[] = {c, d, a, b};
    for (uint32_t i = 0; i < 4; i++)
        block_store_unref(&store, below[i]);
    block_store_forget_tree(&store, top);
    ck_assert_uint_eq(store.n_cached, 0);
    ck_assert_uint_eq(store.index.n_entries, 1);
    ck_assert(store.blocks[other].is_indexed);
    block_store_unref(&store, top);
    ck_assert_uint_eq(page_pool_free_pages(store.pages), N - 1);
    block_store_unref(&store, other);
    block_store_purge(&store);
    ck_assert_uint_eq(page_pool_free_pages(store.pages), N);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    block_store_release(&store);
    for (uint64_t nth = 1;; nth++) {
        mem_fail_nth(nth);
        enum status status = block_store_init(&store, N, NULL);
        if (!mem_failure_struck())
            break;
        ck_assert_int_eq(status, STATUS_NO_MEMORY);
        block_store_release(&store);
    }
    mem_fail_nth(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_store");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_indexed_block_is_cached_another_is_free);
    tcase_add_test(tcase, shared_counts_more_than_one_holder);
    tcase_add_test(tcase, a_pin_keeps_a_block_that_nobody_else_holds);
    tcase_add_test(tcase, the_least_recently_used_goes_first);
    tcase_add_test(tcase, a_chain_goes_from_its_leaf);
    tcase_add_test(tcase, more_than_there_is_evicts_nothing);
    tcase_add_test(tcase, a_large_pool_evicts_an_extent_at_a_time);
    tcase_add_test(tcase, a_tree_is_forgotten_whole);
    tcase_add_test(tcase, every_allocation_fails_once);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
