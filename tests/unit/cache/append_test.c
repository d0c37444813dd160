/* Append test: nothing is seen before commit, nothing is left after abort, and equal blocks become
 * one. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

#include <signal.h>

#include "cache/cache_check.h"
#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { CONTEXT = 512, N_BLOCKS = 12 };

static struct cache *cache;
static uint32_t ids[CONTEXT], other[CONTEXT];

static void set_up(void)
{
    cache = cache_fixture_new(N_BLOCKS, 4, CONTEXT);
    cache_fixture_ids(ids, CONTEXT, 1000);
    cache_fixture_ids(other, CONTEXT, 5000);
}

static void tear_down(void)
{
    ck_assert_ptr_null(cache_check(cache));
    cache_free(&cache);
}

static uint32_t n_pages(const struct sequence *s)
{
    uint32_t first_page, n_spans, n = 0;
    const struct page_span *spans = sequence_spans(s, 0, &first_page, &n_spans);
    for (uint32_t i = 0; i < n_spans; i++)
        n += spans[i].n_pages;
    return n;
}

/* _i committed tokens, then 150 staged ones that never were. */
START_TEST(abort_leaves_nothing)
{
    uint32_t n = (uint32_t)_i;
    struct sequence *s = cache_fixture_run(cache, ids, n);
    struct cache_books before = cache_books(cache);
    uint32_t tail = cache_fixture_page(s, cache_blocks_for(n) - 1);
    ck_assert_int_eq(append_open(s, 150), OK);
    ck_assert_uint_eq(sequence_length(s), n);
    ck_assert_uint_eq(n_pages(s), cache_blocks_for(n + 150));
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, n + 150),
                      n); /* staged rows are not found */
    ck_assert_ptr_null(cache_check(cache));
    append_abort(s);
    struct cache_books after = cache_books(cache);
    ck_assert_uint_eq(sequence_length(s), n);
    ck_assert_uint_eq(n_pages(s), cache_blocks_for(n));
    ck_assert_uint_eq(cache_fixture_page(s, cache_blocks_for(n) - 1), tail);
    ck_assert_uint_eq(after.blocks_free, before.blocks_free);
    ck_assert_uint_eq(after.blocks_used, before.blocks_used);
    ck_assert_uint_eq(after.committed_tokens, before.committed_tokens);
    sequence_close(&s, true);
}
END_TEST

/* 100 are staged, the first _i are committed, as after a verification. */
START_TEST(a_part_may_be_committed)
{
    uint32_t n = (uint32_t)_i;
    struct sequence *s = cache_fixture_open(cache, ids, 120, NULL);
    ck_assert_int_eq(append_open(s, 100), OK);
    append_commit(s, ids, n);
    ck_assert_uint_eq(sequence_length(s), n);
    ck_assert_uint_eq(n_pages(s), cache_blocks_for(n));
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 120), n);
    cache_fixture_append(s, ids + n, 120 - n);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 121), 120);
    sequence_close(&s, true);
}
END_TEST

START_TEST(pieces_of_any_size_come_to_the_same)
{
    for (uint32_t piece = 1; piece <= 130; piece++) {
        struct sequence *s = cache_fixture_open(cache, ids, 300, NULL);
        for (uint32_t done = sequence_length(s); done < 300;) {
            uint32_t n = 300 - done < piece ? 300 - done : piece;
            cache_fixture_append(s, ids + done, n);
            done += n;
            ck_assert_uint_eq(sequence_length(s), done);
        }
        sequence_close(&s, true);
        ck_assert_ptr_null(cache_check(cache));
        ck_assert_uint_eq(cache_books(cache).blocks_cached, 5);
        if (piece % 2 == 0)
            cache_purge(cache);
    }
}
END_TEST

START_TEST(full_leaves_the_sequence_as_it_was)
{
    struct sequence *a = cache_fixture_run(cache, ids, 6 * 64),
                    *b = cache_fixture_run(cache, other, 5 * 64);
    ck_assert_int_eq(append_open(b, 65), STATUS_CACHE_FULL); /* needs two, one is left */
    ck_assert_uint_eq(sequence_length(b), 5 * 64);
    ck_assert_uint_eq(n_pages(b), 5);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 1);
    ck_assert_ptr_null(cache_check(cache));
    cache_fixture_append(b, other + 5 * 64, 64);
    ck_assert_int_eq(append_open(b, 1), STATUS_CACHE_FULL);
    sequence_close(&a, true); /* cached now: an append takes what it needs, from the leaf */
    cache_fixture_append(b, other + 6 * 64, 64);
    ck_assert_uint_eq(cache_books(cache).evicted_blocks, 1);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 5 * 64 + 1), 5 * 64);
    sequence_close(&b, true);
}
END_TEST

START_TEST(equal_blocks_become_one)
{
    struct sequence *a, *b;
    struct cache_move move;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 200, true, &a, &move), OK);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 200, true, &b, &move), OK);
    ck_assert_int_eq(append_open(a, 200), OK); /* both compute the same prompt side by side */
    ck_assert_int_eq(append_open(b, 200), OK);
    ck_assert_uint_eq(cache_books(cache).blocks_used, 8);
    append_commit(b, ids, 200);
    append_commit(a, ids, 200);
    ck_assert_uint_eq(cache_books(cache).blocks_used, 5);
    ck_assert_uint_eq(cache_books(cache).blocks_shared, 3);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(cache_fixture_page(a, i), cache_fixture_page(b, i));
    ck_assert_uint_ne(cache_fixture_page(a, 3), cache_fixture_page(b, 3)); /* tails stay apart */
    ck_assert_ptr_null(cache_check(cache));
    sequence_close(&b, true);
    cache_fixture_append(a, other, 100);
    sequence_close(&a, true);
}
END_TEST

START_TEST(nothing_is_allocated)
{
    uint64_t before = mem_calls();
    for (uint32_t round = 0; round < 50; round++) {
        cache_fixture_ids(ids, CONTEXT, round % 7);
        struct sequence *s = cache_fixture_run(cache, ids, 100 + round);
        for (uint32_t i = 0; i < 70; i++)
            cache_fixture_append(s, &ids[i], 1);
        sequence_close(&s, round % 5 != 0);
    }
    cache_purge(cache);
    ck_assert_uint_eq(mem_calls(), before);
}
END_TEST

START_TEST(wrong_use_aborts)
{
    struct sequence *s = cache_fixture_run(cache, ids, 10), *t;
    struct cache_move move;
    if (_i == 0)
        append_commit(s, ids, 1); /* not open */
    if (_i == 1)
        append_abort(s);
    enum status status = append_open(s, _i == 2 ? CONTEXT : 5); /* more than the context */
    if (_i == 3)
        status = append_open(s, 5); /* open already */
    if (_i == 4)
        append_commit(s, ids, 6); /* more than staged */
    append_commit(s, ids + 10, 5);
    status = sequence_open(cache, NULL, 0, ids, 20, true, &t, &move);
    status = append_open(t, 5);
    if (_i == 5)
        append_commit(t, ids + 15, 5); /* the copied head is not in place */
    (void)status;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("append");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, abort_leaves_nothing, 1, 131);
    tcase_add_loop_test(tcase, a_part_may_be_committed, 0, 101);
    tcase_add_test(tcase, pieces_of_any_size_come_to_the_same);
    tcase_add_test(tcase, full_leaves_the_sequence_as_it_was);
    tcase_add_test(tcase, equal_blocks_become_one);
    tcase_add_test(tcase, nothing_is_allocated);
    TCase *wrong = tcase_create("wrong use");
    tcase_add_checked_fixture(wrong, set_up, NULL);
    tcase_add_loop_test_raise_signal(wrong, wrong_use_aborts, SIGABRT, 0, 6);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, wrong);
    return suite_run(suite);
}
