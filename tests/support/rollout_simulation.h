/* rollout_simulation.h: whole rollouts in simulated time: people arrive, are routed by the real hash, are answered by
 * distributions, and the real machine decides.
 *
 * Everything is a function of the seed. Errors in the plan's favour are impossible here: the arms are
 * told apart by nothing but what the candidate's factors say. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_ROLLOUT_SIMULATION_H
#define FOLDKV_TESTS_ROLLOUT_SIMULATION_H

#include "sched/judge/rollout.h"

struct simulation {
    const struct rollout_plan *plan;
    /* Stable's: medians, spread as the standard deviation of the logarithm, chance of an error. */
    double ttft_ms, ttft_spread, tpot_ms, tpot_spread, error_rate;
    /* The candidate's: factors on both times, and its own chance of an error. */
    double ttft_factor, tpot_factor, candidate_error_rate;
    double requests_per_second;
};

struct simulation_result {
    struct rollout rollout; /* as it ended: promoted, rolled back, or paused */
    bool was_paused;
    uint64_t n_requests, n_canary, n_ticks;
    uint64_t ms; /* simulated */
};

/* A service without any difference between the arms, under the plan. */
struct simulation simulation_equal(const struct rollout_plan *plan);
void simulation_run(const struct simulation *simulation, uint64_t seed,
                    struct simulation_result *ret_result);

#endif
