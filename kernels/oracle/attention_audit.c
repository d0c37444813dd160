/* attention_audit.c: three ways to attend, over the same pages, compared.
 *
 * HOW     A case is a shape with its two maps. Pages lie in descending order, so that no way can
 *         take them for one run. K, V and queries are multiples of 1/64 up to 2: f16 holds them
 *         exactly, and what differs from double arithmetic is the order of sums alone.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/attention_audit.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/oracle/attention_oracle.h"

enum {
    TOKENS = 330, /* two chunks, the second with a cut unit */
    ROWS = 3,
    FIRST = TOKENS - ROWS,
    PAGES = (TOKENS + PAGE_TOKENS - 1) / PAGE_TOKENS,
    THREADS = 2,
    HEADS_MAX = 36,
};

static const struct audit_case {
    const char *name;
    uint32_t n_query_heads, n_kv_heads, d_qk, d_v, window;
    const uint16_t *k_map, *v_map; /* NULL: query heads in order */
} cases[] = {
    {"MHA", 4, 4, 32, 32, 0, NULL, NULL},
    {"MQA, d 256", 4, 1, 256, 256, 0, NULL, NULL},
    {"MQA, g 36", 36, 1, 16, 16, 0, NULL, NULL},
    {"g 3", 9, 3, 64, 64, 0, NULL, NULL},
    {"g 7", 14, 2, 64, 64, 0, NULL, NULL},
    {"unequal groups", 8, 3, 32, 32, 0, (const uint16_t[]){0, 1, 0, 1, 0, 0, 0, 2}, NULL},
    {"K and V apart", 4, 2, 32, 32, 0, (const uint16_t[]){0, 1, 0, 1},
     (const uint16_t[]){1, 1, 0, 0}},
    {"d_qk unlike d_v", 6, 2, 48, 128, 0, NULL, NULL},
    {"window", 4, 1, 64, 64, 100, NULL, NULL},
};

/* What one case works on. */
struct world {
    const struct audit_case *spec;
    enum kv_type type;
    uint16_t k_map[HEADS_MAX], v_map[HEADS_MAX];
    struct attention_shape shape;
    struct kv_layer layer;
    struct page_run runs[PAGES];
    struct attention_sequence sequence;
    size_t memory_bytes, out_bytes;
    char *memory, *copy;
    float *q, *k, *v; /* [row][head][d]; [token][kv head][d] as stored from */
    float *grouped, *other;
};

static void make_maps(struct world *w)
{
    const struct audit_case *c = w->spec;
    for (uint32_t h = 0; h < c->n_query_heads; h++) {
        uint16_t owner = (uint16_t)(h / (c->n_query_heads / c->n_kv_heads));
        w->k_map[h] = c->k_map != NULL ? c->k_map[h] : owner;
        w->v_map[h] = c->v_map != NULL ? c->v_map[h] : w->k_map[h];
    }
}

static const uint8_t generation[32]; /* there is one cache only */

static void lay_out(struct world *w)
{
    const struct audit_case *c = w->spec;
    size_t k_part = kv_k_part_bytes(w->type, c->d_qk);
    size_t unit = k_part + kv_v_part_bytes(w->type, c->d_v);
    w->shape = (struct attention_shape){
        .n_query_heads = c->n_query_heads,
        .n_kv_heads = c->n_kv_heads,
        .d_qk = c->d_qk,
        .d_v = c->d_v,
        .window = c->window,
        .type = w->type,
        .scale = 1.0f / sqrtf((float)c->d_qk),
        .query_to_k_head = w->k_map,
        .query_to_v_head = w->v_map,
        .n_threads = THREADS,
        .rows_max = ROWS,
        .sequences_max = 1,
        .context_max = TOKENS,
    };
    w->layer = (struct kv_layer){.head_stride = unit * PAGE_UNITS * PAGES,
                                 .page_stride = unit * PAGE_UNITS,
                                 .unit_stride = unit,
                                 .v_offset = k_part,
                                 .n_heads = (uint16_t)c->n_kv_heads,
                                 .d_qk = (uint16_t)c->d_qk,
                                 .d_v = (uint16_t)c->d_v,
                                 .type = w->type,
                                 .generation = generation};
    for (uint32_t i = 0; i < PAGES; i++)
        w->runs[i] = (struct page_run){PAGES - 1 - i, 1};
    w->sequence = (struct attention_sequence){
        .runs = w->runs, .n_runs = PAGES, .first_position = FIRST, .n_rows = ROWS};
    w->memory_bytes = w->layer.head_stride * c->n_kv_heads;
    w->out_bytes = sizeof(float) * ROWS * c->n_query_heads * c->d_v;
}

static bool take_memory(struct world *w)
{
    const struct audit_case *c = w->spec;
    w->memory = mem_aligned(w->memory_bytes);
    w->copy = mem_aligned(oracle_repeat_bytes(&w->shape, TOKENS));
    w->q = mem_aligned(sizeof(float) * ROWS * c->n_query_heads * c->d_qk);
    w->k = mem_aligned(sizeof(float) * TOKENS * c->n_kv_heads * c->d_qk);
    w->v = mem_aligned(sizeof(float) * TOKENS * c->n_kv_heads * c->d_v);
    w->grouped = mem_aligned(w->out_bytes);
    w->other = mem_aligned(w->out_bytes);
    w->layer.base = w->memory;
    return w->memory != NULL && w->copy != NULL && w->q != NULL && w->k != NULL && w->v != NULL &&
           w->grouped != NULL && w->other != NULL;
}

static void world_release(struct world *w)
{
    mem_free(w->memory);
    mem_free(w->copy);
    mem_free(w->q);
    mem_free(w->k);
    mem_free(w->v);
    mem_free(w->grouped);
    mem_free(w->other);
}

static void fill_random(float *x, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        x[i] = (float)((int)(*state >> 32 & 255) - 128) / 64.0f;
    }
}

static void store_all(struct world *w, kv_store_fn *store)
{
    const struct audit_case *c = w->spec;
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint32_t page = w->runs[t / PAGE_TOKENS].first_page;
        uint32_t unit = t % PAGE_TOKENS / ATTEND_UNIT;
        for (uint32_t h = 0; h < c->n_kv_heads; h++) {
            char *k_part = w->memory + h * w->layer.head_stride + page * w->layer.page_stride +
                           unit * w->layer.unit_stride;
            size_t row = (size_t)t * c->n_kv_heads + h;
            store(c->d_qk, c->d_v, t % ATTEND_UNIT, w->k + row * c->d_qk, w->v + row * c->d_v,
                  k_part, k_part + w->layer.v_offset);
        }
    }
}

/* The grouped path into out. *calls grows by what the allocation counter gained meanwhile. */
static enum status run_grouped(struct world *w, const struct kernels *kernels, float *out,
                               uint64_t *calls, struct why *ret_why)
{
    struct attention_plan *plan = NULL;
    TRY(attention_plan_new(&w->shape, &kernels->attention, &plan, ret_why));
    enum status s = OK;
    attention_plan_admit(plan, 0, w->layer.generation);
    uint64_t before = mem_calls();
    attention_schedule(plan, &w->sequence, 1);
    for (uint32_t tid = 0; tid < THREADS && s == OK; tid++)
        s = attention_run(plan, tid, &w->layer, w->shape.architecture_hash, w->q,
                          out);
    for (uint32_t tid = 0; tid < THREADS && s == OK; tid++)
        attention_merge(plan, tid, out);
    *calls += mem_calls() - before;
    attention_plan_free(&plan);
    return s;
}

/* One query head of one row in double arithmetic; the greatest difference from got. */
static double difference(const struct world *w, uint32_t row, uint32_t head, const float *got)
{
    const struct audit_case *c = w->spec;
    double scores[TOKENS], sum = 0.0, worst = 0.0;
    uint32_t position = FIRST + row;
    uint32_t first = c->window != 0 && position >= c->window ? position - c->window + 1 : 0;
    const float *q = w->q + ((size_t)row * c->n_query_heads + head) * c->d_qk;
    for (uint32_t t = first; t <= position; t++) {
        const float *k = w->k + ((size_t)t * c->n_kv_heads + w->k_map[head]) * c->d_qk;
        double s = 0.0;
        for (uint32_t i = 0; i < c->d_qk; i++)
            s += (double)q[i] * (double)k[i];
        scores[t] = exp(s / sqrt((double)c->d_qk)); /* at most 4 * 16 in the exponent */
        sum += scores[t];
    }
    for (uint32_t j = 0; j < c->d_v; j++) {
        double o = 0.0;
        for (uint32_t t = first; t <= position; t++)
            o +=
                scores[t] * (double)w->v[((size_t)t * c->n_kv_heads + w->v_map[head]) * c->d_v + j];
        double d = fabs(o / sum - (double)got[j]);
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

static double greatest_difference(const struct world *w)
{
    double worst = 0.0;
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t head = 0; head < w->spec->n_query_heads; head++) {
            size_t at = ((size_t)row * w->spec->n_query_heads + head) * w->spec->d_v;
            double d = difference(w, row, head, w->grouped + at);
            worst = d > worst || isnan(d) ? d : worst;
        }
    return worst;
}

/* Runs the other ways and the scalar set, and adds what is not the same to the audit. */
static enum status compare(struct world *w, const struct kernels *kernels,
                           struct attention_audit *audit, struct why *ret_why)
{
    struct kernels scalar;
    uint64_t scalar_calls = 0;
    struct oracle_attention oracle = {&w->shape, &kernels->attention, &w->layer, &w->sequence, w->q,
                                      w->other};
    oracle_owner_map(&oracle, 0, w->spec->n_query_heads);
    bool as_owner_map = memcmp(w->grouped, w->other, w->out_bytes) == 0;
    oracle_repeat(&oracle, 0, w->spec->n_query_heads, w->copy);
    bool as_repeat = memcmp(w->grouped, w->other, w->out_bytes) == 0;
    kernels_pick(0, &scalar);
    store_all(w, scalar.attention.store[w->type]);
    TRY(run_grouped(w, &scalar, w->other, &scalar_calls, ret_why));
    bool as_scalar = memcmp(w->grouped, w->other, w->out_bytes) == 0;
    double error = greatest_difference(w);
    bool is_near = error <= (w->type == KV_I8 ? 0.02 : 1e-5);
    if (!(as_owner_map && as_repeat && as_scalar && is_near) && audit->failed_case[0] == '\0')
        snprintf(audit->failed_case, sizeof audit->failed_case, "%s", w->spec->name);
    audit->same_as_owner_map &= as_owner_map;
    audit->same_as_repeat &= as_repeat;
    audit->same_as_scalar &= as_scalar;
    audit->is_near &= is_near;
    audit->error_max = error > audit->error_max || isnan(error) ? error : audit->error_max;
    audit->owned_bytes += w->memory_bytes;
    audit->repeated_bytes += oracle_repeat_bytes(&w->shape, TOKENS);
    audit->n_cases++;
    return OK;
}

static enum status audit_case(const struct audit_case *spec, const struct kernels *kernels,
                              enum kv_type type, struct attention_audit *audit, struct why *ret_why)
{
    struct world w = {.spec = spec, .type = type};
    uint64_t state = 0x9e3779b97f4a7c15u;
    make_maps(&w);
    lay_out(&w);
    enum status s = OK;
    if (!take_memory(&w))
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to audit attention");
    if (s == OK) {
        fill_random(w.q, (size_t)ROWS * spec->n_query_heads * spec->d_qk, &state);
        fill_random(w.k, (size_t)TOKENS * spec->n_kv_heads * spec->d_qk, &state);
        fill_random(w.v, (size_t)TOKENS * spec->n_kv_heads * spec->d_v, &state);
        store_all(&w, kernels->attention.store[type]);
        s = run_grouped(&w, kernels, w.grouped, &audit->allocation_calls, ret_why);
    }
    if (s == OK)
        s = compare(&w, kernels, audit, ret_why);
    world_release(&w);
    return s;
}

enum status attention_audit_run(const struct kernels *kernels, enum kv_type type,
                                struct attention_audit *ret_audit, struct why *ret_why)
{
    *ret_audit = (struct attention_audit){
        .same_as_owner_map = true, .same_as_repeat = true, .same_as_scalar = true, .is_near = true};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        TRY(audit_case(&cases[i], kernels, type, ret_audit, ret_why));
    return OK;
}
