/* Window test: what a group with a window holds, gives back and finds again, beside one without. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include "cache/cache_check.h"
#include "cache/cache_state.h"
#include "config/mem.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/suite_run.h"

enum { CONTEXT = 2048, CHUNK = 128 };

static struct cache *cache;
static uint32_t ids[CONTEXT];

static void set_up(void)
{
    cache_fixture_ids(ids, CONTEXT, 1);
}

static void tear_down(void)
{
    ck_assert_ptr_null(cache_check(cache));
    cache_free(&cache);
}

static void make(uint32_t first_window, uint32_t second_window, uint32_t n_blocks)
{
    const uint32_t windows[] = {first_window, second_window};
    cache = cache_fixture_windows(windows, 2, n_blocks, 4, CONTEXT, CHUNK);
}

/* Appends ids up to n in chunks. */
static void grow(struct sequence *s, uint32_t n)
{
    for (uint32_t at = sequence_length(s); at < n; at = sequence_length(s))
        cache_fixture_append(s, ids + at, n - at < CHUNK ? n - at : CHUNK);
}

/* floor(p / 64) - floor(max(0, p - W + 1) / 64) + 1 */
static uint32_t pinned(uint32_t window, uint32_t p)
{
    uint32_t lowest = p + 1 > window ? p + 1 - window : 0;
    return p / 64 - lowest / 64 + 1;
}

static const uint32_t windows[] = {1, 2, 63, 64, 65, 128, 500, 512, 1000};

START_TEST(a_row_pins_what_it_sees)
{
    uint32_t window = windows[_i];
    make(0, window, 40);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    for (uint32_t p = 0; p < 1500; p++) {
        ck_assert_int_eq(append_open(s, 1), OK);
        struct cache_group_books books = cache_group_books(cache, 1);
        ck_assert_uint_eq(books.blocks_used, pinned(window, p));
        append_commit(s, ids + p, 1);
        books = cache_group_books(cache, 1);
        ck_assert_uint_eq(books.blocks_used, pinned(window, p));
        ck_assert_uint_eq(books.blocks_used + books.blocks_cached + books.evicted_blocks,
                          p / 64 + 1);
        ck_assert_uint_eq(cache_group_books(cache, 0).blocks_used, p / 64 + 1);
    }
    sequence_close(&s, true);
}
END_TEST

START_TEST(a_chunk_has_what_its_first_row_sees)
{
    make(0, 100, 40);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, 640);
    ck_assert_int_eq(append_open(s, CHUNK), OK);
    uint32_t first_page, n_spans;
    (void)sequence_spans(s, 1, &first_page, &n_spans);
    ck_assert_uint_eq(first_page, (640 - 100 + 1) / 64);
    ck_assert_uint_eq(cache_fixture_group_page(s, 1, first_page - 1), NO_PAGE);
    ck_assert_uint_ne(cache_fixture_group_page(s, 1, (640 + CHUNK - 1) / 64), NO_PAGE);
    ck_assert_uint_eq(cache_group_books(cache, 1).blocks_used, 12 - first_page);
    append_abort(s);
    sequence_close(&s, true);
}
END_TEST

/* The reader of a shared prefix has moved on; another finds all of it. */
START_TEST(a_prefix_outlives_its_first_reader)
{
    make(0, 128, 40);
    struct sequence *first = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(first, 1000);
    uint32_t other[CONTEXT];
    memcpy(other, ids, sizeof ids);
    other[300] = 9999;
    struct cache_move move;
    struct sequence *second = cache_fixture_open(cache, other, 600, &move);
    ck_assert_uint_eq(sequence_reused(second), 300);
    ck_assert_uint_eq(move.n_tokens, 300 - 256);
    uint32_t first_page, n_spans;
    (void)sequence_spans(second, 1, &first_page, &n_spans);
    ck_assert_uint_eq(first_page, (300 - 128 + 1) / 64);
    sequence_close(&second, true);
    sequence_close(&first, true);
}
END_TEST

/* Blocks in front of the window are gone: a long hit is found where a shorter one is not. */
START_TEST(a_hit_needs_the_window_alone)
{
    const uint32_t window[] = {0, 128};
    cache = cache_fixture_windows(window, 2, 17, 1, CONTEXT, CHUNK);
    uint32_t n_windowed = cache_blocks_total(cache, 1);
    ck_assert_uint_lt(n_windowed, 12);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, 1000);
    sequence_close(&s, true);
    ck_assert_uint_eq(cache_group_books(cache, 1).evicted_blocks, 16 - n_windowed);
    ck_assert_uint_eq(cache_group_books(cache, 0).evicted_blocks, 0);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 1000), 999);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 961), 960);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 100), 0);
}
END_TEST

/* The same tokens in two groups have two keys. */
START_TEST(keys_carry_the_group)
{
    make(0, 0, 10);
    struct sequence *s = cache_fixture_run(cache, ids, 100);
    const struct sequence_group *parts = s->groups;
    ck_assert_mem_ne(parts[0].root_key, parts[1].root_key, SHA256_BYTES);
    ck_assert_mem_ne(parts[0].tip_key, parts[1].tip_key, SHA256_BYTES);
    sequence_close(&s, true);
}
END_TEST

START_TEST(a_dropped_sequence_leaves_nothing_behind_its_window)
{
    make(64, 0, 40);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, 1000);
    ck_assert_uint_gt(cache_group_books(cache, 0).blocks_cached, 10);
    sequence_close(&s, false);
    for (uint32_t g = 0; g < 2; g++)
        ck_assert_uint_eq(cache_group_books(cache, g).blocks_free, cache_blocks_total(cache, g));
}
END_TEST

/* What another reads of a dropped sequence's blocks stays. */
START_TEST(a_drop_leaves_what_others_hold)
{
    make(0, 64, 40);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, 640);
    struct sequence *reader = cache_fixture_open(cache, ids, 321, NULL);
    ck_assert_uint_eq(sequence_reused(reader), 320);
    sequence_close(&s, false);
    ck_assert_uint_eq(cache_group_books(cache, 0).blocks_used, 5);
    ck_assert_uint_eq(cache_group_books(cache, 1).blocks_used, 1);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 0);
    sequence_close(&reader, true);
}
END_TEST

/* Two blocks, a window of 65: the third block takes the place of the first. */
START_TEST(an_append_may_have_the_page_behind_its_own_window)
{
    const uint32_t window = 65;
    cache = cache_fixture_windows(&window, 1, 2, 1, CONTEXT, CHUNK);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, 128);
    uint32_t first = cache_fixture_page(s, 0);
    ck_assert_uint_ne(first, NO_PAGE);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 0);
    cache_fixture_append(s, ids + 128, 1);
    ck_assert_uint_eq(cache_fixture_page(s, 2), first);
    sequence_close(&s, true);
}
END_TEST

/* The page behind the window is being copied for another: it cannot be had yet. */
START_TEST(a_page_that_is_copied_is_no_room)
{
    const uint32_t window = 65;
    cache = cache_fixture_windows(&window, 1, 3, 2, CONTEXT, CHUNK);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL), *copies;
    grow(s, 128);
    struct cache_move move;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 33, true, &copies, &move), OK);
    ck_assert_uint_eq(move.from_page[0], cache_fixture_page(s, 0));
    ck_assert_int_eq(append_open(s, 1), STATUS_CACHE_FULL);
    ck_assert_uint_eq(cache_fixture_page(s, 0), move.from_page[0]);
    sequence_moved(copies);
    ck_assert_int_eq(append_open(s, 1), OK);
    sequence_close(&s, true);
    sequence_close(&copies, true);
}
END_TEST

START_TEST(a_full_group_refuses_for_all)
{
    make(0, 64, 4);
    uint32_t whole = cache_blocks_total(cache, 0);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    grow(s, whole * 64);
    struct cache_group_books before = cache_group_books(cache, 1);
    ck_assert_uint_gt(before.blocks_free + before.blocks_cached, 0);
    ck_assert_int_eq(append_open(s, 1), STATUS_CACHE_FULL);
    struct cache_group_books after = cache_group_books(cache, 1);
    ck_assert_uint_eq(before.blocks_used, after.blocks_used);
    ck_assert_uint_eq(before.blocks_cached, after.blocks_cached);
    ck_assert_uint_eq(before.evicted_blocks, after.evicted_blocks);
    ck_assert_uint_eq(sequence_length(s), whole * 64);
    sequence_close(&s, true);
}
END_TEST

/* One after the other, with the smallest pool that the split gives for a context. */
START_TEST(a_sequence_alone_always_goes_on)
{
    uint32_t window = windows[_i];
    struct cache_shape shape = {.n_groups = 3,
                                .groups = {{2, 1, 64, 0}, {5, 2, 128, window}, {1, 3, 64, 0}},
                                .context_max = CONTEXT,
                                .append_max = CHUNK,
                                .sequences_max = 3};
    shape.pool_bytes = 32 * (2 * 64 + 3 * 64) + 10 * 128 * 32;
    ck_assert_int_eq(cache_new(&shape, &cache, NULL), OK);
    ck_assert_uint_eq(cache_tokens_max(cache), CONTEXT);
    for (uint32_t round = 0; round < 3; round++) {
        ids[round * 100] += 5000;
        struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
        grow(s, CONTEXT);
        sequence_close(&s, round != 1);
    }
}
END_TEST

START_TEST(a_step_allocates_nothing)
{
    make(0, 100, 40);
    struct sequence *s = cache_fixture_open(cache, ids, CONTEXT, NULL);
    uint64_t calls = mem_calls();
    grow(s, 1800);
    ck_assert_uint_eq(mem_calls(), calls);
    sequence_close(&s, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("window");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_row_pins_what_it_sees, 0, (int)ARRAY_LEN(windows));
    tcase_add_test(tcase, a_chunk_has_what_its_first_row_sees);
    tcase_add_test(tcase, a_prefix_outlives_its_first_reader);
    tcase_add_test(tcase, a_hit_needs_the_window_alone);
    tcase_add_test(tcase, a_dropped_sequence_leaves_nothing_behind_its_window);
    tcase_add_test(tcase, a_drop_leaves_what_others_hold);
    tcase_add_test(tcase, an_append_may_have_the_page_behind_its_own_window);
    tcase_add_test(tcase, keys_carry_the_group);
    tcase_add_test(tcase, a_page_that_is_copied_is_no_room);
    tcase_add_test(tcase, a_full_group_refuses_for_all);
    tcase_add_loop_test(tcase, a_sequence_alone_always_goes_on, 0, (int)ARRAY_LEN(windows));
    tcase_add_test(tcase, a_step_allocates_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
