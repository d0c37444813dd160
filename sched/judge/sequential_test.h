/* sequential_test.h: evidence that holds at whatever moment one looks: mixture likelihood ratios over
 * counts.
 *
 * Each function returns the log of a number E that starts at 1 and, if the hypothesis is true, is on average at most 1
 * for ever: the chance that it EVER reaches 1/alpha is at most alpha (Ville). So one may look after
 * every request and stop when one likes; E >= 1/alpha rejects the hypothesis. Trials are taken as
 * independent given the past. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SEQUENTIAL_TEST_H
#define FOLDKV_SCHED_SEQUENTIAL_TEST_H

#include "sched/judge/latency_sketch.h"

/* Hits among trials. */
struct trials {
    uint64_t n_hits, n;
};

/* Against "the chance of a hit is at most p", for p in (0, 1). Falls as p rises. */
double sequential_above(struct trials trials, double p);
/* Against "the chance of a hit is at least p". Rises with p. */
double sequential_below(struct trials trials, double p);

/* Two arms. Each of the following gives the log of E cut to 0 (no evidence) and SEQUENTIAL_ENOUGH. */
enum { SEQUENTIAL_ENOUGH = 64 };

/* Two arms whose chances are a and b, compared along a line: a against scale * b + shift. */
struct sequential_line {
    double scale, shift; /* scale in (0, 1], shift in [0, 1) */
};
/* Against "a <= scale * b + shift". */
double sequential_over_line(struct trials a, struct trials b, struct sequential_line line);
/* Against "a >= scale * b + shift". */
double sequential_under_line(struct trials a, struct trials b, struct sequential_line line);

/* The 99th percentile of a against stretch_ppm / 10^6 times that of b, whatever the distributions. The
 * buckets of the sketches cost power (as if the stretch were 1.6 % off), never validity. */
/* Against "a's p99 is at most the stretched p99 of b". */
double sequential_p99_over(const struct latency_sketch *a, const struct latency_sketch *b,
                           uint32_t stretch_ppm);
/* Against "a's p99 is more than the stretched p99 of b". */
double sequential_p99_under(const struct latency_sketch *a, const struct latency_sketch *b,
                            uint32_t stretch_ppm);

#endif
