/* logprobs_test.c: scores and alternatives against a sorted row in long double. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/logprobs.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/kernel.h"
#include "tests/support/noise.h"
#include "tests/support/suite_run.h"

static const uint32_t vocabs[] = {1,    2,     5,     19,    20,    21,   300,
                                  1000, 16383, 16384, 16385, 49152, 70000};

static struct vector_kernels kernels_of(uint32_t mask)
{
    struct kernels kernels;
    kernels_pick(mask, &kernels);
    return kernels.vector;
}

static const float *sorted_logits;

static int by_rank(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    if (sorted_logits[a] != sorted_logits[b])
        return sorted_logits[a] > sorted_logits[b] ? -1 : 1;
    return a < b ? -1 : 1;
}

static double log_sum_exp(const float *logits, uint32_t vocab)
{
    long double sum = 0.0L;
    for (uint32_t i = 0; i < vocab; i++)
        sum += expl((long double)logits[i]);
    return (double)logl(sum);
}

static void check_output(const struct token_output *out, const float *logits, uint32_t vocab,
                         uint32_t n_top)
{
    uint32_t *order = mem_alloc(vocab * sizeof *order);
    double log_sum = log_sum_exp(logits, vocab);
    for (uint32_t i = 0; i < vocab; i++)
        order[i] = i;
    sorted_logits = logits;
    qsort(order, vocab, sizeof *order, by_rank);
    ck_assert(out->has_logprob);
    ck_assert_double_eq_tol((double)out->logprob, (double)logits[out->id] - log_sum, 2e-6);
    ck_assert_uint_eq(out->n_top, n_top < vocab ? n_top : vocab);
    for (uint32_t i = 0; i < out->n_top; i++) {
        ck_assert_uint_eq(out->top[i].id, order[i]);
        ck_assert_double_eq_tol((double)out->top[i].logprob, (double)logits[order[i]] - log_sum,
                                2e-6);
    }
    mem_free(order);
}

START_TEST(scores_and_ranks)
{
    uint32_t vocab = vocabs[_i];
    uint64_t state = (uint64_t)_i;
    struct vector_kernels vector = kernels_of(UINT32_MAX);
    float *logits = mem_alloc(vocab * sizeof *logits);
    for (uint32_t n_top = 0; n_top <= TOP_LOGPROBS_MAX; n_top += 1 + n_top / 3) {
        noise_fill(logits, vocab, -9.0, 9.0, &state);
        for (uint32_t i = 0; n_top % 2 != 0 && i < vocab; i++)
            logits[i] = (float)(int)logits[i]; /* ties by the thousand */
        struct token_output out = {.id = noise_below(&state, vocab)};
        ck_assert_int_eq(logprobs_fill(logits, vocab, n_top, &vector, &out), OK);
        check_output(&out, logits, vocab, n_top);
    }
    mem_free(logits);
}
END_TEST

START_TEST(best_in_ascending_and_descending_rows)
{
    enum { N = 5000 };
    float logits[N];
    struct vector_kernels vector = kernels_of(UINT32_MAX);
    for (int falls = 0; falls < 2; falls++) {
        for (int i = 0; i < N; i++)
            logits[i] = (falls ? -1.0f : 1.0f) * 0.002f * (float)i;
        struct token_output out = {.id = 17};
        ck_assert_int_eq(logprobs_fill(logits, N, 20, &vector, &out), OK);
        check_output(&out, logits, N, 20);
    }
}
END_TEST

/* The row's own certainty is kept to the last bit: a lone token has probability 1, two equals have
 * a half each. */
START_TEST(plain_rows_are_exact)
{
    struct vector_kernels vector = kernels_of(UINT32_MAX);
    float logits[3] = {-7.5f, -1000.0f, -2000.0f};
    struct token_output out = {.id = 0};
    ck_assert_int_eq(logprobs_fill(logits, 3, 3, &vector, &out), OK);
    ck_assert(out.logprob == 0.0f && out.top[0].logprob == 0.0f);
    ck_assert(out.top[1].id == 1 && out.top[1].logprob == -992.5f);
    logits[1] = -7.5f;
    out.id = 1;
    ck_assert_int_eq(logprobs_fill(logits, 3, 2, &vector, &out), OK);
    ck_assert(out.logprob == -0.69314718f);
    ck_assert(out.top[0].id == 0 && out.top[1].id == 1);
}
END_TEST

START_TEST(every_set_gives_the_same_bytes)
{
    enum { N = 49152 };
    uint64_t state = 20;
    struct vector_kernels scalar = kernels_of(1u << ISA_SCALAR);
    float *logits = mem_alloc(N * sizeof *logits);
    for (int round = 0; round < 10; round++) {
        struct token_output want = {.id = noise_below(&state, N)};
        noise_fill(logits, N, -15.0, 15.0, &state);
        ck_assert_int_eq(logprobs_fill(logits, N, 20, &scalar, &want), OK);
        for (int isa = 1; isa < ISA_COUNT; isa++) {
            struct vector_kernels vector = kernels_of(1u << isa);
            struct token_output got = {.id = want.id};
            ck_assert_int_eq(logprobs_fill(logits, N, 20, &vector, &got), OK);
            ck_assert_mem_eq(&got, &want, sizeof got);
        }
    }
    mem_free(logits);
}
END_TEST

START_TEST(nan_and_infinity_are_refused)
{
    enum { N = 17000 };
    static const float bad[] = {(float)NAN, INFINITY, -INFINITY};
    struct vector_kernels vector = kernels_of(UINT32_MAX);
    float *logits = mem_zalloc(N, sizeof *logits);
    for (uint32_t at = 0; at < N; at += 1531) {
        struct token_output out = {.id = 1};
        logits[at] = bad[at % 3];
        ck_assert_int_eq(logprobs_fill(logits, N, 5, &vector, &out), STATUS_NUMERIC);
        ck_assert(!out.has_logprob);
        logits[at] = 0.0f;
    }
    mem_free(logits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("logprobs");
    TCase *tcase = tcase_create("logprobs");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, plain_rows_are_exact);
    tcase_add_loop_test(tcase, scores_and_ranks, 0, ARRAY_LEN(vocabs));
    tcase_add_test(tcase, best_in_ascending_and_descending_rows);
    tcase_add_test(tcase, every_set_gives_the_same_bytes);
    tcase_add_test(tcase, nan_and_infinity_are_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
