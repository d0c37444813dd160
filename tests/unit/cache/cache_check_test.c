/* Cache check test: each planted fault is found and named, so that silence of the check means
 * something. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_check.h"

#include "cache/cache_state.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/suite_run.h"

static struct cache *cache;
static struct sequence *running; /* 3 blocks, the last a tail; the first is shared with shares */
static struct sequence *shares;
static struct cache *windowed; /* a window of 100 */
static struct sequence *far;   /* its sequence, past that window */
static uint32_t cached;        /* a page that nobody holds, below the shared one */

static struct block *block_at(uint32_t page)
{
    return &cache->groups[0].store.blocks[page];
}

static void set_up(void)
{
    uint32_t ids[256];
    cache = cache_fixture_new(12, 4, 256);
    cache_fixture_ids(ids, 256, 1);
    running = cache_fixture_run(cache, ids, 150);
    ids[70] = 9999;
    struct sequence *gone = cache_fixture_run(cache, ids, 128);
    cached = cache_fixture_page(gone, 1);
    sequence_close(&gone, true);
    ids[66] = 9999;
    shares = cache_fixture_run(cache, ids, 100);
    ck_assert_ptr_null(cache_check(cache));
    const uint32_t window = 100;
    windowed = cache_fixture_windows(&window, 1, 12, 1, 256, 0);
    cache_fixture_ids(ids, 256, 1);
    far = cache_fixture_run(windowed, ids, 200);
    ck_assert_ptr_null(cache_check(windowed));
}

static void tear_down(void)
{
    cache_free(&cache);
    cache_free(&windowed);
}

/* Breaks one thing; what the check should say begins with the text. */
static const char *plant(int i)
{
    struct block *first = block_at(running->groups[0].table.pages[0]);
    struct block *second = block_at(running->groups[0].table.pages[1]);
    struct block *tail = block_at(running->groups[0].table.pages[2]);
    switch (i) {
    case 0:
        cache->groups[0].store.n_used++;
        return "block_store 1";
    case 1:
        page_pool_give(cache->groups[0].store.pages, running->groups[0].table.pages[1]);
        return "block_store 2";
    case 2:
        block_at(cached)->refs++;
        return "block_store 2";
    case 3:
        second->refs++;
        cache->groups[0].store.n_shared++;
        return "block_store 2";
    case 4:
        first->refs = 0;
        first->pins = 1;
        return "block_store 3";
    case 5:
        cache->groups[0].store.n_shared = 0;
        return "block_store 4";
    case 6:
        cache->groups[0].store.n_cached++;
        cache->groups[0].store.n_used--;
        return "block_store 1";
    case 7:
        second->ids[0] += 100000; /* behind its siblings now */
        return "prefix_index";
    case 8:
        second->parent_key[0] ^= 1;
        return "prefix_index";
    case 9:
        first->n_children--;
        return "prefix_index 4";
    case 10:
        cache->groups[0].store.index.n_entries--;
        return "prefix_index 1";
    case 11:
        second->key[3] ^= 1;
        return "prefix_index 3";
    case 12:
        tail->pins++;
        return "sequence 4";
    case 13:
        running->n_committed--;
        return "append 3";
    case 14:
        running->n_staged = 1;
        return "append 1";
    case 15:
        running->is_appending = true;
        running->n_staged = 64;
        return "append 2";
    case 16:
        running->groups[0].table.spans[0].n_pages--;
        return "block_table 1";
    case 17:
        first->ids[1]++;
        return "sequence 3";
    case 18:
        cache->totals.sequences++;
        return "cache_books";
    default:
        running->salt_len = 5;
        return "sequence 3";
    }
}

START_TEST(a_planted_fault_is_named)
{
    const char *want = plant(_i), *got = cache_check(cache);
    ck_assert_msg(got != NULL && strncmp(got, want, strlen(want)) == 0,
                  "fault %d: wanted %s, got %s", _i, want, got != NULL ? got : "nothing");
}
END_TEST

/* The same where a window has passed over the first block. */
static const char *plant_windowed(int i)
{
    struct sequence_group *part = &far->groups[0];
    switch (i) {
    case 0:
        part->table.first_page--;
        windowed->groups[0].store.blocks[part->table.pages[0]].refs++;
        windowed->groups[0].store.blocks[part->table.pages[0]].is_cached = false;
        return "block_store";
    case 1:
        part->table.first_span = part->table.first_page + 1;
        return "block_table 2";
    case 2:
        part->tip_key[0] ^= 1;
        return "sequence 3";
    case 3:
        windowed->groups[0].window = 64;
        return "sequence 6";
    case 4:
        windowed->groups[0].window = 190;
        return "sequence 6";
    default:
        part->source = part->table.pages[2];
        windowed->groups[0].store.blocks[part->table.pages[2]].pins++;
        windowed->groups[0].store.blocks[part->table.pages[1]].parent = part->table.pages[0];
        return "block_store 3";
    }
}

START_TEST(a_planted_fault_behind_a_window_is_named)
{
    const char *want = plant_windowed(_i), *got = cache_check(windowed);
    ck_assert_msg(got != NULL && strncmp(got, want, strlen(want)) == 0,
                  "fault %d: wanted %s, got %s", _i, want, got != NULL ? got : "nothing");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_check");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 10);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_planted_fault_is_named, 0, 20);
    tcase_add_loop_test(tcase, a_planted_fault_behind_a_window_is_named, 0, 6);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
