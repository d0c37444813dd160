/* rollout_power.c: the power of a step, from the very tests that judge it.
 *
 * WHY     A canary that could not have seen a fault says nothing by seeing none; an operator should know
 *         before the start what a step can see.
 * HOW     The counts that a regression of some size would give are set to what 19 of 20 rollouts
 *         exceed (1.645 standard deviations of the difference, shared between the arms by their
 *         variances), put through sequential_test, and the size is found by halving. Latencies are
 *         taken as log-normal for this forecast only; the tests themselves assume no shape. The test
 *         of a tail takes the least of many thresholds, and chance may favour the candidate at
 *         another one than the expected: its counts are set to what 39 of 40 exceed, as if two
 *         thresholds stood for all.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_power.h"

#include <math.h>

#include "sched/judge/sequential_test.h"

enum { HALVINGS = 40 };
static const double worst_of_20 = 1.645, worst_of_40 = 1.96, million = 1e6;

void rollout_service_defaults(struct rollout_service *ret_service)
{
    *ret_service = (struct rollout_service){
        .error_ppm = 1000, .good_ppm = 990000, .tpot_spread_milli = 250, .ttft_spread_milli = 500};
}

/* What a question is asked of. */
struct sample {
    const struct rollout_plan *plan;
    const struct rollout_service *service;
    struct rollout_power *power;
    double needed;
};

/* The count a chance gives, moved by a number of standard deviations. */
static struct trials shifted(uint64_t n, double chance, double deviations)
{
    double hits = (double)n * chance + deviations * sqrt((double)n * chance * (1.0 - chance));
    return (struct trials){(uint64_t)fmin((double)n, fmax(0.0, round(hits))), n};
}

/* How far arm a's count is moved when its rate varies by a and the other's by b (variances): the
 * likeliest way in which their difference is the worst of so many. */
static double share(double worst, double a, double b)
{
    return worst * sqrt(a / (a + b));
}

static double variance(uint64_t n, double chance)
{
    return fmax(chance * (1.0 - chance), 1e-9) / (double)n;
}

static bool finds_errors(const struct sample *sample, double rate)
{
    double stable_rate = sample->service->error_ppm / million;
    double a = variance(sample->power->n_canary, rate);
    double b = variance(sample->power->n_stable, stable_rate);
    struct sequential_line line = {1.0, sample->plan->thresholds.error_rate_margin_ppm / million};
    return sequential_over_line(shifted(sample->power->n_canary, rate, -share(worst_of_20, a, b)),
                                shifted(sample->power->n_stable, stable_rate, share(worst_of_20, b, a)),
                                line) >= sample->needed;
}

/* bad is the share of requests that miss the SLO. */
static bool finds_bad(const struct sample *sample, double bad)
{
    double good = sample->service->good_ppm / million;
    double a = variance(sample->power->n_canary, bad);
    double b = variance(sample->power->n_control, good);
    struct sequential_line line = {1.0 - sample->plan->thresholds.goodput_eps_ppm / million, 0.0};
    return sequential_under_line(shifted(sample->power->n_canary, 1.0 - bad, share(worst_of_20, a, b)),
                                 shifted(sample->power->n_control, good, -share(worst_of_20, b, a)),
                                 line) >= sample->needed;
}

/* A sketch whose counts from each bucket on are those of a log-normal, moved. */
static void fill(struct latency_sketch *sketch, uint64_t n, double median_ns, double spread,
                 double deviations)
{
    uint64_t above = 0;
    memset(sketch, 0, sizeof *sketch);
    for (uint32_t i = SKETCH_BUCKETS; i-- > 0;) {
        double z = i == 0 ? -INFINITY : log((double)latency_sketch_edge(i) / median_ns) / spread;
        uint64_t from = shifted(n, 0.5 * erfc(z / sqrt(2.0)), deviations).n_hits;
        if (from <= above)
            continue;
        sketch->bucket[i] = (uint32_t)(from - above);
        above = from;
    }
    sketch->n = above;
}

struct tails {
    struct latency_sketch canary, control;
    double spread;
    uint32_t eps_ppm;
};

static bool finds_tail(const struct sample *sample, struct tails *tails, double factor)
{
    double a = 1.0 / (double)sample->power->n_canary, b = 1.0 / (double)sample->power->n_control;
    fill(&tails->canary, sample->power->n_canary, 1e7 * factor, tails->spread, -share(worst_of_40, a, b));
    fill(&tails->control, sample->power->n_control, 1e7, tails->spread, share(worst_of_40, b, a));
    return sequential_p99_over(&tails->canary, &tails->control, 1000000 + tails->eps_ppm) >=
           sample->needed;
}

/* The least of low to high that is found, in ppm; 0 if high is not. */
static uint64_t least_found(const struct sample *sample, struct tails *tails,
                            bool (*finds)(const struct sample *, double), double low, double high)
{
    if (!(tails != NULL ? finds_tail(sample, tails, high) : finds(sample, high)))
        return 0;
    for (int i = 0; i < HALVINGS && high - low > 0.5 / million; i++) {
        double middle = (low + high) / 2.0;
        bool is_found = tails != NULL ? finds_tail(sample, tails, middle) : finds(sample, middle);
        *(is_found ? &high : &low) = middle;
    }
    return (uint64_t)ceil(high * million);
}

/* An equal candidate's expected evidence, put through each test. */
static bool passes_equal(const struct sample *sample, struct tails *tails)
{
    const struct rollout_power *power = sample->power;
    const struct gate_thresholds *t = &sample->plan->thresholds;
    double error = sample->service->error_ppm / million, good = sample->service->good_ppm / million;
    double least = sequential_under_line(
        shifted(power->n_canary, error, 0.0), shifted(power->n_stable, error, 0.0),
        (struct sequential_line){1.0, t->error_rate_margin_ppm / million});
    least =
        fmin(least, sequential_over_line(
                        shifted(power->n_canary, good, 0.0), shifted(power->n_control, good, 0.0),
                        (struct sequential_line){1.0 - t->goodput_eps_ppm / million, 0.0}));
    for (int i = 0; i < 2; i++) {
        double spread =
            (i == 0 ? sample->service->tpot_spread_milli : sample->service->ttft_spread_milli) /
            1e3;
        fill(&tails->canary, power->n_canary, 1e7, spread, 0.0);
        fill(&tails->control, power->n_control, 1e7, spread, 0.0);
        uint32_t eps_ppm = i == 0 ? t->tpot_p99_eps_ppm : t->ttft_p99_eps_ppm;
        least =
            fmin(least, sequential_p99_under(&tails->canary, &tails->control, 1000000 + eps_ppm));
    }
    return least >= gate_needed_to_pass();
}

/* How many of each arm have ended when the smaller has its minimum. */
static void set_counts(const struct rollout_plan *plan, uint32_t step, struct rollout_power *power)
{
    uint64_t weight = plan->steps[step].weight_bp;
    uint64_t control = arm_control_bp(plan->steps[step].weight_bp, plan->cap_bp);
    power->n_control = plan->steps[step].min_requests;
    power->n_canary = power->n_control * weight / control;
    power->n_stable = power->n_control * (ARM_BUCKETS - weight) / control;
}

void rollout_power_of(const struct rollout_plan *plan, uint32_t step,
                      const struct rollout_service *service, struct rollout_power *ret_power)
{
    static const double longest = 16.0;
    struct tails tails; /* 33 KiB */
    ASSERT(step < plan->n_steps);
    *ret_power = (struct rollout_power){0};
    set_counts(plan, step, ret_power);
    struct sample sample = {plan, service, ret_power, gate_needed_to_fail(plan->n_steps)};
    double error = service->error_ppm / million, bad = 1.0 - service->good_ppm / million;
    ret_power->error_ppm = least_found(&sample, NULL, finds_errors, error, 1.0);
    uint64_t bad_ppm = least_found(&sample, NULL, finds_bad, bad, 1.0);
    ret_power->good_ppm = bad_ppm == 0 ? 0 : 1000000 - bad_ppm;
    tails.spread = service->tpot_spread_milli / 1e3;
    tails.eps_ppm = plan->thresholds.tpot_p99_eps_ppm;
    ret_power->tpot_ppm = least_found(&sample, &tails, NULL, 1.0, longest);
    tails.spread = service->ttft_spread_milli / 1e3;
    tails.eps_ppm = plan->thresholds.ttft_p99_eps_ppm;
    ret_power->ttft_ppm = least_found(&sample, &tails, NULL, 1.0, longest);
    ret_power->passes_equal = passes_equal(&sample, &tails);
}
