/* Pool split test: what bytes come to, for shapes as checkpoints have them and for odd ones. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_split.h"

#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

#define MIB ((size_t)1 << 20)

/* 18 layers of one head of 256 in f16, three of which see everything. */
static struct cache_shape mixed_shape(void)
{
    return (struct cache_shape){.n_groups = 2,
                                .groups = {{15, 1, 65536, 512}, {3, 1, 65536, 0}},
                                .context_max = 32768,
                                .append_max = 512,
                                .sequences_max = 64};
}

enum { FULL_BLOCK = 3 * 65536, WINDOWED_BLOCK = 15 * 65536, ONE = 17 };

static uint64_t bytes_of(const struct cache_shape *shape, const uint32_t *blocks)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < shape->n_groups; g++)
        sum += (uint64_t)blocks[g] * shape->groups[g].page_bytes * shape->groups[g].n_heads *
               shape->groups[g].n_layers;
    return sum;
}

START_TEST(a_large_pool_has_windows_for_all)
{
    struct cache_shape shape = mixed_shape();
    uint32_t blocks[CACHE_GROUPS_MAX];
    shape.pool_bytes = 2048 * MIB;
    ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
    ck_assert_uint_eq(blocks[0], 64 * ONE + blocks[1] / 8);
    ck_assert_uint_gt(blocks[1], 512 * 6);
    ck_assert_uint_le(bytes_of(&shape, blocks), shape.pool_bytes);
    ck_assert_uint_eq(pool_split_tokens(&shape, blocks), 32768);
}
END_TEST

START_TEST(windows_give_way_to_one_context)
{
    struct cache_shape shape = mixed_shape();
    uint32_t blocks[CACHE_GROUPS_MAX];
    uint64_t least = pool_split_sequence_bytes(&shape, 32768);
    ck_assert_uint_eq(least, 512 * (uint64_t)FULL_BLOCK + ONE * (uint64_t)WINDOWED_BLOCK);
    shape.pool_bytes = least;
    ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
    ck_assert_uint_eq(blocks[0], ONE);
    ck_assert_uint_eq(blocks[1], 512);
    shape.pool_bytes = 256 * MIB;
    ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
    ck_assert_uint_eq(blocks[1], 512);
    ck_assert_uint_gt(blocks[0], 9 * ONE);
    shape.pool_bytes = least - 1;
    ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
    ck_assert_uint_eq(pool_split_tokens(&shape, blocks), 511 * 64);
}
END_TEST

START_TEST(one_group_has_all)
{
    struct cache_shape shape = {.n_groups = 1,
                                .groups = {{30, 3, 16384, 0}},
                                .pool_bytes = 100 * MIB,
                                .context_max = 8192,
                                .append_max = 512,
                                .sequences_max = 64};
    uint32_t blocks[CACHE_GROUPS_MAX];
    for (uint32_t window = 0; window < 2000; window += 500) {
        shape.groups[0].window = window;
        ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
        ck_assert_uint_eq(blocks[0], 100 * MIB / (30 * 3 * 16384));
    }
}
END_TEST

/* A block of every group is the least; what is refused names both sizes. */
START_TEST(less_than_a_block_is_refused)
{
    struct cache_shape shape = mixed_shape();
    uint32_t blocks[CACHE_GROUPS_MAX];
    struct why why = {0};
    shape.pool_bytes = FULL_BLOCK + WINDOWED_BLOCK;
    ck_assert_int_eq(pool_split(&shape, blocks, &why), OK);
    ck_assert(blocks[0] == 1 && blocks[1] == 1);
    shape.pool_bytes--;
    ck_assert_int_eq(pool_split(&shape, blocks, &why), STATUS_CACHE_TOO_SMALL);
    ck_assert_ptr_nonnull(strstr(why.text, "1179647"));
    ck_assert_ptr_nonnull(strstr(why.text, "1179648"));
    shape.pool_bytes = SIZE_MAX;
    ck_assert_int_eq(pool_split(&shape, blocks, &why), STATUS_BAD_OPTION);
}
END_TEST

/* Whatever the shape: within the bytes, at least a block each, no windowed group above a full one,
 * full ones alike, more bytes never hold fewer tokens, and a context fits if its bytes are there. */
START_TEST(any_shape)
{
    uint64_t seed = test_seed();
    for (int k = 0; k < 3000; k++) {
        struct cache_shape shape = {.n_groups = 1 + (uint32_t)noise_below(&seed, CACHE_GROUPS_MAX),
                                    .context_max = 1 + (uint32_t)noise_below(&seed, 5000),
                                    .append_max = 1 + (uint32_t)noise_below(&seed, 1000),
                                    .sequences_max = 1 + (uint32_t)noise_below(&seed, 80)};
        for (uint32_t g = 0; g < shape.n_groups; g++)
            shape.groups[g] = (struct cache_group_shape){
                1 + (uint32_t)noise_below(&seed, 40), 1 + (uint32_t)noise_below(&seed, 8),
                64 * (1 + (size_t)noise_below(&seed, 100)),
                noise_below(&seed, 2) == 0 ? 0 : 1 + (uint32_t)noise_below(&seed, 6000)};
        uint64_t one = pool_split_sequence_bytes(&shape, 1);
        uint64_t whole = pool_split_sequence_bytes(&shape, shape.context_max);
        uint32_t blocks[CACHE_GROUPS_MAX], tokens = 0;
        for (shape.pool_bytes = one; shape.pool_bytes < 9 * whole;
             shape.pool_bytes += shape.pool_bytes / 3) {
            ck_assert_int_eq(pool_split(&shape, blocks, NULL), OK);
            ck_assert_uint_le(bytes_of(&shape, blocks), shape.pool_bytes);
            uint32_t full = 0, holds = pool_split_tokens(&shape, blocks);
            for (uint32_t g = 0; g < shape.n_groups; g++) {
                ck_assert_uint_gt(blocks[g], 0);
                if (shape.groups[g].window > 0)
                    continue;
                ck_assert(full == 0 || full == blocks[g]);
                full = blocks[g];
            }
            for (uint32_t g = 0; full > 0 && g < shape.n_groups; g++)
                ck_assert_uint_le(blocks[g], full);
            ck_assert_uint_ge(holds, tokens);
            ck_assert(shape.pool_bytes < whole || holds == shape.context_max);
            tokens = holds;
        }
    }
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    fflush(stdout);
    Suite *suite = suite_create("pool_split");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_large_pool_has_windows_for_all);
    tcase_add_test(tcase, windows_give_way_to_one_context);
    tcase_add_test(tcase, one_group_has_all);
    tcase_add_test(tcase, less_than_a_block_is_refused);
    tcase_add_test(tcase, any_shape);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
