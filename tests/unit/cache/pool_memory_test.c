/* Pool memory test: the layout's promises, touching, and sizes that cannot be. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_memory.h"

#include <sys/mman.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { MEBI = 1 << 20, SYSTEM_PAGE = 4096 };

START_TEST(pages_of_a_head_follow_each_other_and_heads_do_not_overlap)
{
    struct pool_memory memory;
    ck_assert_int_eq(pool_memory_init(&memory, 3, 2, 5, 192), OK);
    const struct cache_memory *view = &memory.view;
    ck_assert_uint_eq((uintptr_t)view->base % (2 * MEBI), 0);
    ck_assert_uint_eq(view->page_bytes, 192);
    ck_assert_uint_ge(view->head_stride, 5 * 192);
    ck_assert_uint_eq(view->layer_stride, 2 * view->head_stride);
    ck_assert_uint_eq(view->bytes, 3 * view->layer_stride);
    ck_assert_uint_eq(view->head_stride % 64, 0);
    ck_assert_uint_eq(memory.payload_bytes, 3 * 2 * 5 * 192);
    ck_assert_uint_ge(memory.mapped_bytes, view->bytes);
    ck_assert_uint_eq(mem_mapped_bytes(), memory.mapped_bytes);
    for (uint32_t page = 0; page < 5; page++)
        pool_memory_unpoison(&memory, page);
    for (uint32_t i = 0; i < 3 * 2 * 5; i++) /* every byte of every page is its own */
        memset(view->base + i / 10 * view->layer_stride + i / 5 % 2 * view->head_stride +
                   i % 5 * 192,
               (int)i, 192);
    for (uint32_t i = 0; i < 3 * 2 * 5; i++) {
        const char *page =
            view->base + i / 10 * view->layer_stride + i / 5 % 2 * view->head_stride + i % 5 * 192;
        for (uint32_t k = 0; k < 192; k++)
            ck_assert_int_eq(page[k], (char)i);
    }
    pool_memory_release(&memory);
    ck_assert_uint_eq(mem_mapped_bytes(), 0);
    pool_memory_release(&memory); /* a second time is fine */
}
END_TEST

START_TEST(the_shares_touch_all_of_it)
{
    struct pool_memory memory;
    ck_assert_int_eq(pool_memory_init(&memory, 3, 1, 11, MEBI), OK);
    ck_assert_uint_eq(pool_memory_measure(&memory), 0);
    for (uint32_t share = 0; share < (uint32_t)_i; share++)
        pool_memory_touch(&memory, 0, 11, share, (uint32_t)_i);
    size_t n = memory.view.bytes / SYSTEM_PAGE;
    unsigned char *resident = mem_zalloc(n, 1);
    ck_assert_int_eq(mincore(memory.view.base, memory.view.bytes, resident), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(resident[i] & 1, "system page %zu of %zu is not there", i, n);
    mem_free(resident);
    ck_assert_uint_ge(pool_memory_measure(&memory), memory.view.bytes);
    ck_assert_uint_le(pool_memory_measure(&memory), memory.mapped_bytes);
    pool_memory_release(&memory);
}
END_TEST

START_TEST(touching_changes_no_byte)
{
    struct pool_memory memory;
    ck_assert_int_eq(pool_memory_init(&memory, 2, 2, 3, MEBI), OK);
    char *byte = memory.view.base + memory.view.layer_stride + MEBI + 5;
    pool_memory_unpoison(&memory, 1);
    *byte = 77;
    pool_memory_touch(&memory, 0, 3, 0, 1);
    ck_assert_int_eq(*byte, 77);
    pool_memory_release(&memory);
}
END_TEST

START_TEST(sizes_that_overflow_are_no_memory)
{
    static const struct {
        uint32_t layers, heads, pages;
        size_t page_bytes;
    } rows[] = {{1, 1, 2, SIZE_MAX / 2 + 1},
                {UINT32_MAX, UINT32_MAX, UINT32_MAX, 64},
                {1, 1, 1, SIZE_MAX - 63},
                {1u << 31, 1u << 31, 1, 64}};
    struct pool_memory memory;
    ck_assert_int_eq(pool_memory_init(&memory, rows[_i].layers, rows[_i].heads, rows[_i].pages,
                                      rows[_i].page_bytes),
                     STATUS_NO_MEMORY);
    pool_memory_release(&memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_memory");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, pages_of_a_head_follow_each_other_and_heads_do_not_overlap);
    tcase_add_loop_test(tcase, the_shares_touch_all_of_it, 1, 9);
    tcase_add_test(tcase, touching_changes_no_byte);
    tcase_add_loop_test(tcase, sizes_that_overflow_are_no_memory, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
