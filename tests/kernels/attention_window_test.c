/* attention_window_test.c: rows that see only a window, in every way, on every set, against double.
 *
 * HOW     Pages behind the window of a sequence's first row are never made, and what is not stored
 *         is NaN (paged_kv.h): whatever reads behind a window shows. Lengths and windows lie near
 *         the borders of units, steps, pages and chunks. The seed is printed, and taken from
 *         FOLDKV_TEST_SEED.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "config/mem.h"
#include "tests/kernels/attention_ways.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { WORLDS = 24 };

static const uint32_t windows[] = {1,  2,  15, 16,  17,  31,  63,  64, 65,
                                   80, 127, 200, 255, 256, 257, 300, 512, 1000};

static struct paged_spec random_spec(uint64_t *seed)
{
    static const uint32_t firsts[] = {0, 1, 30, 63, 64, 100, 255, 256, 257, 511, 512, 600, 1023};
    struct paged_spec s = {.n_kv_heads = 1 + noise_below(seed, 3),
                           .window = windows[noise_below(seed, ARRAY_LEN(windows))],
                           .type = (enum kv_type)noise_below(seed, PAGED_TYPES)};
    s.n_query_heads = s.n_kv_heads * (1 + noise_below(seed, 9));
    s.d_qk = 16 * (1 + noise_below(seed, 8));
    s.d_v = noise_below(seed, 2) == 0 ? s.d_qk : 16 * (1 + noise_below(seed, 8));
    for (uint32_t h = 0; h < s.n_query_heads; h++)
        s.k_owner[h] = s.v_owner[h] = (uint16_t)noise_below(seed, s.n_kv_heads);
    s.n_sequences = 1 + noise_below(seed, 3);
    for (uint32_t i = 0; i < s.n_sequences; i++) {
        s.first[i] = firsts[noise_below(seed, ARRAY_LEN(firsts))];
        s.rows[i] = noise_below(seed, 2) == 0 ? 1 : 1 + noise_below(seed, 40);
    }
    return s;
}

START_TEST(all_ways_on_all_sets_agree)
{
    uint64_t seed = test_seed() + 100 + (uint64_t)_i;
    struct paged_spec spec = random_spec(&seed);
    require_all_ways_agree_on(&spec, &seed);
}
END_TEST

/* A prompt longer than the window that passes through several chunks, a big tile each. */
START_TEST(a_long_prompt_agrees_with_its_pieces)
{
    uint64_t seed = test_seed() + 200 + (uint64_t)_i;
    struct paged_spec spec = {.n_query_heads = 4,
                              .n_kv_heads = 1,
                              .d_qk = 32,
                              .d_v = 16,
                              .window = windows[2 + 2 * _i],
                              .type = KV_F16,
                              .n_sequences = 1,
                              .first = {_i % 2 == 0 ? 0 : 250},
                              .rows = {620}};
    struct paged_kv p;
    struct kernels kernels;
    paged_kv_init(&p, &spec, &seed);
    size_t n = paged_kv_out_bytes(&p) / sizeof(float);
    float *expected = mem_zalloc(n, sizeof *expected), *found = mem_zalloc(n, sizeof *found);
    ck_assert(expected != NULL && found != NULL);
    kernels_pick(UINT32_MAX, &kernels);
    paged_kv_stepwise(&p, &kernels, 1, 1, expected);
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        paged_kv_grouped(&p, &kernels, threads, found);
        require_same(found, expected, n, "whole");
        paged_kv_stepwise(&p, &kernels, threads, 100, found);
        require_same(found, expected, n, "pieces");
    }
    mem_free(expected);
    mem_free(found);
    paged_kv_release(&p);
}
END_TEST

START_TEST(scalar_is_close_to_double)
{
    uint64_t seed = test_seed() + 300 + (uint64_t)_i;
    struct paged_spec spec = random_spec(&seed);
    struct paged_kv p;
    paged_kv_init(&p, &spec, &seed);
    double error = paged_kv_error(&p, scalar_kernels());
    ck_assert_msg(error < (spec.type == KV_I8 ? 5e-5 : 2e-6), "relative error %g", error);
    paged_kv_release(&p);
}
END_TEST

/* Rows that see the token lose their finite results; all others, on either side, keep their
 * bits. */
static void require_confined(const struct paged_kv *p, const float *before, const float *after,
                             uint32_t token)
{
    size_t width = (size_t)p->spec.n_query_heads * p->spec.d_v;
    for (uint32_t r = 0; r < p->n_rows; r++) {
        uint32_t position = p->spec.first[0] + r;
        if (position < token || paged_kv_token_first(p, position) > token)
            ck_assert_mem_eq(after + r * width, before + r * width, width * sizeof *after);
        else
            for (size_t j = 0; j < width; j++)
                ck_assert(!isfinite(after[r * width + j]));
    }
}

START_TEST(infinities_reach_only_rows_whose_window_holds_them)
{
    static const float poison[][2] = {{0, INFINITY}, {NAN, 0}, {INFINITY, NAN}, {0, -INFINITY}};
    uint64_t seed = test_seed() + 400 + (uint64_t)_i;
    struct paged_spec spec = {.n_query_heads = 6,
                              .n_kv_heads = 2,
                              .d_qk = 64,
                              .d_v = 48,
                              .window = windows[(uint32_t)_i % ARRAY_LEN(windows)],
                              .type = (enum kv_type)(_i % PAGED_TYPES),
                              .k_owner = {0, 0, 0, 1, 1, 1},
                              .v_owner = {0, 0, 0, 1, 1, 1},
                              .n_sequences = 1,
                              .first = {230},
                              .rows = {90}};
    struct paged_kv p;
    struct kernels kernels;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!pick_isa(isa, &kernels))
            continue;
        paged_kv_init(&p, &spec, &seed);
        size_t n = paged_kv_out_bytes(&p) / sizeof(float);
        float *before = mem_zalloc(n, sizeof *before), *after = mem_zalloc(n, sizeof *after);
        ck_assert(before != NULL && after != NULL);
        uint32_t least = paged_kv_token_first(&p, 230);
        uint32_t token = least + noise_below(&seed, 320 - least);
        paged_kv_grouped(&p, &kernels, 2, before);
        paged_kv_plant(&p, token, poison[_i % 4][0], poison[_i % 4][1]);
        paged_kv_grouped(&p, &kernels, 2, after);
        require_confined(&p, before, after, token);
        mem_free(before);
        mem_free(after);
        paged_kv_release(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_window");
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *tc = tcase_create("windows");
    tcase_set_timeout(tc, 200);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, all_ways_on_all_sets_agree, 0, WORLDS);
    tcase_add_loop_test(tc, a_long_prompt_agrees_with_its_pieces, 0, 8);
    tcase_add_loop_test(tc, scalar_is_close_to_double, 0, WORLDS);
    tcase_add_loop_test(tc, infinities_reach_only_rows_whose_window_holds_them, 0, WORLDS);
    return suite_run(suite);
}
