/* mem_test.c: every way to memory counts once and can be made to fail. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"

#include "tests/support/suite_run.h"

enum { WAYS = 6 };

/* One allocation by each way in turn; the bytes are b. */
static void *take(int way, size_t b)
{
    switch (way) {
    case 0:
        return mem_alloc(b);
    case 1:
        return mem_zalloc(b, 1);
    case 2:
        return mem_realloc(NULL, b);
    case 3:
        return mem_dup("0123456789", b);
    case 4:
        return mem_aligned(b);
    default:
        return mem_map(b);
    }
}

static void give(int way, void *p, size_t b)
{
    if (way == 5)
        mem_unmap(p, b);
    else
        mem_free(p);
}

START_TEST(each_way_counts_once)
{
    uint64_t calls = mem_calls(), bytes = mem_asked_bytes();
    void *p = take(_i, 10);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(mem_calls(), calls + 1);
    ck_assert(mem_asked_bytes() - bytes >= 10 && mem_asked_bytes() - bytes <= 16);
    give(_i, p, 10);
    ck_assert_uint_eq(mem_calls(), calls + 1);
}
END_TEST

START_TEST(each_way_can_fail)
{
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_nth(n);
        for (uint64_t call = 1; call <= 3; call++) {
            void *p = take(_i, 10);
            ck_assert_int_eq(p == NULL, call == n);
            ck_assert_int_eq(mem_failure_struck(), call >= n);
            give(_i, p, 10);
        }
    }
    mem_fail_nth(1);
    mem_fail_nth(0);
    void *p = take(_i, 10);
    ck_assert(p != NULL && !mem_failure_struck());
    give(_i, p, 10);
}
END_TEST

START_TEST(sizes_that_cannot_be)
{
    ck_assert_ptr_null(mem_zalloc(SIZE_MAX / 2, 3));
    ck_assert_ptr_null(mem_dup("", SIZE_MAX));
    ck_assert_ptr_null(mem_aligned(SIZE_MAX));
    ck_assert_ptr_null(mem_map(SIZE_MAX));
    ck_assert_ptr_null(mem_map(0));
    void *p = mem_alloc(0);
    ck_assert_ptr_nonnull(p); /* so that NULL always means failure */
    mem_free(p);
}
END_TEST

START_TEST(vector_memory_is_aligned_and_zero)
{
    for (size_t bytes = 0; bytes < 200; bytes += 7) {
        unsigned char *p = mem_aligned(bytes);
        ck_assert_uint_eq((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            ck_assert_uint_eq(p[i], 0);
        mem_free(p);
    }
}
END_TEST

START_TEST(mappings_are_counted_in_huge_pages)
{
    uint64_t before = mem_mapped_bytes();
    ck_assert_uint_eq(mem_map_rounded(1), 2 << 20);
    ck_assert_uint_eq(mem_map_rounded(2 << 20), 2 << 20);
    unsigned char *p = mem_map((2 << 20) + 1);
    ck_assert_uint_eq((uintptr_t)p % (2 << 20), 0);
    ck_assert_uint_eq(mem_mapped_bytes(), before + (4 << 20));
    ck_assert(p[0] == 0 && p[(4 << 20) - 1] == 0);
    mem_unmap(p, (2 << 20) + 1);
    ck_assert_uint_eq(mem_mapped_bytes(), before);
    mem_unmap(NULL, 5);
}
END_TEST

START_TEST(a_thread_is_watched_until_it_is_not)
{
    _Atomic uint64_t mine = 0, other = 0;
    ck_assert_ptr_null(mem_watch_thread(&mine));
    mem_free(mem_alloc(1));
    mem_free(mem_aligned(1));
    ck_assert_ptr_eq(mem_watch_thread(&other), &mine);
    mem_free(mem_zalloc(1, 1));
    ck_assert_ptr_eq(mem_watch_thread(NULL), &other);
    mem_free(mem_alloc(1));
    ck_assert_uint_eq(mine, 2);
    ck_assert_uint_eq(other, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mem");
    TCase *tc = tcase_create("ways");
    tcase_set_timeout(tc, 10);
    tcase_add_loop_test(tc, each_way_counts_once, 0, WAYS);
    tcase_add_loop_test(tc, each_way_can_fail, 0, WAYS);
    tcase_add_test(tc, sizes_that_cannot_be);
    tcase_add_test(tc, vector_memory_is_aligned_and_zero);
    tcase_add_test(tc, a_thread_is_watched_until_it_is_not);
    tcase_add_test(tc, mappings_are_counted_in_huge_pages);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
