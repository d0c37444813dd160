/* sequential_test.c: mixture likelihood ratios, and how two of them compare two arms.
 *
 * WHY     A rollout is watched all the time. A test that is right only at one planned moment is wrong
 *         when it is read at every tick; this one is right at all of them.
 * HOW     For an odds ratio r the likelihood ratio of trials against p is r^hits / (1 + p (r-1))^n; if
 *         the chance is p' its factor's mean is (1 + p'(r-1)) / (1 + p(r-1)): at most 1 for p' <= p
 *         when r > 1, and for p' >= p when r < 1. An even mixture over ratios from 1.06 to 33 needs no
 *         guess of the effect and costs at most log 38; half of it is the constant 1, so that much data
 *         for the hypothesis never weighs more than log 2 against another factor.
 *         Two arms: if a <= scale b + shift, then p = b is a number for which "a's chance is at most
 *         scale p + shift" and "b's is at least p" are both true; the product of their two ratios
 *         is then fair, so the least product over all p must reach 1/alpha. The least is bounded from
 *         below over cells of p, because each factor is monotone.
 *         Tails: the same with a threshold c in place of p. If p99(a) <= s p99(b), then for
 *         c = s p99(b) at most 1 % of a lie above c, and at least 1 % of s b at or above it.
 *         c runs over the buckets of a's sketch, and each count is taken from the edge at which it
 *         weakens the evidence. Spans of cells that cannot hold the least are
 *         not looked into, nor is what is beyond doubt either way.
 * ALWAYS  (1) What is rounded is rounded against rejection.
 * NOT     Requests that wait for one another are not independent; the slack between a threshold and
 *         equality is what absorbs that.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/sequential_test.h"

#include <math.h>

enum { RATIOS = 19, CELLS = 1024 };
static const double tail = 0.01;
static const double enough = SEQUENTIAL_ENOUGH;

/* 1 + 2^(j/2 - 4): from 1.0625 to 33. */
static double ratio(int j)
{
    double half = (j & 1) != 0 ? 1.4142135623730951 : 1.0;
    return 1.0 + ldexp(half, j / 2 - 4);
}

/* log of half of one plus half of the mean of exp. */
static double mixture(const double terms[RATIOS])
{
    double most = 0.0;
    for (int j = 0; j < RATIOS; j++)
        most = terms[j] > most ? terms[j] : most;
    double sum = most < 40.0 ? RATIOS * exp(-most) : 0.0;
    for (int j = 0; j < RATIOS; j++)
        if (terms[j] > most - 40.0)
            sum += exp(terms[j] - most);
    return most + log(sum / (2 * RATIOS));
}

/* Logs that a chance needs, so that a scan over one chance takes them once. */
struct factors {
    double hit[RATIOS], trial[RATIOS];
};

static void factors_above(struct factors *factors, double p)
{
    for (int j = 0; j < RATIOS; j++) {
        factors->hit[j] = log(ratio(j));
        factors->trial[j] = log1p(p * (ratio(j) - 1.0));
    }
}

static void factors_below(struct factors *factors, double p)
{
    for (int j = 0; j < RATIOS; j++) {
        factors->hit[j] = -log(ratio(j));
        factors->trial[j] = log1p(p * (1.0 / ratio(j) - 1.0));
    }
}

static double evidence(const struct factors *factors, struct trials trials)
{
    double terms[RATIOS];
    for (int j = 0; j < RATIOS; j++)
        terms[j] = (double)trials.n_hits * factors->hit[j] - (double)trials.n * factors->trial[j];
    return mixture(terms);
}

double sequential_above(struct trials trials, double p)
{
    struct factors factors;
    factors_above(&factors, p);
    return evidence(&factors, trials);
}

double sequential_below(struct trials trials, double p)
{
    struct factors factors;
    factors_below(&factors, p);
    return evidence(&factors, trials);
}

/* What the evidence of cells first to last-1 is at least, and what it is found in. */
struct search {
    double (*bound)(const struct search *search, uint32_t first, uint32_t last);
    struct trials a, b;
    struct sequential_line line;
    const uint64_t *a_from, *b_from; /* how many lie in bucket i or above */
    struct factors a_factors, b_factors;
    uint32_t stretch_ppm;
};

/* The least bound of a single cell, or best if none is less. A span whose bound is no less than the
 * least cell so far holds no lesser one; and once a cell has no evidence, the least has none. */
static double least_cell(const struct search *search, uint32_t first, uint32_t last, double best)
{
    if (best <= 0.0)
        return best;
    if (last - first == 1)
        return fmin(best, search->bound(search, first, last));
    uint32_t middle = first + (last - first) / 2;
    double left = search->bound(search, first, middle);
    double right = search->bound(search, middle, last);
    if (left < right && left < best)
        best = least_cell(search, first, middle, best);
    if (right < best)
        best = least_cell(search, middle, last, best);
    if (left >= right && left < best)
        best = least_cell(search, first, middle, best);
    return best;
}

static double least_of(const struct search *search, uint32_t cells)
{
    return fmax(0.0, least_cell(search, 0, cells, enough));
}

/* Edges of cells over the chance of arm b: even in the log of the odds, from 1e-9 to 1 - 1e-9, with 0
 * and 1 as the outermost. */
static double cell_edge(uint32_t i)
{
    if (i == 0)
        return 0.0;
    if (i == CELLS)
        return 1.0;
    double log_odds = 41.4 * ((double)i / CELLS - 0.5);
    return 1.0 / (1.0 + exp(-log_odds));
}

static double on_line(struct sequential_line line, double p)
{
    return fmin(1.0, line.scale * p + line.shift);
}

static double over_line(const struct search *search, uint32_t first, uint32_t last)
{
    return sequential_above(search->a, on_line(search->line, cell_edge(last))) +
           sequential_below(search->b, cell_edge(first));
}

static double under_line(const struct search *search, uint32_t first, uint32_t last)
{
    return sequential_below(search->a, on_line(search->line, cell_edge(first))) +
           sequential_above(search->b, cell_edge(last));
}

double sequential_over_line(struct trials a, struct trials b, struct sequential_line line)
{
    struct search search = {.bound = over_line, .a = a, .b = b, .line = line};
    return least_of(&search, CELLS);
}

double sequential_under_line(struct trials a, struct trials b, struct sequential_line line)
{
    struct search search = {.bound = under_line, .a = a, .b = b, .line = line};
    return least_of(&search, CELLS);
}

/* The bucket of b in which edge i of a's sketch lies once the stretch is taken off. */
static uint32_t unstretched(const struct search *search, uint32_t i)
{
    unsigned __int128 ns = (unsigned __int128)latency_sketch_edge(i) * 1000000u;
    return latency_sketch_bucket((uint64_t)(ns / search->stretch_ppm));
}

/* c from the edge of first to below that of last: fewest of a above c, most of b at or above it. */
static double p99_over(const struct search *search, uint32_t first, uint32_t last)
{
    struct trials a = {search->a_from[last], search->a.n};
    struct trials b = {search->b_from[unstretched(search, first)], search->b.n};
    return evidence(&search->a_factors, a) + evidence(&search->b_factors, b);
}

/* Most of a above c, fewest of b above it. */
static double p99_under(const struct search *search, uint32_t first, uint32_t last)
{
    bool is_open = last == SKETCH_BUCKETS; /* the last bucket has no upper edge */
    struct trials a = {search->a_from[first], search->a.n};
    struct trials b = {is_open ? 0 : search->b_from[unstretched(search, last) + 1], search->b.n};
    return evidence(&search->a_factors, a) + evidence(&search->b_factors, b);
}

static void count_from(const struct latency_sketch *sketch, uint64_t from[SKETCH_BUCKETS + 1])
{
    from[SKETCH_BUCKETS] = 0;
    for (uint32_t i = SKETCH_BUCKETS; i-- > 0;)
        from[i] = from[i + 1] + sketch->bucket[i];
}

static double search_p99(struct search *search, const struct latency_sketch *a,
                         const struct latency_sketch *b)
{
    uint64_t a_from[SKETCH_BUCKETS + 1], b_from[SKETCH_BUCKETS + 1];
    count_from(a, a_from);
    count_from(b, b_from);
    search->a_from = a_from;
    search->b_from = b_from;
    search->a.n = a->n;
    search->b.n = b->n;
    return least_of(search, SKETCH_BUCKETS);
}

double sequential_p99_over(const struct latency_sketch *a, const struct latency_sketch *b,
                           uint32_t stretch_ppm)
{
    struct search search = {.bound = p99_over, .stretch_ppm = stretch_ppm};
    factors_above(&search.a_factors, tail);
    factors_below(&search.b_factors, tail);
    return search_p99(&search, a, b);
}

double sequential_p99_under(const struct latency_sketch *a, const struct latency_sketch *b,
                            uint32_t stretch_ppm)
{
    struct search search = {.bound = p99_under, .stretch_ppm = stretch_ppm};
    factors_below(&search.a_factors, tail);
    factors_above(&search.b_factors, tail);
    return search_p99(&search, a, b);
}
