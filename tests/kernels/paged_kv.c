/* paged_kv.c: pages, sequences and the several ways to attend over them.
 *
 * HOW     Pages are dealt to the sequences in a shuffled order in runs of random length, so that
 *         neighbours in a sequence are mostly not neighbours in memory. The mapping ends at a guard
 *         page.
 * OWNS    Everything it made, from init to release.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/paged_kv.h"

#include <check.h>
#include <math.h>

#include "config/mem.h"
#include "kernels/half.h"
#include "kernels/oracle/attention_oracle.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"

static const uint8_t hash[32] = "the architecture of the test";
static const uint8_t generation[32] = "the generation of the test";

static uint32_t tokens_of(const struct paged_kv *p, uint32_t sequence)
{
    return p->spec.first[sequence] + p->spec.rows[sequence];
}

uint32_t paged_kv_token_first(const struct paged_kv *p, uint32_t position)
{
    uint32_t window = p->spec.window;
    return window == 0 || position < window ? 0 : position - window + 1;
}

/* The first page that a row of the sequence sees. */
static uint32_t first_page_of(const struct paged_kv *p, uint32_t sequence)
{
    return paged_kv_token_first(p, p->spec.first[sequence]) / PAGE_TOKENS;
}

static uint32_t pages_of(const struct paged_kv *p, uint32_t sequence)
{
    return (tokens_of(p, sequence) + PAGE_TOKENS - 1) / PAGE_TOKENS - first_page_of(p, sequence);
}

static void take_memory(struct paged_kv *p, uint32_t n_pages)
{
    const struct paged_spec *s = &p->spec;
    size_t k_part = kv_k_part_bytes(s->type, s->d_qk);
    size_t unit = k_part + kv_v_part_bytes(s->type, s->d_v);
    p->layer = (struct kv_layer){
        .head_stride = unit * PAGE_UNITS * n_pages,
        .page_stride = unit * PAGE_UNITS,
        .unit_stride = unit,
        .v_offset = k_part,
        .n_heads = (uint16_t)s->n_kv_heads,
        .d_qk = (uint16_t)s->d_qk,
        .d_v = (uint16_t)s->d_v,
        .type = s->type,
        .generation = generation,
    };
    p->memory_bytes = p->layer.head_stride * s->n_kv_heads;
    p->memory = guard_alloc(p->memory_bytes);
    memset(p->memory, 0xff, p->memory_bytes);
    p->layer.base = p->memory;
}

/* Runs of random length cover the pages; shuffled, they are dealt out in order and cut where a
 * sequence has enough. */
static void deal_pages(struct paged_kv *p, uint32_t n_pages, uint64_t *seed)
{
    struct page_run *runs = mem_zalloc(2 * (size_t)n_pages + PAGED_SEQUENCES_MAX, sizeof *runs);
    struct page_run *free_runs = mem_zalloc(n_pages, sizeof *free_runs);
    ck_assert(runs != NULL && free_runs != NULL);
    uint32_t run_max = p->spec.run_pages_max ? p->spec.run_pages_max : 3;
    uint32_t n_free = 0;
    for (uint32_t page = 0; page < n_pages;) {
        uint32_t n = 1 + noise_below(seed, run_max);
        n = n < n_pages - page ? n : n_pages - page;
        free_runs[n_free++] = (struct page_run){page, n};
        page += n;
    }
    for (uint32_t i = n_free - 1; i > 0; i--) {
        uint32_t j = noise_below(seed, i + 1);
        struct page_run swap = free_runs[i];
        free_runs[i] = free_runs[j];
        free_runs[j] = swap;
    }
    p->runs = runs;
    uint32_t row = 0;
    for (uint32_t i = 0; i < p->spec.n_sequences; i++) {
        p->sequences[i] = (struct attention_sequence){.runs = runs,
                                                      .first_page = first_page_of(p, i),
                                                      .first_position = p->spec.first[i],
                                                      .n_rows = p->spec.rows[i],
                                                      .row_first = row};
        row += p->spec.rows[i];
        for (uint32_t left = pages_of(p, i); left > 0;) {
            struct page_run *from = &free_runs[n_free - 1];
            uint32_t n = from->n_pages < left ? from->n_pages : left;
            *runs++ = (struct page_run){from->first_page, n};
            p->sequences[i].n_runs++;
            from->first_page += n;
            from->n_pages -= n;
            n_free -= from->n_pages == 0;
            left -= n;
        }
    }
    p->n_rows = row;
    mem_free(free_runs);
}

static char *unit_of(const struct paged_kv *p, uint32_t sequence, uint32_t token, uint32_t kv_head)
{
    const struct page_run *run = p->sequences[sequence].runs;
    uint32_t page = token / PAGE_TOKENS - p->sequences[sequence].first_page;
    while (page >= run->n_pages)
        page -= run++->n_pages;
    return p->memory + kv_head * p->layer.head_stride +
           (run->first_page + page) * p->layer.page_stride +
           token % PAGE_TOKENS / ATTEND_UNIT * p->layer.unit_stride;
}

static const struct kernels *scalar_kernels(void)
{
    static struct kernels kernels;
    kernels_pick(1u << ISA_SCALAR, &kernels);
    return &kernels;
}

void paged_kv_store(struct paged_kv *p, uint32_t sequence, uint32_t token, uint32_t kv_head,
                    const float *k, const float *v)
{
    char *unit = unit_of(p, sequence, token, kv_head);
    scalar_kernels()->attention.store[p->spec.type](p->spec.d_qk, p->spec.d_v, token % ATTEND_UNIT,
                                                    k, v, unit, unit + p->layer.v_offset);
}

static void fill(struct paged_kv *p, uint64_t *seed)
{
    const struct paged_spec *s = &p->spec;
    for (uint32_t i = 0; i < s->n_sequences; i++) {
        for (uint32_t t = first_page_of(p, i) * PAGE_TOKENS; t < tokens_of(p, i); t++)
            for (uint32_t h = 0; h < s->n_kv_heads; h++) {
                float k[ATTEND_WIDTH_MAX], v[ATTEND_WIDTH_MAX];
                noise_fill(k, s->d_qk, -1.5, 1.5, seed);
                noise_fill(v, s->d_v, (double)s->v_mean - 1, (double)s->v_mean + 1, seed);
                paged_kv_store(p, i, t, h, k, v);
            }
    }
    p->q_bytes = (size_t)p->n_rows * s->n_query_heads * s->d_qk * sizeof(float);
    p->q = guard_alloc(p->q_bytes);
    noise_fill(p->q, p->q_bytes / sizeof(float), -1.5, 1.5, seed);
}

void paged_kv_init(struct paged_kv *p, const struct paged_spec *spec, uint64_t *seed)
{
    *p = (struct paged_kv){.spec = *spec};
    uint32_t n_pages = 1;
    for (uint32_t i = 0; i < spec->n_sequences; i++)
        n_pages += pages_of(p, i);
    take_memory(p, n_pages);
    deal_pages(p, n_pages, seed);
    fill(p, seed);
}

void paged_kv_release(struct paged_kv *p)
{
    mem_free(p->runs);
    guard_free(p->q, p->q_bytes);
    guard_free(p->memory, p->memory_bytes);
}

struct attention_shape paged_kv_shape(const struct paged_kv *p, uint32_t n_threads)
{
    struct attention_shape shape = {
        .n_query_heads = p->spec.n_query_heads,
        .n_kv_heads = p->spec.n_kv_heads,
        .d_qk = p->spec.d_qk,
        .d_v = p->spec.d_v,
        .window = p->spec.window,
        .type = p->spec.type,
        .scale = 1 / sqrtf((float)p->spec.d_qk),
        .query_to_k_head = p->spec.k_owner,
        .query_to_v_head = p->spec.v_owner,
        .n_threads = n_threads,
        .rows_max = p->n_rows,
        .sequences_max = p->spec.n_sequences,
        .context_max = 1,
    };
    for (uint32_t i = 0; i < p->spec.n_sequences; i++)
        shape.context_max =
            tokens_of(p, i) > shape.context_max ? tokens_of(p, i) : shape.context_max;
    memcpy(shape.architecture_hash, hash, sizeof hash);
    return shape;
}

size_t paged_kv_out_bytes(const struct paged_kv *p)
{
    return (size_t)p->n_rows * p->spec.n_query_heads * p->spec.d_v * sizeof(float);
}

static void run_step(const struct paged_kv *p, struct attention_plan *plan, uint32_t n_threads,
                     const struct attention_sequence *sequences, uint32_t n_sequences, float *out)
{
    uint64_t calls = mem_calls();
    attention_schedule(plan, sequences, n_sequences);
    for (uint32_t tid = 0; tid < n_threads; tid++)
        ck_assert_int_eq((int)attention_run(plan, tid, &p->layer, hash, p->q, out), OK);
    for (uint32_t tid = 0; tid < n_threads; tid++)
        attention_merge(plan, tid, out);
    ck_assert_uint_eq(mem_calls(), calls);
}

static struct attention_plan *plan_for(const struct paged_kv *p, const struct kernels *kernels,
                                       uint32_t n_threads)
{
    struct attention_shape shape = paged_kv_shape(p, n_threads);
    struct attention_plan *plan = NULL;
    struct why why = {0};
    enum status s = attention_plan_new(&shape, &kernels->attention, &plan, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    attention_plan_admit(plan, 0, generation);
    return plan;
}

void paged_kv_grouped(const struct paged_kv *p, const struct kernels *kernels, uint32_t n_threads,
                      float *out)
{
    struct attention_plan *plan = plan_for(p, kernels, n_threads);
    run_step(p, plan, n_threads, p->sequences, p->spec.n_sequences, out);
    attention_plan_free(&plan);
}

void paged_kv_stepwise(const struct paged_kv *p, const struct kernels *kernels, uint32_t n_threads,
                       uint32_t rows_max, float *out)
{
    struct attention_plan *plan = plan_for(p, kernels, n_threads);
    for (uint32_t row = 0;; row += rows_max) {
        struct attention_sequence step[PAGED_SEQUENCES_MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < p->spec.n_sequences; i++) {
            if (row >= p->sequences[i].n_rows)
                continue;
            step[n] = p->sequences[i];
            step[n].first_position += row;
            step[n].row_first += row;
            step[n].n_rows = step[n].n_rows - row < rows_max ? step[n].n_rows - row : rows_max;
            n++;
        }
        if (n == 0)
            break;
        run_step(p, plan, n_threads, step, n, out);
    }
    attention_plan_free(&plan);
}

static void run_oracle(const struct paged_kv *p, const struct kernels *kernels, bool repeat,
                       float *out)
{
    struct attention_shape shape = paged_kv_shape(p, 1);
    for (uint32_t i = 0; i < p->spec.n_sequences; i++) {
        struct oracle_attention o = {&shape, &kernels->attention, &p->layer, &p->sequences[i], p->q,
                                     out};
        if (!repeat) {
            oracle_owner_map(&o, 0, shape.n_query_heads);
            continue;
        }
        size_t bytes = oracle_repeat_bytes(&shape, tokens_of(p, i));
        char *copy = guard_alloc(bytes);
        oracle_repeat(&o, 0, shape.n_query_heads, copy);
        guard_free(copy, bytes);
    }
}

void paged_kv_owner_map(const struct paged_kv *p, const struct kernels *kernels, float *out)
{
    run_oracle(p, kernels, false, out);
}

void paged_kv_repeat(const struct paged_kv *p, const struct kernels *kernels, float *out)
{
    run_oracle(p, kernels, true, out);
}

/* Element i of a float part. */
static double stored_float(enum kv_type type, const char *part, size_t i)
{
    uint16_t half;
    float x;
    memcpy(&half, part + 2 * i, sizeof half);
    if (type == KV_F16)
        return (double)half_to_float(half);
    memcpy(&x, part + 4 * i, sizeof x);
    return (double)x;
}

static double stored_scale(const char *part, uint32_t d, uint32_t token)
{
    float scale;
    memcpy(&scale, part + (size_t)ATTEND_UNIT * d + token * sizeof scale, sizeof scale);
    return (double)scale;
}

static double stored_k(const struct paged_kv *p, const char *unit, uint32_t token, uint32_t i)
{
    if (p->spec.type != KV_I8)
        return stored_float(p->spec.type, unit, (size_t)i * ATTEND_UNIT + token);
    uint8_t byte = (uint8_t)unit[(i / 4 * ATTEND_UNIT + token) * 4 + i % 4];
    return (byte - 128) * stored_scale(unit, p->spec.d_qk, token);
}

static double stored_v(const struct paged_kv *p, const char *unit, uint32_t token, uint32_t j)
{
    const char *part = unit + p->layer.v_offset;
    if (p->spec.type != KV_I8)
        return stored_float(p->spec.type, part, (size_t)token * p->spec.d_v + j);
    int8_t byte = (int8_t)part[(size_t)(token / 4 * p->spec.d_v + j) * 4 + token % 4];
    return byte * stored_scale(part, p->spec.d_v, token);
}

static void reference_row(const struct paged_kv *p, uint32_t sequence, uint32_t position,
                          uint32_t head, const float *q, double *out)
{
    uint32_t n_tokens = position + 1, first = paged_kv_token_first(p, position);
    const struct paged_spec *s = &p->spec;
    double *weight = mem_zalloc(n_tokens, sizeof *weight);
    ck_assert_ptr_nonnull(weight);
    double top = -INFINITY, sum = 0;
    for (uint32_t t = first; t < n_tokens; t++) {
        const char *unit = unit_of(p, sequence, t, s->k_owner[head]);
        for (uint32_t i = 0; i < s->d_qk; i++)
            weight[t] += (double)q[i] * stored_k(p, unit, t % ATTEND_UNIT, i);
        weight[t] /= sqrt((double)s->d_qk);
        top = fmax(top, weight[t]);
    }
    memset(out, 0, s->d_v * sizeof *out);
    for (uint32_t t = first; t < n_tokens; t++) {
        const char *unit = unit_of(p, sequence, t, s->v_owner[head]);
        double w = exp(weight[t] - top);
        sum += w;
        for (uint32_t j = 0; j < s->d_v; j++)
            out[j] += w * stored_v(p, unit, t % ATTEND_UNIT, j);
    }
    for (uint32_t j = 0; j < s->d_v; j++)
        out[j] /= sum;
    mem_free(weight);
}

void paged_kv_reference(const struct paged_kv *p, double *out)
{
    for (uint32_t i = 0; i < p->spec.n_sequences; i++)
        for (uint32_t r = 0; r < p->sequences[i].n_rows; r++)
            for (uint32_t h = 0; h < p->spec.n_query_heads; h++) {
                size_t at = (size_t)(p->sequences[i].row_first + r) * p->spec.n_query_heads + h;
                reference_row(p, i, p->spec.first[i] + r, h, p->q + at * p->spec.d_qk,
                              out + at * p->spec.d_v);
            }
}

/* Root mean square of the difference over that of the reference. */
static double relative_error(const float *found, const double *expected, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return sqrt(difference / size);
}

double paged_kv_error(const struct paged_kv *p, const struct kernels *kernels)
{
    size_t n = paged_kv_out_bytes(p) / sizeof(float);
    float *found = mem_zalloc(n, sizeof *found);
    double *expected = mem_zalloc(n, sizeof *expected);
    ck_assert(found != NULL && expected != NULL);
    paged_kv_grouped(p, kernels, 2, found);
    paged_kv_reference(p, expected);
    double error = relative_error(found, expected, n);
    mem_free(expected);
    mem_free(found);
    return error;
}

void paged_kv_plant(struct paged_kv *p, uint32_t token, float k_value, float v_value)
{
    float k[ATTEND_WIDTH_MAX], v[ATTEND_WIDTH_MAX];
    for (uint32_t i = 0; i < ATTEND_WIDTH_MAX; i++) {
        k[i] = k_value;
        v[i] = v_value;
    }
    for (uint32_t h = 0; h < p->spec.n_kv_heads; h++)
        paged_kv_store(p, 0, token, h, k, v);
}
