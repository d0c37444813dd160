/* histogram.h: counts of seconds in fixed buckets, as Prometheus wants them. Plain values; one thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_HISTOGRAM_H
#define FOLDKV_SERVER_HISTOGRAM_H

#include "config/base.h"

enum { HISTOGRAM_BOUNDS = 18 };

/* Upper bounds in seconds, ascending; one more bucket, +Inf, is behind them. */
extern const double histogram_bounds[HISTOGRAM_BOUNDS];

struct histogram {
    uint64_t buckets[HISTOGRAM_BOUNDS + 1]; /* each its own, not summed */
    uint64_t count;
    double sum_s;
};

void histogram_add(struct histogram *h, double seconds);
/* sum / count; 0 if empty. */
double histogram_mean(const struct histogram *h);

#endif
