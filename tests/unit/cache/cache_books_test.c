/* Cache books test: every sum after a known story, and bytes that add up. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

START_TEST(a_story_in_numbers)
{
    uint32_t ids[512];
    cache_fixture_ids(ids, 512, 1);
    struct cache *cache = cache_fixture_new(8, 4, 512);
    struct sequence *a = cache_fixture_run(cache, ids, 150),
                    *b = cache_fixture_run(cache, ids, 150);
    struct cache_books books = cache_books(cache);
    ck_assert_uint_eq(books.blocks_free, 4); /* 3 blocks of a, a copied tail of b */
    ck_assert_uint_eq(books.blocks_used, 4);
    ck_assert_uint_eq(books.blocks_cached, 0);
    ck_assert_uint_eq(books.blocks_shared, 2);
    ck_assert_uint_eq(books.sequences, 2);
    ck_assert_uint_eq(books.lookup_tokens, 300);
    ck_assert_uint_eq(books.hit_tokens, 149);
    ck_assert_uint_eq(books.copied_tokens, 21);
    ck_assert_uint_eq(books.committed_tokens, 151);
    sequence_close(&a, true); /* b's tail says the same as a's */
    books = cache_books(cache);
    ck_assert_uint_eq(books.blocks_used, 3);
    ck_assert_uint_eq(books.blocks_cached, 0);
    ck_assert_uint_eq(books.blocks_shared, 0);
    sequence_close(&b, true);
    books = cache_books(cache);
    ck_assert_uint_eq(books.blocks_cached, 3);
    ck_assert_uint_eq(books.sequences, 0);
    cache_fixture_ids(ids, 512, 900);
    a = cache_fixture_run(cache, ids, 7 * 64);
    books = cache_books(cache);
    ck_assert_uint_eq(books.evicted_blocks, 2);
    ck_assert_uint_eq(books.blocks_used, 7);
    ck_assert_uint_eq(books.blocks_cached, 1);
    ck_assert_uint_eq(books.blocks_free, 0);
    sequence_close(&a, true);
    cache_free(&cache);
}
END_TEST

START_TEST(expected_and_resident_differ_by_the_rounding)
{
    struct cache_shape shape = {.n_groups = 1,
                                .groups = {{30, 3, 16384, 0}},
                                .pool_bytes = (size_t)20 << 20,
                                .context_max = 512,
                                .sequences_max = 2};
    struct cache *cache;
    ck_assert_int_eq(cache_new(&shape, &cache, NULL), OK);
    struct cache_books books = cache_books(cache);
    ck_assert_uint_eq(books.expected_bytes, (uint64_t)cache_blocks_total(cache, 0) * 16384 * 3 * 30);
    ck_assert_uint_le(books.expected_bytes, shape.pool_bytes);
    ck_assert_uint_gt(books.expected_bytes + 16384 * 3 * 30, shape.pool_bytes);
    ck_assert_uint_eq(books.resident_bytes, mem_mapped_bytes());
    ck_assert_uint_eq(books.expected_bytes + books.rounding_bytes, books.resident_bytes);
    cache_free(&cache);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_books");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_story_in_numbers);
    tcase_add_test(tcase, expected_and_resident_differ_by_the_rounding);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
