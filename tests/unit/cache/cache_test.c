/* Cache test: sizes and failures of making one, purge, and poison under the address sanitizer. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

#include <signal.h>

#include "cache/cache_check.h"
#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct cache_shape small_shape(void)
{
    return (struct cache_shape){.n_groups = 1,
                                .groups = {{3, 2, 128, 0}},
                                .pool_bytes = 10 * 3 * 2 * 128,
                                .context_max = 200,
                                .sequences_max = 3};
}

START_TEST(the_pool_is_rounded_down_to_whole_blocks)
{
    struct cache_shape shape = small_shape();
    struct cache *cache;
    shape.pool_bytes += (size_t)_i;
    ck_assert_int_eq(cache_new(&shape, &cache, NULL), OK);
    ck_assert_uint_eq(cache_blocks_total(cache, 0), _i < 3 * 2 * 128 ? 10 : 11);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), cache_blocks_total(cache, 0));
    struct cache_memory memory = cache_memory(cache, 0);
    ck_assert_uint_eq(memory.page_bytes, 128);
    cache_touch(cache, 0, 0, cache_blocks_total(cache, 0), 0, 2);
    cache_touch(cache, 0, 0, cache_blocks_total(cache, 0), 1, 2);
    ck_assert_ptr_null(cache_check(cache));
    cache_free(&cache);
    ck_assert_ptr_null(cache);
    ck_assert_uint_eq(mem_mapped_bytes(), 0);
}
END_TEST

static const struct {
    size_t page_bytes, pool_bytes;
    uint32_t n_heads;
    enum status status;
} refusals[] = {
    {128, 3 * 2 * 128 - 1, 2, STATUS_CACHE_TOO_SMALL},
    {128, 0, 2, STATUS_CACHE_TOO_SMALL},
    {SIZE_MAX - 63, 1 << 20, 2, STATUS_CACHE_TOO_SMALL}, /* a block's size overflows */
    {1 << 30, SIZE_MAX / 2, UINT32_MAX, STATUS_CACHE_TOO_SMALL},
    {64, SIZE_MAX, 1, STATUS_BAD_OPTION}, /* more blocks than can be numbered */
};

START_TEST(sizes_that_are_refused)
{
    struct cache_shape shape = small_shape();
    struct cache *cache;
    struct why why = {0};
    shape.groups[0].page_bytes = refusals[_i].page_bytes;
    shape.pool_bytes = refusals[_i].pool_bytes;
    shape.groups[0].n_heads = refusals[_i].n_heads;
    ck_assert_int_eq(cache_new(&shape, &cache, &why), refusals[_i].status);
    ck_assert_ptr_null(cache);
    ck_assert_str_eq(why.field, "cache.bytes");
    ck_assert_uint_gt(strlen(why.text), 10);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct cache_shape shape = small_shape();
    struct cache *cache;
    uint64_t nth = 1;
    for (;; nth++) {
        mem_fail_nth(nth);
        enum status status = cache_new(&shape, &cache, NULL);
        if (!mem_failure_struck())
            break;
        ck_assert_int_eq(status, STATUS_NO_MEMORY);
        ck_assert_ptr_null(cache);
        ck_assert_uint_eq(mem_mapped_bytes(), 0);
    }
    mem_fail_nth(0);
    ck_assert_uint_ge(nth, 10);
    ck_assert_ptr_null(cache_check(cache));
    cache_free(&cache);
}
END_TEST

START_TEST(purge_forgets_what_nobody_holds)
{
    uint32_t ids[200];
    cache_fixture_ids(ids, 200, 1);
    struct cache *cache = cache_fixture_new(10, 3, 200);
    struct sequence *held = cache_fixture_run(cache, ids, 100),
                    *gone = cache_fixture_run(cache, ids, 200);
    sequence_close(&gone, true);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 3);
    cache_purge(cache);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 0);
    ck_assert_uint_eq(cache_books(cache).evicted_blocks, 0);
    ck_assert_ptr_null(cache_check(cache));
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 200), 100);
    sequence_close(&held, true);
    cache_free(&cache);
}
END_TEST

START_TEST(a_quota_is_for_used_and_cached_blocks_together)
{
    uint32_t ids[2][200];
    cache_fixture_ids(ids[0], 200, 1);
    cache_fixture_ids(ids[1], 200, 1000);
    struct cache *cache = cache_fixture_new(10, 3, 600);
    cache_set_quota(cache, 5);
    ck_assert_uint_eq(cache_blocks_total(cache, 0), 10);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 5);
    ck_assert_uint_eq(cache_tokens_max(cache), 5 * CACHE_PAGE_TOKENS);
    struct sequence *first = cache_fixture_run(cache, ids[0], 200);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 1);
    ck_assert_ptr_null(cache_check(cache));
    sequence_close(&first, true);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 5);
    struct sequence *second = cache_fixture_run(cache, ids[1], 200); /* free pages are there, and not its to take */
    ck_assert_uint_gt(cache_books(cache).evicted_blocks, 0);
    ck_assert_uint_le(cache_books(cache).blocks_used + cache_books(cache).blocks_cached, 5);
    ck_assert_ptr_null(cache_check(cache));
    cache_set_quota(cache, UINT32_MAX); /* more may come while sequences are open */
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 6);
    ck_assert_uint_eq(cache_tokens_max(cache), 600);
    ck_assert_ptr_null(cache_check(cache));
    sequence_close(&second, true);
    cache_free(&cache);
}
END_TEST

START_TEST(an_open_sequence_cannot_be_freed)
{
    uint32_t id = 3;
    struct cache *cache = cache_fixture_new(10, 3, 200);
    struct sequence *s = cache_fixture_run(cache, &id, 1);
    ck_assert_ptr_nonnull(s);
    cache_set_namespace_state(cache, NAMESPACE_DRAINING);
    cache_set_namespace_state(cache, NAMESPACE_FENCED);
    cache_set_namespace_state(cache, NAMESPACE_FREED);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
START_TEST(a_free_page_must_not_be_written)
{
    uint32_t ids[200];
    cache_fixture_ids(ids, 200, 1);
    struct cache *cache = cache_fixture_new(10, 3, 200);
    struct sequence *s = cache_fixture_run(cache, ids, 200);
    struct cache_memory memory = cache_memory(cache, 0);
    volatile char *row = memory.base + cache_fixture_page(s, 1) * memory.page_bytes;
    *row = 1;
    sequence_close(&s, true);
    *row = 2; /* cached: a copy may still read it */
    cache_purge(cache);
    *row = 3; /* the sanitizer ends the process here */
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, the_pool_is_rounded_down_to_whole_blocks, 3 * 2 * 128 - 2,
                        3 * 2 * 128 + 2);
    tcase_add_loop_test(tcase, sizes_that_are_refused, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(tcase, every_allocation_fails_once);
    tcase_add_test(tcase, purge_forgets_what_nobody_holds);
    tcase_add_test(tcase, a_quota_is_for_used_and_cached_blocks_together);
    tcase_add_test_raise_signal(tcase, an_open_sequence_cannot_be_freed, SIGABRT);
#if defined(__SANITIZE_ADDRESS__)
    tcase_add_exit_test(tcase, a_free_page_must_not_be_written, 1);
#endif
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
