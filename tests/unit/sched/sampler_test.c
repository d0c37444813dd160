/* sampler_test.c: the sampler against one that sorts everything, and against the probabilities
 * themselves. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/sampler.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/kernel.h"
#include "sched/philox.h"
#include "tests/support/noise.h"
#include "tests/support/suite_run.h"

enum { VOCAB_MOST = 49152 };

static const struct sampling plain = {.temperature = 1.0f, .top_p = 1.0f};

/* Picked once: asking the processor what it is can take longer than a draw. [ISA_COUNT] is the best
 * of all. */
static struct vector_kernels picked[ISA_COUNT + 1];

static void pick_kernels(void)
{
    for (int i = 0; i <= ISA_COUNT; i++) {
        struct kernels kernels;
        kernels_pick(i < ISA_COUNT ? 1u << i : UINT32_MAX, &kernels);
        picked[i] = kernels.vector;
    }
}

static struct sampler *sampler_of(uint32_t vocab)
{
    struct sampler *sampler = NULL;
    ck_assert_int_eq(sampler_new(vocab, &sampler), OK);
    return sampler;
}

static uint32_t pick(struct sampler *sampler, const float *logits, const struct sampling *p,
                     uint32_t position)
{
    uint32_t id = UINT32_MAX;
    if (sampler_pick(sampler, logits, p, 0, position, &picked[ISA_COUNT], &id) != OK)
        ck_abort_msg("the sampler refused finite logits");
    return id;
}

/* ---- the sampler that sorts ---- */

struct ranked {
    uint32_t id;
    float logit;
    float weight;
};

static int by_rank(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

/* How many of the best are kept; ranked is in order. */
static uint32_t naive_filter(const struct ranked *ranked, uint32_t vocab, const struct sampling *p)
{
    uint32_t n = p->top_k > 0 && p->top_k < vocab ? p->top_k : vocab;
    double total = 0.0;
    for (uint32_t i = 0; i < n; i++)
        total += (double)ranked[i].weight;
    if (p->top_p < 1.0f) {
        double sum = (double)ranked[0].weight;
        uint32_t kept = 1;
        while (kept < n && sum < (double)p->top_p * total)
            sum += (double)ranked[kept++].weight;
        n = kept;
    }
    while (n > 1 && ranked[n - 1].weight < p->min_p)
        n--;
    return n;
}

/* Weights come from scalar: what is under test is who is kept and who is drawn. */
static uint32_t naive_pick(const float *logits, uint32_t vocab, const struct sampling *p,
                           uint32_t position)
{
    const struct vector_kernels *scalar = &picked[ISA_SCALAR];
    struct ranked *ranked = mem_alloc(vocab * sizeof *ranked);
    float *weights = mem_alloc(vocab * sizeof *weights);
    float *tiles = mem_alloc(logits_tiles(vocab) * sizeof *tiles);
    struct logits_peak peak;
    scalar->logits_peak(logits, vocab, tiles, &peak);
    scalar->logits_weigh(logits, vocab, peak.max, 1.0f / p->temperature, weights, tiles);
    for (uint32_t i = 0; i < vocab; i++)
        ranked[i] = (struct ranked){.id = i, .logit = logits[i], .weight = weights[i]};
    qsort(ranked, vocab, sizeof *ranked, by_rank);
    uint32_t n = naive_filter(ranked, vocab, p);
    for (uint32_t i = n; i < vocab; i++)
        weights[ranked[i].id] = 0.0f;
    double total = 0.0;
    for (uint32_t i = 0; i < vocab; i++)
        total += (double)weights[i];
    double target = philox_uniform(p->seed, 0, position) * total;
    double sum = (double)weights[0];
    uint32_t id = 0;
    while (id + 1 < vocab && sum <= target)
        sum += (double)weights[++id];
    mem_free(ranked);
    mem_free(weights);
    mem_free(tiles);
    return id;
}

/* Logits of several kinds: smooth, peaked, with many ties, nearly flat. */
static void fill(float *logits, uint32_t vocab, uint32_t kind, uint64_t *state)
{
    noise_fill(logits, vocab, kind == 3 ? -0.01 : -9.0, kind == 3 ? 0.01 : 9.0, state);
    for (uint32_t i = 0; kind == 1 && i < vocab; i++)
        logits[i] = noise_below(state, 50) == 0 ? logits[i] + 8.0f : logits[i] - 6.0f;
    for (uint32_t i = 0; kind == 2 && i < vocab; i++)
        logits[i] = (float)(int)(logits[i] * 0.5f);
}

static struct sampling any_sampling(uint32_t vocab, uint64_t *state)
{
    static const float temperatures[] = {1.0f, 0.7f, 0.2f, 1.5f, 2.0f};
    static const float top_ps[] = {1.0f, 0.95f, 0.9f, 0.5f, 0.1f, 0.0f, 0.999f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 0.5f, 1.0f};
    uint32_t top_k =
        noise_below(state, 3) == 0 ? 1 + noise_below(state, vocab) : noise_below(state, 60);
    return (struct sampling){.temperature =
                                 temperatures[noise_below(state, ARRAY_LEN(temperatures))],
                             .top_p = top_ps[noise_below(state, ARRAY_LEN(top_ps))],
                             .min_p = min_ps[noise_below(state, ARRAY_LEN(min_ps))],
                             .top_k = noise_below(state, 2) == 0 ? 0 : top_k,
                             .seed = noise_next(state)};
}

static void compare(uint32_t vocab, int rounds, uint64_t *state)
{
    float *logits = mem_alloc(vocab * sizeof *logits);
    struct sampler *sampler = sampler_of(vocab);
    for (int round = 0; round < rounds; round++) {
        uint32_t kind = noise_below(state, 4);
        struct sampling p = any_sampling(vocab, state);
        fill(logits, vocab, kind, state);
        uint32_t want = naive_pick(logits, vocab, &p, (uint32_t)round);
        uint32_t got = pick(sampler, logits, &p, (uint32_t)round);
        if (got != want)
            ck_abort_msg(
                "vocab %u round %d kind %u temperature %g top_k %u top_p %g min_p %g: %u, want %u",
                vocab, round, kind, (double)p.temperature, p.top_k, (double)p.top_p,
                (double)p.min_p, got, want);
    }
    sampler_free(&sampler);
    mem_free(logits);
}

START_TEST(draws_as_the_one_that_sorts)
{
    static const uint32_t vocabs[] = {1, 2, 3, 16, 17, 255, 256, 257, 513, 2000};
    uint64_t state = 10;
    for (size_t v = 0; v < ARRAY_LEN(vocabs); v++)
        compare(vocabs[v], vocabs[v] < 300 ? 1500 : 400, &state);
}
END_TEST

START_TEST(draws_as_the_one_that_sorts_in_a_real_vocabulary)
{
    uint64_t state = 11;
    compare(VOCAB_MOST, 40, &state);
}
END_TEST

/* ---- what may be drawn ---- */

/* Draws often and tells which ids ever came. */
static void draw_often(uint32_t vocab, const float *logits, struct sampling p, uint32_t n,
                       uint32_t *count)
{
    struct sampler *sampler = sampler_of(vocab);
    memset(count, 0, vocab * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[pick(sampler, logits, &p, i)]++;
    sampler_free(&sampler);
}

static void assert_only_first(const uint32_t *count, uint32_t vocab, uint32_t n_kept)
{
    for (uint32_t i = 0; i < vocab; i++)
        ck_assert_msg((count[i] != 0) == (i < n_kept), "id %u came %u times", i, count[i]);
}

START_TEST(ties_are_kept_by_lowest_id)
{
    float logits[300];
    uint32_t count[300];
    for (int i = 0; i < 300; i++)
        logits[i] = i % 2 != 0 ? 0.0f : -0.0f; /* equal all the same */
    struct sampling p = plain;
    p.top_k = 5;
    draw_often(300, logits, p, 500, count);
    assert_only_first(count, 300, 5);
    p.top_k = 0;
    p.top_p = 0.029f; /* of 300 equal ones: 8.7, so 9 */
    draw_often(300, logits, p, 1000, count);
    assert_only_first(count, 300, 9);
    p.top_p = 1.0f;
    p.top_k = 299;
    draw_often(300, logits, p, 8000, count);
    assert_only_first(count, 300, 299);
}
END_TEST

/* Probabilities 1/2, 1/4, 1/8, ...: each filter's edge is plain to see. */
START_TEST(filters_cut_where_they_should)
{
    enum { N = 12 };
    float logits[N];
    uint32_t count[N];
    for (int i = 0; i < N; i++)
        logits[i] = -0.69314718f * (float)i;
    static const struct {
        struct sampling p;
        uint32_t kept;
    } cases[] = {
        {{.temperature = 1.0f, .top_p = 0.4f}, 1},
        {{.temperature = 1.0f, .top_p = 0.6f}, 2},
        {{.temperature = 1.0f, .top_p = 0.9f}, 4},
        {{.temperature = 1.0f, .top_p = 0.9f, .top_k = 3}, 3}, /* 4/7, 6/7, 7/7 */
        {{.temperature = 1.0f, .top_p = 0.8f, .top_k = 3}, 2},
        {{.temperature = 1.0f, .top_p = 1.0f, .top_k = 3}, 3},
        {{.temperature = 1.0f, .top_p = 1.0f, .min_p = 0.2f}, 3}, /* 1, 1/2, 1/4 */
        {{.temperature = 1.0f, .top_p = 0.6f, .min_p = 0.2f}, 2},
        {{.temperature = 2.0f, .top_p = 1.0f, .min_p = 0.2f}, 5}, /* 1, 0.71, 0.5, 0.35, 0.25 */
        {{.temperature = 0.5f, .top_p = 0.76f}, 2},               /* 3/4, 3/16, ... */
        {{.temperature = 1.0f, .top_p = 0.0f}, 1},
        {{.temperature = 1.0f, .top_p = 1.0f, .min_p = 1.0f}, 1},
        {{.temperature = 1.0f, .top_p = 1.0f, .top_k = 1}, 1},
    };
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        draw_often(N, logits, cases[c].p, 2000, count);
        assert_only_first(count, N, cases[c].kept);
    }
}
END_TEST

/* Frequencies against exp() in double: chi square with 39 degrees of freedom stays under 72 but
 * once in a thousand seeds. */
START_TEST(frequencies_are_the_probabilities)
{
    enum { N = 40, DRAWS = 60000 };
    static const float temperatures[] = {1.0f, 0.6f, 1.8f};
    float logits[N];
    uint32_t count[N];
    uint64_t state = 12;
    noise_fill(logits, N, -2.0, 1.0, &state);
    struct sampling p = plain;
    p.temperature = temperatures[_i % 3];
    p.top_p = _i < 3 ? 1.0f : 0.999999f; /* by tiles, then by candidates, which here are all */
    p.seed = 99;
    draw_often(N, logits, p, DRAWS, count);
    double total = 0.0;
    double chi2 = 0.0;
    for (int i = 0; i < N; i++)
        total += exp((double)logits[i] / (double)p.temperature);
    for (int i = 0; i < N; i++) {
        double want = DRAWS * exp((double)logits[i] / (double)p.temperature) / total;
        chi2 += (count[i] - want) * (count[i] - want) / want;
    }
    ck_assert_double_lt(chi2, 72.0);
    ck_assert_double_gt(chi2, 15.0); /* too good would be as wrong */
}
END_TEST

/* ---- exactness and edges ---- */

START_TEST(every_set_draws_the_same)
{
    float *logits = mem_alloc(VOCAB_MOST * sizeof *logits);
    struct sampler *one = sampler_of(VOCAB_MOST);
    struct sampler *other = sampler_of(VOCAB_MOST);
    uint64_t state = 13;
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t id = 0;
        uint32_t again = 0;
        struct sampling p = any_sampling(VOCAB_MOST, &state);
        fill(logits, VOCAB_MOST, round % 4, &state);
        ck_assert_int_eq(sampler_pick(one, logits, &p, 3, round, &picked[ISA_SCALAR], &id), OK);
        for (int isa = 1; isa < ISA_COUNT; isa++) {
            ck_assert_int_eq(sampler_pick(other, logits, &p, 3, round, &picked[isa], &again), OK);
            ck_assert_uint_eq(again, id);
        }
    }
    sampler_free(&one);
    sampler_free(&other);
    mem_free(logits);
}
END_TEST

START_TEST(cold_is_greedy)
{
    static const float cold[] = {0.0f, 1e-30f, 1e-40f, 1e-45f};
    enum { N = 777 };
    float logits[N];
    uint64_t state = 14;
    struct sampler *sampler = sampler_of(N);
    for (int round = 0; round < 100; round++) {
        noise_fill(logits, N, -5.0, 5.0, &state);
        uint32_t first = noise_below(&state, N);
        logits[first] = 6.0f;
        logits[first + noise_below(&state, N - first)] = 6.0f;
        struct sampling p = plain;
        p.temperature = cold[round % 4];
        p.seed = (uint64_t)round;
        if (round % 4 != 1) /* where equals remain equal, the lowest wins only when greedy */
            ck_assert_uint_eq(pick(sampler, logits, &p, 0), first);
        else
            ck_assert(logits[pick(sampler, logits, &p, 0)] == 6.0f);
    }
    sampler_free(&sampler);
}
END_TEST

START_TEST(extreme_but_finite_logits_are_drawn_from)
{
    static const float edges[] = {3.4e38f, -3.4e38f, 1e30f, -1e30f, 0.0f, 1e-45f};
    float logits[600];
    uint64_t state = 15;
    struct sampler *sampler = sampler_of(600);
    for (int round = 0; round < 400; round++) {
        struct sampling p = any_sampling(600, &state);
        for (int i = 0; i < 600; i++)
            logits[i] = edges[noise_below(&state, ARRAY_LEN(edges))];
        logits[round] = 3.4e38f;
        ck_assert(logits[pick(sampler, logits, &p, 0)] == 3.4e38f);
    }
    sampler_free(&sampler);
}
END_TEST

START_TEST(nan_and_infinity_are_refused)
{
    static const float temperatures[] = {0.0f, 1.0f};
    float logits[500] = {0};
    struct sampler *sampler = sampler_of(500);
    const struct vector_kernels *vector = &picked[ISA_COUNT];
    for (int i = 0; i < 500; i += 7) {
        struct sampling p = plain;
        uint32_t id;
        p.temperature = temperatures[i & 1];
        logits[i] = i % 3 == 0 ? (float)NAN : i % 3 == 1 ? INFINITY : -INFINITY;
        ck_assert_int_eq(sampler_pick(sampler, logits, &p, 0, 0, vector, &id), STATUS_NUMERIC);
        logits[i] = 0.0f;
        ck_assert_int_eq(sampler_pick(sampler, logits, &p, 0, 0, vector, &id), OK);
    }
    sampler_free(&sampler);
}
END_TEST

START_TEST(memory_is_taken_once)
{
    struct sampler *sampler = NULL;
    for (uint64_t n = 1; n <= 6; n++) {
        mem_fail_nth(n);
        ck_assert_int_eq(sampler_new(1000, &sampler), STATUS_NO_MEMORY);
        ck_assert(mem_failure_struck());
        ck_assert_ptr_null(sampler);
    }
    mem_fail_nth(0);
    sampler = sampler_of(1000);
    float logits[1000];
    uint64_t state = 16;
    uint64_t calls = mem_calls();
    for (uint32_t round = 0; round < 200; round++) {
        struct sampling p = any_sampling(1000, &state);
        fill(logits, 1000, round % 4, &state);
        (void)pick(sampler, logits, &p, round);
    }
    ck_assert_uint_eq(mem_calls(), calls);
    sampler_free(&sampler);
    ck_assert_ptr_null(sampler);
    sampler_free(&sampler);
}
END_TEST

int main(void)
{
    pick_kernels();
    Suite *suite = suite_create("sampler");
    TCase *tcase = tcase_create("sampler");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, filters_cut_where_they_should);
    tcase_add_test(tcase, ties_are_kept_by_lowest_id);
    tcase_add_loop_test(tcase, frequencies_are_the_probabilities, 0, 6);
    tcase_add_test(tcase, draws_as_the_one_that_sorts);
    tcase_add_test(tcase, draws_as_the_one_that_sorts_in_a_real_vocabulary);
    tcase_add_test(tcase, every_set_draws_the_same);
    tcase_add_test(tcase, cold_is_greedy);
    tcase_add_test(tcase, extreme_but_finite_logits_are_drawn_from);
    tcase_add_test(tcase, nan_and_infinity_are_refused);
    tcase_add_test(tcase, memory_is_taken_once);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
