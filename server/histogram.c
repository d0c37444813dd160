/* histogram.c: one set of buckets for every latency, from half a millisecond to two minutes.
 *
 * WHY     One set lets any two histograms be compared and added; nearly 1-2-5 steps keep a quantile within a factor of 1.6.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/histogram.h"

const double histogram_bounds[HISTOGRAM_BOUNDS] = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 120};

void histogram_add(struct histogram *h, double seconds)
{
    size_t i = 0;
    while (i < HISTOGRAM_BOUNDS && seconds > histogram_bounds[i])
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum_s += seconds;
}

double histogram_mean(const struct histogram *h)
{
    return h->count > 0 ? h->sum_s / (double)h->count : 0;
}
