/* bench_time.c: the monotonic clock in seconds, and the median of a few values. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench_time.h"

double bench_time_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, uint32_t n)
{
    ASSERT(n > 0);
    qsort(values, n, sizeof values[0], compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
