/* Prefix index test: the longest common prefix against a scan, tails that overtake each other,
 * children, covers. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/prefix_index.h"

#include <signal.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { N = 80 };

static struct block *blocks;
static struct prefix_index ix;
static uint8_t keys[4][SHA256_BYTES];

static void set_up(void)
{
    blocks = mem_aligned(N * sizeof *blocks);
    ck_assert_ptr_nonnull(blocks);
    prefix_index_init(&ix, blocks, N);
    for (uint32_t i = 0; i < ARRAY_LEN(keys); i++)
        memset(keys[i], (int)i + 1, SHA256_BYTES);
}

static void tear_down(void)
{
    mem_free(blocks);
}

static void enter(uint32_t page, const uint8_t *parent_key, uint32_t parent, const uint32_t *ids,
                  uint32_t n)
{
    memcpy(blocks[page].ids, ids, n * sizeof *ids);
    blocks[page].n_tokens = n;
    prefix_index_insert(&ix, page, parent_key, parent);
    ck_assert_ptr_null(prefix_index_check(&ix));
}

static uint32_t common(const uint32_t *ids, uint32_t n, const struct block *block)
{
    uint32_t i = 0;
    while (i < n && i < block->n_tokens && ids[i] == block->ids[i])
        i++;
    return i;
}

START_TEST(finds_the_longest_common_prefix)
{
    uint32_t state = 1 + (uint32_t)_i, n_found = 0;
    for (uint32_t step = 0; step < 2000; step++) {
        state = state * 1664525 + 1013904223;
        uint32_t page = (state >> 16) % N, ids[CACHE_PAGE_TOKENS],
                 n = 1 + (state >> 8) % CACHE_PAGE_TOKENS;
        const uint8_t *key = keys[(state >> 24) % ARRAY_LEN(keys)];
        for (uint32_t i = 0; i < CACHE_PAGE_TOKENS; i++) {
            state = state * 1664525 + 1013904223;
            ids[i] = (state >> 16) % 8 == 0; /* mostly 0, so prefixes meet far in */
        }
        uint32_t best = 0, found;
        for (uint32_t i = 0; i < N; i++)
            if (blocks[i].is_indexed && memcmp(blocks[i].parent_key, key, SHA256_BYTES) == 0) {
                uint32_t c = common(ids, n, &blocks[i]);
                best = c > best ? c : best;
            }
        uint32_t hit = prefix_index_find(&ix, key, ids, n, &found);
        ck_assert_uint_eq(found, best);
        ck_assert_int_eq(hit == NO_PAGE, best == 0);
        if (hit != NO_PAGE) {
            ck_assert_uint_eq(common(ids, n, &blocks[hit]), best);
            ck_assert_mem_eq(blocks[hit].parent_key, key, SHA256_BYTES);
        }
        n_found += best > 3;
        if (blocks[page].is_indexed && step % 3 == 0)
            prefix_index_remove(&ix, page);
        else if (blocks[page].is_indexed && blocks[page].n_tokens + 1 < CACHE_PAGE_TOKENS)
            prefix_index_extend(&ix, page, ids,
                                1 + n % (CACHE_PAGE_TOKENS - 1 - blocks[page].n_tokens));
        else if (!blocks[page].is_indexed)
            enter(page, key, NO_PAGE, ids, n < CACHE_PAGE_TOKENS ? n : CACHE_PAGE_TOKENS - 1);
        ck_assert_ptr_null(prefix_index_check(&ix));
    }
    ck_assert_uint_gt(n_found, 100);
}
END_TEST

START_TEST(a_growing_tail_overtakes_its_neighbour)
{
    static const uint32_t a[] = {5}, b[] = {5, 1}, more[] = {9, 9};
    enter(0, keys[0], NO_PAGE, a, 1);
    enter(1, keys[0], NO_PAGE, b, 2);
    ck_assert_uint_eq(blocks[0].after, 1);
    prefix_index_extend(&ix, 0, more, 2); /* 5 9 9 stands behind 5 1 */
    ck_assert_uint_eq(blocks[1].after, 0);
    ck_assert_uint_eq(blocks[0].after, NO_PAGE);
    ck_assert_ptr_null(prefix_index_check(&ix));
    static const uint32_t wanted[] = {5, 9, 9, 9};
    uint32_t found;
    ck_assert_uint_eq(prefix_index_find(&ix, keys[0], wanted, 4, &found), 0);
    ck_assert_uint_eq(found, 3);
}
END_TEST

START_TEST(equal_tails_live_side_by_side)
{
    static const uint32_t ids[] = {1, 2, 3};
    for (uint32_t page = 0; page < 5; page++)
        enter(page, keys[0], NO_PAGE, ids, 3);
    ck_assert_uint_eq(ix.n_entries, 5);
    for (uint32_t page = 0; page < 5; page++) {
        ck_assert_int_eq(prefix_index_is_covered(&ix, page), page < 4);
        prefix_index_remove(&ix, page);
        ck_assert_ptr_null(prefix_index_check(&ix));
    }
    ck_assert_uint_eq(ix.root, NO_PAGE);
}
END_TEST

START_TEST(parents_and_children)
{
    uint32_t ids[CACHE_PAGE_TOKENS] = {3};
    memcpy(blocks[7].key, keys[2], SHA256_BYTES);
    enter(7, keys[0], NO_PAGE, ids, CACHE_PAGE_TOKENS);
    for (uint32_t page = 20; page < 24; page++) {
        ids[0] = page;
        enter(page, keys[2], 7, ids, 5);
    }
    for (uint32_t left = 4; left > 0; left--) {
        ck_assert_uint_eq(blocks[7].n_children, left);
        uint32_t child = prefix_index_child(&ix, 7);
        ck_assert(child >= 20 && child < 24);
        prefix_index_remove(&ix, child);
    }
    prefix_index_remove(&ix, 7);
    ck_assert_ptr_null(prefix_index_check(&ix));
    ck_assert_uint_eq(ix.n_entries, 0);
}
END_TEST

START_TEST(a_parent_with_children_stays)
{
    uint32_t ids[CACHE_PAGE_TOKENS] = {3};
    memcpy(blocks[7].key, keys[2], SHA256_BYTES);
    enter(7, keys[0], NO_PAGE, ids, CACHE_PAGE_TOKENS);
    enter(8, keys[2], 7, ids, 1);
    prefix_index_remove(&ix, 7); /* aborts */
}
END_TEST

START_TEST(covers)
{
    static const uint32_t ids[] = {1, 2, 3, 4};
    enter(0, keys[0], NO_PAGE, ids, 2);
    enter(1, keys[0], NO_PAGE, ids, 4);
    enter(2, keys[1], NO_PAGE, ids, 1); /* another parent covers nothing */
    ck_assert(prefix_index_is_covered(&ix, 0));
    ck_assert(!prefix_index_is_covered(&ix, 1));
    ck_assert(!prefix_index_is_covered(&ix, 2));
    ck_assert_uint_eq(prefix_index_covered_before(&ix, 1), 0);
    ck_assert_uint_eq(prefix_index_covered_before(&ix, 0), NO_PAGE);
    ck_assert_uint_eq(prefix_index_covered_before(&ix, 2), NO_PAGE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prefix_index");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, finds_the_longest_common_prefix, 0, 4);
    tcase_add_test(tcase, a_growing_tail_overtakes_its_neighbour);
    tcase_add_test(tcase, equal_tails_live_side_by_side);
    tcase_add_test(tcase, parents_and_children);
    tcase_add_test_raise_signal(tcase, a_parent_with_children_stays, SIGABRT);
    tcase_add_test(tcase, covers);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
