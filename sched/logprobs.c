/* logprobs.c: scores a row of logits.
 *
 * HOW     The row is read in stretches of STRETCH_TILES tiles, so that what a tile needs fits the
 *         stack whatever the vocabulary. One pass finds the peak and keeps the best few: only a
 *         tile whose greatest value beats the least of them is looked into. A second pass sums the
 *         weights; then logprob = (z - max) - log(sum), in f64, rounded once.
 * ALWAYS  (1) Stretches, tiles and ids ascend: a later equal never displaces an earlier one.
 *         best_add
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/logprobs.h"

#include "kernels/elementary.h"

enum { STRETCH_TILES = 64, STRETCH = STRETCH_TILES * LOGITS_TILE };

/* The best so far, greatest first. */
struct best {
    uint32_t n;
    uint32_t n_most;
    uint32_t id[TOP_LOGPROBS_MAX];
    float logit[TOP_LOGPROBS_MAX];
};

static bool best_wants(const struct best *b, float logit)
{
    return b->n < b->n_most || (b->n > 0 && logit > b->logit[b->n - 1]);
}

static void best_add(struct best *b, uint32_t id, float logit)
{
    if (!best_wants(b, logit))
        return;
    uint32_t at = b->n < b->n_most ? b->n++ : b->n - 1;
    for (; at > 0 && logit > b->logit[at - 1]; at--) {
        b->id[at] = b->id[at - 1];
        b->logit[at] = b->logit[at - 1];
    }
    b->id[at] = id;
    b->logit[at] = logit;
}

/* Adds what a tile, whose first id is first, has that is better. */
static void best_add_tile(struct best *b, const float *logits, uint32_t first, uint32_t n,
                          const struct vector_kernels *vector)
{
    uint32_t found[LOGITS_TILE];
    float least = b->n < b->n_most ? -__FLT_MAX__ : b->logit[b->n - 1];
    uint32_t n_found = vector->find_at_least(logits + first, n, least, found);
    for (uint32_t i = 0; i < n_found; i++)
        best_add(b, first + found[i], logits[first + found[i]]);
}

static uint32_t stretch_at(uint32_t first, uint32_t vocab)
{
    return vocab - first < STRETCH ? vocab - first : STRETCH;
}

/* The greatest logit of the row and the best few; false if a logit is not finite. */
static bool find_best(const float *logits, uint32_t vocab, const struct vector_kernels *vector,
                      struct best *b, float *ret_max)
{
    float tile_max[STRETCH_TILES];
    struct logits_peak peak;
    *ret_max = logits[0];
    for (uint32_t first = 0, n; first < vocab; first += n) {
        n = stretch_at(first, vocab);
        vector->logits_peak(logits + first, n, tile_max, &peak);
        if (!peak.is_finite)
            return false;
        *ret_max = peak.max > *ret_max ? peak.max : *ret_max;
        for (uint32_t t = 0; t < logits_tiles(n); t++) {
            uint32_t at = t * LOGITS_TILE;
            if (best_wants(b, tile_max[t]))
                best_add_tile(b, logits, first + at, n - at < LOGITS_TILE ? n - at : LOGITS_TILE,
                              vector);
        }
    }
    return true;
}

static double sum_weights(const float *logits, uint32_t vocab, float max,
                          const struct vector_kernels *vector)
{
    float tile_sums[STRETCH_TILES];
    double sum = 0.0;
    for (uint32_t first = 0, n; first < vocab; first += n) {
        n = stretch_at(first, vocab);
        sum += vector->logits_weigh(logits + first, n, max, 1.0f, NULL, tile_sums);
    }
    return sum;
}

enum status logprobs_fill(const float *logits, uint32_t vocab, uint32_t n_top,
                          const struct vector_kernels *vector, struct token_output *output)
{
    ASSERT(output->id < vocab && n_top <= TOP_LOGPROBS_MAX);
    struct best best = {.n_most = n_top < vocab ? n_top : vocab};
    float max;
    if (!find_best(logits, vocab, vector, &best, &max))
        return STATUS_NUMERIC;
    double log_sum = elementary_log(sum_weights(logits, vocab, max, vector));
    output->has_logprob = true;
    output->logprob = (float)((double)logits[output->id] - (double)max - log_sum);
    output->n_top = best.n;
    for (uint32_t i = 0; i < best.n; i++)
        output->top[i] = (struct token_logprob){
            .id = best.id[i], .logprob = (float)((double)best.logit[i] - (double)max - log_sum)};
    return OK;
}
