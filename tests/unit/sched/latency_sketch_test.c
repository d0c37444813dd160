/* latency_sketch_test.c: edges, and the stated bound of what is read from a sketch. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/latency_sketch.h"

#include "sched/philox.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

START_TEST(edges_and_buckets_agree)
{
    for (uint32_t i = 0; i < SKETCH_BUCKETS; i++) {
        uint64_t edge = latency_sketch_edge(i), next = latency_sketch_edge(i + 1);
        ck_assert_uint_lt(edge, next);
        ck_assert_uint_eq(latency_sketch_bucket(edge), i);
        ck_assert_uint_eq(latency_sketch_bucket(next - 1), i);
        if (i > 0)
            ck_assert_msg((next - edge) * 128 <= edge, "bucket %u is wider than 1/128", i);
    }
    ck_assert_uint_eq(latency_sketch_edge(SKETCH_BUCKETS), (uint64_t)1 << 42);
    ck_assert_uint_eq(latency_sketch_bucket(0), 0);
    ck_assert_uint_eq(latency_sketch_bucket(UINT64_MAX), SKETCH_BUCKETS - 1);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Against the exact order statistic of the same numbers. */
START_TEST(quantiles_are_within_the_bound)
{
    enum { N = 5000 };
    static struct latency_sketch sketch;
    static uint64_t exact[N];
    static const uint32_t quantiles[] = {1, 10000, 500000, 900000, 990000, 999000, 1000000};
    for (uint32_t i = 0; i < N; i++) {
        double u = philox_uniform(test_seed(), 1, i);
        exact[i] = (uint64_t)(2000.0 + 1e9 * u * u * u);
        latency_sketch_add(&sketch, exact[i]);
    }
    qsort(exact, N, sizeof exact[0], by_value);
    ck_assert_uint_eq(sketch.n, N);
    for (size_t q = 0; q < ARRAY_LEN(quantiles); q++) {
        uint64_t rank = ((uint64_t)N * quantiles[q] + 999999) / 1000000;
        uint64_t right = exact[rank - 1], read = latency_sketch_quantile(&sketch, quantiles[q]);
        ck_assert_uint_gt(read, right);
        ck_assert_msg((double)read <= (double)right * (1.0 + 1.0 / 128) + 1.0,
                      "quantile %u: %llu, exact %llu", quantiles[q], (unsigned long long)read,
                      (unsigned long long)right);
    }
}
END_TEST

START_TEST(an_empty_sketch_says_nothing)
{
    static const struct latency_sketch sketch;
    ck_assert_uint_eq(latency_sketch_quantile(&sketch, 990000), 0);
}
END_TEST

START_TEST(a_full_bucket_stays_full)
{
    static struct latency_sketch sketch;
    sketch.bucket[5] = UINT32_MAX;
    sketch.n = UINT32_MAX;
    latency_sketch_add(&sketch, latency_sketch_edge(5));
    ck_assert_uint_eq(sketch.bucket[5], UINT32_MAX);
    ck_assert_uint_eq(sketch.n, UINT32_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("latency_sketch");
    TCase *tc = tcase_create("latency_sketch");
    tcase_add_test(tc, edges_and_buckets_agree);
    tcase_add_test(tc, quantiles_are_within_the_bound);
    tcase_add_test(tc, an_empty_sketch_says_nothing);
    tcase_add_test(tc, a_full_bucket_stays_full);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
