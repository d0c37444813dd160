/* Sequence test: exact reuse at every length, copies, salts, refusals, what stays findable after
 * closing. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

#include "cache/cache_check.h"
#include "tests/support/suite_run.h"

enum { PROMPT = 200, CONTEXT = 512 };

static struct cache *cache;
static uint32_t ids[CONTEXT], other[CONTEXT];

static void set_up(void)
{
    cache = cache_fixture_new(24, 6, CONTEXT);
    cache_fixture_ids(ids, CONTEXT, 1000);
    cache_fixture_ids(other, CONTEXT, 5000);
}

static void tear_down(void)
{
    ck_assert_ptr_null(cache_check(cache));
    cache_free(&cache);
}

static void run_and_close(const uint32_t *tokens, uint32_t n)
{
    struct sequence *s = cache_fixture_run(cache, tokens, n);
    sequence_close(&s, true);
    ck_assert_ptr_null(s);
}

/* A finished prompt of 200 tokens; another shares its first _i tokens. */
START_TEST(reuse_is_exact_at_every_prefix_length)
{
    uint32_t same = (uint32_t)_i;
    run_and_close(ids, PROMPT);
    memcpy(other, ids, same * sizeof *ids);
    struct cache_move move;
    struct sequence *s = cache_fixture_open(cache, other, PROMPT + 1, &move);
    ck_assert_uint_eq(sequence_reused(s), same);
    ck_assert_uint_eq(sequence_length(s), same);
    ck_assert_uint_eq(move.n_tokens, same % CACHE_PAGE_TOKENS);
    uint32_t n_shared = same / CACHE_PAGE_TOKENS;
    if (move.n_tokens > 0) {
        ck_assert_uint_ne(move.from_page[0], move.to_page[0]);
        ck_assert_uint_eq(cache_fixture_page(s, n_shared), move.to_page[0]);
    }
    struct sequence *first =
        cache_fixture_open(cache, ids, PROMPT + 1, NULL); /* the full blocks are the same pages */
    for (uint32_t i = 0; i < n_shared; i++)
        ck_assert_uint_eq(cache_fixture_page(first, i), cache_fixture_page(s, i));
    ck_assert_uint_eq(cache_books(cache).blocks_shared, n_shared);
    cache_fixture_append(s, other + same, PROMPT + 1 - same);
    ck_assert_ptr_null(cache_check(cache));
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, PROMPT + 1),
                      PROMPT); /* the source is as it was */
    ck_assert_uint_eq(cache_fixture_findable(cache, other, PROMPT + 2), PROMPT + 1);
    sequence_close(&s, true);
    sequence_close(&first, true);
}
END_TEST

/* The same prompt of _i tokens again: all but one token is reused. */
START_TEST(a_full_hit_computes_one_row)
{
    uint32_t n = (uint32_t)_i;
    run_and_close(ids, n);
    struct cache_move move;
    struct sequence *s = cache_fixture_open(cache, ids, n, &move);
    ck_assert_uint_eq(sequence_reused(s), n - 1);
    ck_assert_uint_eq(move.n_tokens, (n - 1) % CACHE_PAGE_TOKENS);
    cache_fixture_append(s, ids + n - 1, 1);
    sequence_close(&s, true);
    /* Repeating leaves nothing behind: one chain. */
    ck_assert_uint_eq(cache_books(cache).blocks_cached, cache_blocks_for(n));
}
END_TEST

START_TEST(a_running_tail_is_found_and_copied)
{
    struct sequence *running = cache_fixture_run(cache, ids, 70);
    struct cache_move move;
    struct sequence *s = cache_fixture_open(cache, ids, 100, &move);
    ck_assert_uint_eq(sequence_reused(s), 70);
    ck_assert_uint_eq(move.n_tokens, 6);
    ck_assert_uint_eq(move.from_page[0], cache_fixture_page(running, 1));
    ck_assert_uint_eq(cache_fixture_page(s, 0), cache_fixture_page(running, 0));
    ck_assert_uint_ne(cache_fixture_page(s, 1), cache_fixture_page(running, 1));
    cache_fixture_append(running, other, 3); /* both go on, each its own way */
    cache_fixture_append(s, ids + 70, 30);
    ck_assert_ptr_null(cache_check(cache));
    sequence_close(&running, true);
    sequence_close(&s, true);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 101), 100);
    memcpy(ids + 70, other, 3 * sizeof *ids);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 101), 73);
}
END_TEST

START_TEST(the_longest_of_many_tails_is_taken)
{
    for (uint32_t same = 3; same < 60;
         same += 8) { /* tails that leave the story at 3, 11, 19 ... */
        memcpy(other, ids, CONTEXT * sizeof *ids);
        other[same] = 7;
        run_and_close(other, 63);
    }
    other[59] = ids[59];
    struct cache_move move;
    struct sequence *s = cache_fixture_open(cache, ids, 64, &move);
    ck_assert_uint_eq(move.n_tokens, 59);
    sequence_close(&s, true);
}
END_TEST

START_TEST(no_reuse_if_it_may_not)
{
    run_and_close(ids, PROMPT);
    struct sequence *s;
    struct cache_move move;
    struct cache_books before = cache_books(cache);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, PROMPT, false, &s, &move), OK);
    ck_assert_uint_eq(sequence_reused(s) + sequence_length(s) + move.n_tokens, 0);
    ck_assert_uint_eq(cache_books(cache).lookup_tokens, before.lookup_tokens);
    cache_fixture_append(s, ids, PROMPT); /* published as usual: it meets the old blocks */
    sequence_close(&s, true);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, before.blocks_cached);
}
END_TEST

START_TEST(salts_part_prompts)
{
    static const uint8_t salts[2][CACHE_SALT_BYTES_MAX] = {"one", "two"};
    struct sequence *s;
    struct cache_move move;
    for (int i = 0; i < 4; i++) { /* two salts, each a miss first, then a hit */
        size_t len = i / 2 == 0 ? 3 : CACHE_SALT_BYTES_MAX;
        ck_assert_int_eq(sequence_open(cache, salts[i / 2], len, ids, PROMPT, true, &s, &move), OK);
        sequence_moved(s);
        ck_assert_uint_eq(sequence_reused(s), i % 2 == 0 ? 0 : PROMPT - 1);
        cache_fixture_append(s, ids + sequence_length(s), PROMPT - sequence_length(s));
        sequence_close(&s, true);
    }
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, PROMPT), 0);
}
END_TEST

START_TEST(dropped_blocks_are_not_found)
{
    run_and_close(ids, 64);
    struct sequence *bad =
        cache_fixture_run(cache, ids, 150); /* block 0 is shared, 1 and the tail are its own */
    memcpy(other, ids, 140 * sizeof *ids);
    struct sequence *good = cache_fixture_run(cache, other, 150); /* shares blocks 0 and 1 */
    sequence_close(&bad, false);
    ck_assert_ptr_null(cache_check(cache));
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 151), 140); /* what good holds */
    sequence_close(&good, false); /* drops what it wrote, not what it found */
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 151), 128);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 2);
}
END_TEST

START_TEST(what_hangs_below_a_dropped_block_goes_with_it)
{
    struct sequence *bad = cache_fixture_run(cache, ids, 128);
    run_and_close(ids, 300); /* hangs below bad's blocks, cached */
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 3);
    sequence_close(&bad, false);
    ck_assert_uint_eq(cache_books(cache).blocks_free, 24);
}
END_TEST

START_TEST(a_pinned_source_survives_its_owner)
{
    struct sequence *owner = cache_fixture_run(cache, ids, 20), *s;
    struct cache_move move;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 30, true, &s, &move), OK);
    ck_assert_uint_eq(move.n_tokens, 20);
    sequence_close(&owner, false); /* dropped, but the copy is not done */
    ck_assert_uint_eq(cache_books(cache).blocks_used, 2);
    struct sequence *big; /* takes all that is left: 22 blocks, not 23 */
    struct cache_move none;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, other, 1, true, &big, &none), OK);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 22);
    sequence_moved(s);
    ck_assert_uint_eq(cache_blocks_available(cache, 0), 23);
    sequence_close(&s, true);
    sequence_close(&big, true);
}
END_TEST

START_TEST(closing_instead_of_the_copy)
{
    run_and_close(ids, 20);
    struct sequence *s;
    struct cache_move move;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 30, true, &s, &move), OK);
    sequence_close(&s, _i == 0);
    struct cache_books books = cache_books(cache);
    ck_assert_uint_eq(books.blocks_used, 0);
    ck_assert_uint_eq(books.blocks_cached, 1);
    sequence_close(&s, true); /* NULL is fine */
}
END_TEST

START_TEST(too_many_sequences)
{
    struct sequence *s[7];
    struct cache_move move;
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 5, true, &s[i], &move),
                         i < 6 ? OK : STATUS_UNAVAILABLE);
    ck_assert_ptr_null(s[6]);
    sequence_close(&s[2], true);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 5, true, &s[2], &move), OK);
    for (int i = 0; i < 6; i++)
        sequence_close(&s[i], true);
}
END_TEST

START_TEST(no_page_for_the_copied_head)
{
    cache_free(&cache);
    cache = cache_fixture_new(2, 6, CONTEXT);
    struct sequence *a = cache_fixture_run(cache, ids, 100), *s;
    struct cache_move move;
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 80, true, &s, &move), STATUS_CACHE_FULL);
    ck_assert_ptr_null(s);
    ck_assert_uint_eq(move.n_tokens, 0);
    ck_assert_ptr_null(cache_check(cache));
    ck_assert_uint_eq(cache_books(cache).blocks_shared, 0);
    ck_assert_uint_eq(cache_books(cache).sequences, 1);
    sequence_close(&a, true);
    /* Now both are cached, but the source may not be evicted for its own copy, nor may what is in
     * front of it. */
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 80, true, &s, &move), STATUS_CACHE_FULL);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 2);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 65, true, &s, &move),
                     OK); /* a whole block, no copy */
    ck_assert_uint_eq(sequence_reused(s), 64);
    sequence_close(&s, true);
}
END_TEST

START_TEST(states_refuse)
{
    struct sequence *running = cache_fixture_run(cache, ids, 100), *s;
    struct cache_move move;
    cache_set_namespace_state(cache, NAMESPACE_DRAINING);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 100, true, &s, &move), STATUS_DRAINING);
    cache_fixture_append(running, other, 10); /* what is open goes on */
    cache_set_namespace_state(cache, NAMESPACE_FENCED);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 100, true, &s, &move), STATUS_FENCED);
    sequence_close(&running, true);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 100, true, &s, &move), STATUS_FENCED);
    cache_set_namespace_state(cache, NAMESPACE_FREED);
    ck_assert_int_eq(sequence_open(cache, NULL, 0, ids, 100, true, &s, &move), STATUS_FENCED);
    ck_assert_uint_eq(cache_books(cache).blocks_free, 24);
    ck_assert_int_eq(cache_namespace_state(cache), NAMESPACE_FREED);
}
END_TEST

START_TEST(a_longer_tail_replaces_the_one_it_grew_from)
{
    run_and_close(ids, 10);
    run_and_close(ids, 20); /* as a conversation does, turn by turn */
    run_and_close(ids, 30);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 1);
    ck_assert_uint_eq(cache_fixture_findable(cache, ids, 31), 30);
    run_and_close(ids, 70);
    ck_assert_uint_eq(cache_books(cache).blocks_cached, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sequence");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, reuse_is_exact_at_every_prefix_length, 0, PROMPT + 1);
    tcase_add_loop_test(tcase, a_full_hit_computes_one_row, 1, PROMPT + 1);
    tcase_add_test(tcase, a_running_tail_is_found_and_copied);
    tcase_add_test(tcase, the_longest_of_many_tails_is_taken);
    tcase_add_test(tcase, no_reuse_if_it_may_not);
    tcase_add_test(tcase, salts_part_prompts);
    tcase_add_test(tcase, dropped_blocks_are_not_found);
    tcase_add_test(tcase, what_hangs_below_a_dropped_block_goes_with_it);
    tcase_add_test(tcase, a_pinned_source_survives_its_owner);
    tcase_add_loop_test(tcase, closing_instead_of_the_copy, 0, 2);
    tcase_add_test(tcase, too_many_sequences);
    tcase_add_test(tcase, no_page_for_the_copied_head);
    tcase_add_test(tcase, states_refuse);
    tcase_add_test(tcase, a_longer_tail_replaces_the_one_it_grew_from);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
