/* sampler.c: draws a token without ever sorting a vocabulary.
 *
 * WHY     A row has some fifty thousand logits and a step some thirty rows; sorting them would cost
 *         more than the layers.
 * HOW     Every filter keeps a prefix of one order (logit descending, id ascending), so it is
 *         enough to find the last kept one. Vector kernels first narrow the row to candidates among
 *         which it surely is; then its key (logit bits, then id) is found digit by digit from
 *         counts or sums of weights per digit, in time linear in the candidates. The draw inverts
 *         the distribution in ascending order of ids; without filters it goes by the sums of tiles
 *         and then within one tile.
 * ALWAYS  (1) Sums of weights are f64 in ascending order of ids, or of tiles.        draw_tile,
 *         draw_candidate, sum_digits
 *         (2) A token of weight 0 is never drawn.                                    draw_tile,
 *         draw_candidate
 *         (3) Keys are distinct, so a cut is one token, whatever ties there are.     key_of
 * OWNS    the scratch of one vocabulary
 * THREAD  one at a time; a sampler a thread
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/sampler.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/half.h"
#include "sched/philox.h"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

struct sampler {
    uint32_t vocab;
    float *weights;       /* [vocab] exp((logit - max) / temperature) */
    float *tile_max;      /* [tiles] */
    float *tile_sums;     /* [tiles] of weights */
    uint32_t *candidates; /* [vocab] ids, ascending */
    uint32_t *active;     /* [vocab] those of them that the search for a cut has left */
};

/* One row on its way through the filters. */
struct draw {
    const float *logits;
    const struct sampling *sampling;
    const struct vector_kernels *vector;
    struct logits_peak peak;
    double total; /* of all weights */
    uint32_t n;   /* candidates */
};

enum status sampler_new(uint32_t vocab, struct sampler **ret_sampler)
{
    ASSERT(vocab >= 1);
    struct sampler *s = mem_zalloc(1, sizeof *s);
    if (s == NULL)
        return STATUS_NO_MEMORY;
    s->vocab = vocab;
    s->weights = mem_aligned(vocab * sizeof(float));
    s->tile_max = mem_aligned(logits_tiles(vocab) * sizeof(float));
    s->tile_sums = mem_aligned(logits_tiles(vocab) * sizeof(float));
    s->candidates = mem_aligned(vocab * sizeof(uint32_t));
    s->active = mem_aligned(vocab * sizeof(uint32_t));
    if (!s->weights || !s->tile_max || !s->tile_sums || !s->candidates || !s->active) {
        sampler_free(&s);
        return STATUS_NO_MEMORY;
    }
    *ret_sampler = s;
    return OK;
}

void sampler_free(struct sampler **sampler)
{
    struct sampler *s = *sampler;
    *sampler = NULL;
    if (s == NULL)
        return;
    mem_free(s->weights);
    mem_free(s->tile_max);
    mem_free(s->tile_sums);
    mem_free(s->candidates);
    mem_free(s->active);
    mem_free(s);
}

/* Greater is better: the logit as an integer of the same order, then the lower id. Both zeros are
 * one. */
static uint64_t key_of(const float *logits, uint32_t id)
{
    uint32_t bits = float_bits(logits[id] + 0.0f);
    uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (uint64_t)ordered << 32 | (0xffffffffu - id);
}

/* What each digit at shift has of the active keys. */
struct digits {
    double sum[DIGITS];
    uint32_t count[DIGITS];
};

/* A token counts its weight, or 1 where weights is NULL. */
static void sum_digits(const struct sampler *s, const float *logits, const float *weights,
                       uint32_t n_active, int shift, struct digits *d)
{
    memset(d, 0, sizeof *d);
    for (uint32_t i = 0; i < n_active; i++) {
        uint32_t id = s->active[i];
        uint32_t digit = key_of(logits, id) >> shift & (DIGITS - 1);
        d->sum[digit] += weights != NULL ? (double)weights[id] : 1.0;
        d->count[digit]++;
    }
}

/* The digit, from the greatest down, at which *above reaches target; the least that occurs if none
 * does. *above is then what stands above it. */
static uint32_t digit_at(const struct digits *d, double target, double *above)
{
    uint32_t least = 0;
    while (d->count[least] == 0)
        least++;
    for (uint32_t digit = DIGITS - 1; digit > least; digit--) {
        if (d->count[digit] == 0)
            continue;
        if (*above + d->sum[digit] >= target)
            return digit;
        *above += d->sum[digit];
    }
    return least;
}

static uint32_t keep_digit(struct sampler *s, const float *logits, uint32_t n_active, int shift,
                           uint32_t digit)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n_active; i++) {
        uint32_t id = s->active[i];
        if ((key_of(logits, id) >> shift & (DIGITS - 1)) == digit)
            s->active[kept++] = id;
    }
    return kept;
}

/* The lowest bit of the digit that begins with the highest bit in which the active keys, two at
 * least, differ. So each digit tells at least two of them apart. */
static int shift_of(const struct sampler *s, const float *logits, uint32_t n_active)
{
    uint64_t first = key_of(logits, s->active[0]);
    uint64_t differ = 0;
    for (uint32_t i = 1; i < n_active; i++)
        differ |= key_of(logits, s->active[i]) ^ first;
    int shift = 64 - DIGIT_BITS - __builtin_clzll(differ);
    return shift > 0 ? shift : 0;
}

/* Keeps the fewest best candidates that together reach target; all if they never do. */
static void cut(struct sampler *s, struct draw *d, const float *weights, double target)
{
    struct digits digits;
    double above = 0.0;
    uint32_t n_active = d->n;
    memcpy(s->active, s->candidates, d->n * sizeof *s->active);
    while (n_active > 1) {
        int shift = shift_of(s, d->logits, n_active);
        sum_digits(s, d->logits, weights, n_active, shift, &digits);
        uint32_t digit = digit_at(&digits, target, &above);
        n_active = keep_digit(s, d->logits, n_active, shift, digit);
    }
    uint64_t last = key_of(d->logits, s->active[0]);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->n; i++)
        if (key_of(d->logits, s->candidates[i]) >= last)
            s->candidates[kept++] = s->candidates[i];
    d->n = kept;
}

static double sum_candidates(const struct sampler *s, const struct draw *d)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < d->n; i++)
        sum += (double)s->weights[s->candidates[i]];
    return sum;
}

static bool has_top_k(const struct sampler *s, const struct sampling *p)
{
    return p->top_k > 0 && p->top_k < s->vocab;
}

static bool has_enough(const struct sampler *s, const struct draw *d)
{
    if (d->n == s->vocab)
        return true;
    if (has_top_k(s, d->sampling))
        return d->n >= d->sampling->top_k;
    return sum_candidates(s, d) >= (double)d->sampling->top_p * d->total;
}

/* First candidates: a superset of what the filters keep. For top_k and top_p those within a span of
 * the peak, which grows until there are enough: usually some hundred of them. Compared are logits,
 * not weights: only they are sure to have the order's order. */
static void find_candidates(struct sampler *s, struct draw *d)
{
    const struct sampling *p = d->sampling;
    if (!has_top_k(s, p) && p->top_p >= 1.0f) {
        d->n = d->vector->find_at_least(s->weights, s->vocab, p->min_p, s->candidates);
        return;
    }
    float span = 2.0f;
    do {
        span *= 1.5f;
        d->n = d->vector->find_at_least(d->logits, s->vocab, d->peak.max - span, s->candidates);
    } while (!has_enough(s, d));
}

static void filter(struct sampler *s, struct draw *d)
{
    const struct sampling *p = d->sampling;
    find_candidates(s, d);
    if (has_top_k(s, p)) {
        cut(s, d, NULL, (double)p->top_k);
        d->total = sum_candidates(s, d);
    }
    if (p->top_p < 1.0f)
        cut(s, d, s->weights, (double)p->top_p * d->total);
    if (p->min_p <= 0.0f)
        return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->n; i++)
        if (s->weights[s->candidates[i]] >= p->min_p) /* the greatest weight is 1 */
            s->candidates[kept++] = s->candidates[i];
    d->n = kept;
}

static uint32_t draw_candidate(const struct sampler *s, const struct draw *d, double uniform)
{
    double target = uniform * sum_candidates(s, d);
    double sum = 0.0;
    uint32_t last = d->peak.argmax;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t id = s->candidates[i];
        if (s->weights[id] <= 0.0f)
            continue;
        sum += (double)s->weights[id];
        last = id;
        if (sum > target)
            break;
    }
    return last;
}

/* The tile in which the running sum passes target, or the last that weighs anything; *below is the
 * sum before it. */
static uint32_t draw_tile(const struct sampler *s, double target, double *ret_below)
{
    double sum = 0.0;
    uint32_t last = 0;
    for (uint32_t t = 0; t < logits_tiles(s->vocab); t++) {
        if (s->tile_sums[t] <= 0.0f)
            continue;
        last = t;
        *ret_below = sum;
        sum += (double)s->tile_sums[t];
        if (sum > target)
            break;
    }
    return last;
}

static uint32_t draw_any(const struct sampler *s, const struct draw *d, double uniform)
{
    double sum = 0.0;
    double target = uniform * d->total;
    uint32_t first = draw_tile(s, target, &sum) * LOGITS_TILE;
    uint32_t last = first;
    for (uint32_t id = first; id < s->vocab && id - first < LOGITS_TILE; id++) {
        if (s->weights[id] <= 0.0f)
            continue;
        sum += (double)s->weights[id];
        last = id;
        if (sum > target)
            break;
    }
    return last;
}

enum status sampler_pick(struct sampler *sampler, const float *logits,
                         const struct sampling *sampling, uint32_t choice, uint32_t position,
                         const struct vector_kernels *vector, uint32_t *ret_id)
{
    struct sampler *s = sampler;
    struct draw d = {.logits = logits, .sampling = sampling, .vector = vector};
    vector->logits_peak(logits, s->vocab, s->tile_max, &d.peak);
    if (!d.peak.is_finite)
        return STATUS_NUMERIC;
    *ret_id = d.peak.argmax;
    float scale = 1.0f / sampling->temperature;
    if (sampling->temperature <= 0.0f ||
        !isfinite(scale)) /* so cold that nothing but the greatest weighs anything */
        return OK;
    d.total = vector->logits_weigh(logits, s->vocab, d.peak.max, scale, s->weights, s->tile_sums);
    double uniform = philox_uniform(sampling->seed, choice, position);
    if (!has_top_k(s, sampling) && sampling->top_p >= 1.0f && sampling->min_p <= 0.0f) {
        *ret_id = draw_any(s, &d, uniform);
        return OK;
    }
    filter(s, &d);
    *ret_id = draw_candidate(s, &d, uniform);
    return OK;
}
