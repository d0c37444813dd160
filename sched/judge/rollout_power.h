/* rollout_power.h: the smallest regression that each step of a plan finds in 19 of 20 rollouts, at its minimum sample.
 *
 * A step that is not ended by its minimum goes on collecting and finds smaller ones. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ROLLOUT_POWER_H
#define FOLDKV_SCHED_ROLLOUT_POWER_H

#include "sched/judge/rollout_plan.h"

/* What stable is taken to be like. Spreads are the standard deviation of the logarithm of a latency, in
 * thousandths: 250 is a p99 of 1.8 times the median. */
struct rollout_service {
    uint32_t error_ppm, good_ppm;
    uint32_t tpot_spread_milli, ttft_spread_milli;
};

struct rollout_power {
    uint64_t n_canary, n_control, n_stable; /* requests at the minimum sample */
    /* The candidate's error rate, share of good requests, and p99 against control's (in ppm: 1300000
     * is 30 % longer) from which on the step aborts. 0: nothing is found with this sample. */
    uint64_t error_ppm, good_ppm, tpot_ppm, ttft_ppm;
    /* True if the counts that an equal candidate is expected to give are enough for every test to
     * pass; if not, steps go on past their minimum. */
    bool passes_equal;
};

/* error 1000 ppm, good 990000 ppm, spreads 250 and 500. */
void rollout_service_defaults(struct rollout_service *ret_service);
void rollout_power_of(const struct rollout_plan *plan, uint32_t step,
                      const struct rollout_service *service, struct rollout_power *ret_power);

#endif
