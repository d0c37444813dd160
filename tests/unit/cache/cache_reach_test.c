/* cache_reach_test.c: each way to lose a page is counted, page by page, and a sound cache loses none. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_reach.h"

#include "cache/cache_state.h"
#include "config/mem.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/suite_run.h"

static struct cache *cache;
static struct sequence *running; /* three blocks */
static uint32_t cached;          /* a page that only the index finds */
static void *scratch;

static void set_up(void)
{
    uint32_t ids[256];
    cache = cache_fixture_new(130, 4, 256);
    cache_fixture_ids(ids, 256, 1);
    running = cache_fixture_run(cache, ids, 150);
    cache_fixture_ids(ids, 256, 5000);
    struct sequence *gone = cache_fixture_run(cache, ids, 128);
    cached = cache_fixture_page(gone, 1);
    sequence_close(&gone, true);
    scratch = mem_alloc(cache_reach_scratch_bytes(cache));
    ck_assert_ptr_nonnull(scratch);
    memset(scratch, 0xff, cache_reach_scratch_bytes(cache));
}

static void tear_down(void)
{
    mem_free(scratch);
    cache_free(&cache);
}

START_TEST(a_sound_cache_loses_none)
{
    uint64_t calls = mem_calls();
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 0);
    ck_assert_uint_eq(mem_calls(), calls);
    sequence_close(&running, true);
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 0);
    cache_purge(cache);
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 0);
}
END_TEST

START_TEST(taken_pages_that_nobody_holds_are_counted)
{
    for (uint32_t n = 1; n <= 3; n++) {
        ck_assert_uint_ne(block_store_take(&cache->groups[0].store, NO_PAGE), NO_PAGE);
        ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), n);
    }
}
END_TEST

START_TEST(a_page_that_falls_out_of_its_table_is_counted)
{
    struct block_table *table = &running->groups[0].table;
    prefix_index_remove(&cache->groups[0].store.index, table->pages[2]);
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 0);
    table->n_pages--;
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 1);
    table->n_pages++;
}
END_TEST

START_TEST(a_cached_page_that_the_index_lost_is_counted)
{
    prefix_index_remove(&cache->groups[0].store.index, cached);
    ck_assert_uint_eq(cache_unreachable_blocks(cache, scratch), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_reach");
    TCase *tc = tcase_create("reach");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_sound_cache_loses_none);
    tcase_add_test(tc, taken_pages_that_nobody_holds_are_counted);
    tcase_add_test(tc, a_page_that_falls_out_of_its_table_is_counted);
    tcase_add_test(tc, a_cached_page_that_the_index_lost_is_counted);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
