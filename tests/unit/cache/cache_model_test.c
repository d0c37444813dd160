/* Cache model test: random operations against the naive model, and proof that all of them happened.
 *
 * The seed is printed; FOLDKV_TEST_SEED repeats a run, FOLDKV_TEST_LONG makes it twenty times as
 * long. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_model.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { N_GAMES = 112, GAME_BYTES = 6000, LONG_FACTOR = 20 };

START_TEST(agrees_with_the_naive_model)
{
    const char *is_long = getenv("FOLDKV_TEST_LONG");
    int n_games = is_long != NULL && *is_long != '\0' ? N_GAMES * LONG_FACTOR : N_GAMES;
    uint64_t seed = test_seed();
    struct cache_model_counts counts = {0};
    static uint8_t bytes[GAME_BYTES];
    for (int game = 0; game < n_games; game++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)noise_below(&seed, 256);
        bytes[0] = (uint8_t)game; /* every pool size in turn */
        cache_model_play(bytes, sizeof bytes, &counts);
    }
    printf("%llu operations, %llu opens, %llu blocks shared, %llu heads copied (%llu late, %llu "
           "from running tails), "
           "%llu exchanged, %llu evicted, %llu tails covered, %llu given back behind windows, %llu "
           "hits over gaps, %llu made shorter\n",
           (unsigned long long)counts.operations, (unsigned long long)counts.opens,
           (unsigned long long)counts.shared_blocks, (unsigned long long)counts.copied_heads,
           (unsigned long long)counts.late_moves, (unsigned long long)counts.tail_sources,
           (unsigned long long)counts.exchanged_blocks, (unsigned long long)counts.evictions,
           (unsigned long long)counts.covered_tails, (unsigned long long)counts.given_back,
           (unsigned long long)counts.window_hits, (unsigned long long)counts.shortened);
    const uint64_t *each = (const uint64_t *)&counts;
    for (size_t i = 0; i < sizeof counts / sizeof *each; i++)
        ck_assert_msg(each[i] > 0,
                      "counter %zu of cache_model_counts stayed at 0: the run has not tested it",
                      i);
}
END_TEST

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    fflush(stdout);
    Suite *suite = suite_create("cache_model");
    TCase *tcase = tcase_create("random");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, agrees_with_the_naive_model);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
