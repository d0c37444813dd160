/* attention_plan.c: groups the query heads by their owners, checks the shape, takes the workspace.
 *
 * WHY     What can be decided once is decided here, so that a step neither decides nor allocates.
 * HOW     Query heads that read the same K head and the same V head form a group, in the order of
 *         the K heads, whatever the map looks like. The workspace of a thread holds its query rows,
 *         a running state, one chunk's result, and a partial for each chunk of a context or, with a
 *         window, each that one can touch: more than one tile of a thread's share can never need
 *         them (schedule).
 * ALWAYS  (1) Every query head is in exactly one group.            group_heads
 *         (2) Sizes are computed with overflow checks.             take_workspace
 * OWNS    Its arrays and the workspace mapping.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "config/mem.h"
#include "kernels/attention_priv.h"

enum { HEADS_MAX = 1024, THREADS_MAX = 256, ROWS_LIMIT = 1 << 20, CONTEXT_LIMIT = 1 << 26 };

/* Bytes of a part of 16 tokens, d wide; int8 has a scale a token behind it. */
static size_t part_bytes(enum kv_type type, uint32_t d)
{
    static const size_t element[KV_TYPE_COUNT] = {[KV_F16] = 2, [KV_F32] = 4, [KV_I8] = 1};
    size_t scales = type == KV_I8 ? ATTEND_UNIT * sizeof(float) : 0;
    return element[type] * ATTEND_UNIT * d + scales;
}

size_t kv_k_part_bytes(enum kv_type type, uint32_t d_qk)
{
    return part_bytes(type, d_qk);
}

size_t kv_v_part_bytes(enum kv_type type, uint32_t d_v)
{
    return part_bytes(type, d_v);
}

static enum status check_range(const char *what, uint32_t value, uint32_t least, uint32_t most,
                               struct why *ret_why)
{
    if (value >= least && value <= most)
        return OK;
    return why_set(ret_why, STATUS_BAD_OPTION, what, "attention: %s is %u; it must be %u to %u",
                   what, value, least, most);
}

static enum status check_width(const char *what, uint32_t width, struct why *ret_why)
{
    if (width >= 16 && width <= ATTEND_WIDTH_MAX && width % 16 == 0)
        return OK;
    return why_set(ret_why, STATUS_BAD_FILE, what,
                   "attention: %s is %u; it must be a multiple of 16 from 16 to %d", what, width,
                   ATTEND_WIDTH_MAX);
}

static enum status check_map(const char *what, const uint16_t *map, uint32_t n, uint32_t n_kv,
                             struct why *ret_why)
{
    for (uint32_t h = 0; h < n; h++)
        if (map[h] >= n_kv)
            return why_set(ret_why, STATUS_BAD_FILE, what,
                           "attention: %s[%u] is %u, but there are %u K/V heads", what, h, map[h],
                           n_kv);
    return OK;
}

static enum status check_shape(const struct attention_shape *s, struct why *ret_why)
{
    TRY(check_range("query heads", s->n_query_heads, 1, HEADS_MAX, ret_why));
    TRY(check_range("K/V heads", s->n_kv_heads, 1, s->n_query_heads, ret_why));
    TRY(check_range("threads", s->n_threads, 1, THREADS_MAX, ret_why));
    TRY(check_range("rows of a step", s->rows_max, 1, ROWS_LIMIT, ret_why));
    TRY(check_range("sequences of a step", s->sequences_max, 1, ROWS_LIMIT, ret_why));
    TRY(check_range("context", s->context_max, 1, CONTEXT_LIMIT, ret_why));
    TRY(check_range("K/V type", (uint32_t)s->type, 0, KV_TYPE_COUNT - 1, ret_why));
    TRY(check_width("d_qk", s->d_qk, ret_why));
    TRY(check_width("d_v", s->d_v, ret_why));
    TRY(check_map("query_to_k_head", s->query_to_k_head, s->n_query_heads, s->n_kv_heads, ret_why));
    TRY(check_map("query_to_v_head", s->query_to_v_head, s->n_query_heads, s->n_kv_heads, ret_why));
    if (!isfinite(s->scale))
        return why_set(ret_why, STATUS_BAD_FILE, "attention scale",
                       "attention: the scale is not a finite number");
    return OK;
}

/* The group of the two owners; a new, empty one if there is none yet. */
static struct attention_group *group_of(struct attention_plan *plan, uint16_t k_head,
                                        uint16_t v_head)
{
    for (uint32_t i = 0; i < plan->n_groups; i++)
        if (plan->groups[i].k_head == k_head && plan->groups[i].v_head == v_head)
            return &plan->groups[i];
    struct attention_group *group = &plan->groups[plan->n_groups++];
    *group = (struct attention_group){.k_head = k_head, .v_head = v_head};
    return group;
}

static void group_heads(struct attention_plan *plan, const struct attention_shape *s)
{
    for (uint32_t k_head = 0; k_head < s->n_kv_heads; k_head++)
        for (uint32_t h = 0; h < s->n_query_heads; h++)
            if (s->query_to_k_head[h] == k_head)
                group_of(plan, s->query_to_k_head[h], s->query_to_v_head[h])->n_heads++;
    uint16_t first = 0;
    for (uint32_t i = 0; i < plan->n_groups; i++) {
        struct attention_group *group = &plan->groups[i];
        group->first = first;
        for (uint16_t h = 0; h < s->n_query_heads; h++)
            if (s->query_to_k_head[h] == group->k_head && s->query_to_v_head[h] == group->v_head)
                plan->heads[first++] = h;
    }
    ASSERT(first == s->n_query_heads);
}

size_t attention_partial_floats(const struct attention_plan *plan)
{
    return 2 * ATTEND_ROWS_MAX + (size_t)ATTEND_ROWS_MAX * plan->d_v;
}

struct attention_partial attention_partial_in(float *floats)
{
    return (struct attention_partial){floats, floats + ATTEND_ROWS_MAX,
                                      floats + (size_t)2 * ATTEND_ROWS_MAX};
}

struct attention_space attention_space_of(const struct attention_plan *plan, uint32_t tid)
{
    size_t partial = attention_partial_floats(plan);
    float *q = (float *)(void *)(plan->space + tid * plan->space_bytes);
    float *state = q + ATTEND_ROWS_MAX * ATTEND_Q_STRIDE;
    return (struct attention_space){q, attention_partial_in(state),
                                    attention_partial_in(state + partial), state + 2 * partial};
}

struct attention_partial attention_partial_at(const struct attention_plan *plan, uint32_t tid,
                                              uint32_t i)
{
    return attention_partial_in(attention_space_of(plan, tid).partials +
                                i * attention_partial_floats(plan));
}

/* Bounds on the tiles of a step: of each group as many full ones as its pairs fill, and one more a
 * sequence. */
static bool count_tiles(struct attention_plan *plan)
{
    uint64_t sequences =
        plan->sequences_max < plan->rows_max ? plan->sequences_max : plan->rows_max;
    uint64_t tiles = (uint64_t)plan->rows_max * plan->n_query_heads / ATTEND_ROWS_MAX +
                     plan->n_groups * sequences;
    plan->tiles_max = (uint32_t)tiles;
    return tiles <= UINT32_MAX;
}

/* Chunks in which the rows of one tile see a token, at most. Its rows stand at no more than
 * ATTEND_ROWS_MAX positions. */
static uint64_t tile_chunks_max(const struct attention_plan *plan)
{
    uint64_t all = (plan->context_max + (uint64_t)ATTEND_CHUNK - 1) / ATTEND_CHUNK;
    uint64_t seen = ((uint64_t)plan->window + ATTEND_ROWS_MAX) / ATTEND_CHUNK + 2;
    return plan->window != 0 && seen < all ? seen : all;
}

static bool take_workspace(struct attention_plan *plan)
{
    uint64_t chunks = tile_chunks_max(plan);
    uint64_t partial = attention_partial_floats(plan);
    uint64_t floats = ATTEND_ROWS_MAX * ATTEND_Q_STRIDE + 2 * partial + chunks * partial;
    uint64_t bytes;
    plan->space_bytes = floats * sizeof(float);
    if (__builtin_mul_overflow(plan->space_bytes, plan->n_threads, &bytes))
        return false;
    plan->space = mem_map(bytes);
    plan->workspace_bytes = bytes;
    return plan->space != NULL;
}

static bool take_arrays(struct attention_plan *plan)
{
    plan->groups = mem_zalloc(plan->n_query_heads, sizeof *plan->groups);
    plan->heads = mem_zalloc(plan->n_query_heads, sizeof *plan->heads);
    plan->sequences = mem_zalloc(plan->sequences_max, sizeof *plan->sequences);
    plan->cuts = mem_zalloc(plan->n_threads + 1, sizeof *plan->cuts);
    plan->counts = mem_aligned(plan->n_threads * sizeof *plan->counts);
    return plan->groups != NULL && plan->heads != NULL && plan->sequences != NULL &&
           plan->cuts != NULL && plan->counts != NULL;
}

static bool take_tiles(struct attention_plan *plan)
{
    if (!count_tiles(plan))
        return false;
    plan->tiles = mem_zalloc(plan->tiles_max, sizeof *plan->tiles);
    return plan->tiles != NULL;
}

static struct attention_plan *plan_of_shape(const struct attention_shape *s,
                                            const struct attention_kernels *kernels)
{
    struct attention_plan *plan = mem_zalloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->n_query_heads = s->n_query_heads;
    plan->n_kv_heads = s->n_kv_heads;
    plan->d_qk = s->d_qk;
    plan->d_v = s->d_v;
    plan->window = s->window;
    plan->type = s->type;
    plan->scale = s->scale;
    plan->n_threads = s->n_threads;
    plan->rows_max = s->rows_max;
    plan->sequences_max = s->sequences_max;
    plan->context_max = s->context_max;
    memcpy(plan->architecture_hash, s->architecture_hash, sizeof plan->architecture_hash);
    plan->chunk = kernels->chunk[s->type];
    plan->merge = kernels->merge;
    plan->finish = kernels->finish;
    return plan;
}

enum status attention_plan_new(const struct attention_shape *shape,
                               const struct attention_kernels *kernels,
                               struct attention_plan **ret_plan, struct why *ret_why)
{
    TRY(check_shape(shape, ret_why));
    struct attention_plan *plan = plan_of_shape(shape, kernels);
    if (plan == NULL || !take_arrays(plan))
        goto no_memory;
    group_heads(plan, shape);
    if (!take_tiles(plan) || !take_workspace(plan))
        goto no_memory;
    *ret_plan = plan;
    return OK;
no_memory:
    attention_plan_free(&plan);
    return why_set(ret_why, STATUS_NO_MEMORY, "",
                   "attention: no memory for the workspace of %u threads, context %u",
                   shape->n_threads, shape->context_max);
}

void attention_plan_free(struct attention_plan **plan)
{
    struct attention_plan *p = *plan;
    *plan = NULL;
    if (p == NULL)
        return;
    mem_unmap(p->space, p->workspace_bytes);
    mem_free(p->tiles);
    mem_free(p->counts);
    mem_free(p->cuts);
    mem_free(p->sequences);
    mem_free(p->heads);
    mem_free(p->groups);
    mem_free(p);
}

void attention_plan_admit(struct attention_plan *plan, uint32_t pool, const uint8_t generation[32])
{
    ASSERT(pool < ATTEND_POOLS_MAX);
    memcpy(plan->generations[pool], generation, sizeof plan->generations[pool]);
    plan->pools_admitted |= 1u << pool;
}

void attention_plan_dismiss(struct attention_plan *plan, uint32_t pool)
{
    ASSERT(pool < ATTEND_POOLS_MAX);
    plan->pools_admitted &= ~(1u << pool);
}

bool attention_plan_admits(const struct attention_plan *plan, uint32_t pool,
                           const uint8_t generation[32])
{
    return (plan->pools_admitted >> pool & 1) != 0 &&
           memcmp(plan->generations[pool], generation, sizeof plan->generations[pool]) == 0;
}

struct attention_traffic attention_plan_traffic(const struct attention_plan *plan, uint32_t pool)
{
    ASSERT(pool < ATTEND_POOLS_MAX);
    uint64_t unit = kv_k_part_bytes(plan->type, plan->d_qk) + kv_v_part_bytes(plan->type, plan->d_v);
    struct attention_traffic traffic = {0};
    for (uint32_t t = 0; t < plan->n_threads; t++) {
        traffic.issued_bytes += plan->counts[t].issued[pool] * unit;
        traffic.logical_bytes += plan->counts[t].logical[pool] * unit;
    }
    return traffic;
}

size_t attention_plan_workspace_bytes(const struct attention_plan *plan)
{
    return plan->workspace_bytes;
}
