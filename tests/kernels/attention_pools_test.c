/* attention_pools_test.c: sequences of several caches in one schedule give what each cache gives by
 * itself, and a plan serves no cache that it did not admit.
 *
 * HOW     Worlds of one shape but of other sequences, pages and strides are attended over alone, by the
 *         owner map; then all in one step, their rows one behind the other. A read in the wrong
 *         world meets other numbers, NaN or a guard page. The seed is printed, and taken from
 *         FOLDKV_TEST_SEED.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "tests/kernels/attention_ways.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { TRIALS = 30, THREADS_MAX = 3 };

static const uint8_t generations[ATTEND_POOLS_MAX][32] = {"the first", "the second", "the third",
                                                          "the fourth"};

/* Worlds that share a step. */
struct crowd {
    uint32_t n;
    struct paged_kv worlds[ATTEND_POOLS_MAX];
    struct kv_layer layers[ATTEND_POOLS_MAX];
    struct attention_shape shape;
    struct attention_sequence sequences[ATTEND_POOLS_MAX * PAGED_SEQUENCES_MAX];
    uint32_t n_sequences;
    uint32_t row_first[ATTEND_POOLS_MAX];
    float *q, *out, *expected;
    size_t out_floats; /* of a row */
};

static float *new_floats(size_t n)
{
    float *floats = mem_zalloc(n, sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    return floats;
}

static struct paged_spec random_shape(uint64_t *seed)
{
    static const uint32_t windows[] = {0, 0, 1, 64, 100, 257};
    struct paged_spec s = {.n_kv_heads = 1 + noise_below(seed, 3),
                           .window = windows[noise_below(seed, ARRAY_LEN(windows))],
                           .type = (enum kv_type)noise_below(seed, PAGED_TYPES)};
    s.n_query_heads = s.n_kv_heads * (1 + noise_below(seed, 5));
    s.d_qk = 16 * (1 + noise_below(seed, 6));
    s.d_v = noise_below(seed, 2) == 0 ? s.d_qk : 16 * (1 + noise_below(seed, 6));
    for (uint32_t h = 0; h < s.n_query_heads; h++) {
        s.k_owner[h] = (uint16_t)noise_below(seed, s.n_kv_heads);
        s.v_owner[h] = (uint16_t)noise_below(seed, s.n_kv_heads);
    }
    return s;
}

static void add_world(struct crowd *c, uint32_t pool, struct paged_spec spec, uint64_t *seed)
{
    struct paged_kv *p = &c->worlds[pool];
    spec.n_sequences = 1 + noise_below(seed, 4);
    for (uint32_t i = 0; i < spec.n_sequences; i++) {
        spec.first[i] = noise_below(seed, 700);
        spec.rows[i] = noise_below(seed, 2) == 0 ? 1 : 1 + noise_below(seed, 40);
    }
    paged_kv_init(p, &spec, seed);
    p->layer.generation = generations[pool];
    c->layers[pool] = p->layer;
    struct attention_shape shape = paged_kv_shape(p, 1);
    uint32_t rows = c->shape.rows_max, context = c->shape.context_max;
    c->row_first[pool] = rows;
    for (uint32_t i = 0; i < spec.n_sequences; i++) {
        struct attention_sequence *s = &c->sequences[c->n_sequences++];
        *s = p->sequences[i];
        s->row_first += rows;
        s->pool = pool;
    }
    c->shape = shape;
    c->shape.rows_max = rows + p->n_rows;
    c->shape.sequences_max = c->n_sequences;
    c->shape.context_max = context > shape.context_max ? context : shape.context_max;
}

static void crowd_init(struct crowd *c, uint32_t n, const struct paged_spec *spec, uint64_t *seed)
{
    *c = (struct crowd){.n = n};
    for (uint32_t i = 0; i < n; i++)
        add_world(c, i, *spec, seed);
    size_t q_floats = (size_t)spec->n_query_heads * spec->d_qk;
    c->out_floats = (size_t)spec->n_query_heads * spec->d_v;
    c->q = new_floats(c->shape.rows_max * q_floats);
    c->out = new_floats(c->shape.rows_max * c->out_floats);
    c->expected = new_floats(c->shape.rows_max * c->out_floats);
    for (uint32_t i = 0; i < n; i++)
        memcpy(c->q + c->row_first[i] * q_floats, c->worlds[i].q, c->worlds[i].q_bytes);
}

static void crowd_release(struct crowd *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        paged_kv_release(&c->worlds[i]);
    mem_free(c->q);
    mem_free(c->out);
    mem_free(c->expected);
}

static enum status attend(struct crowd *c, struct attention_plan *plan, uint32_t n_threads)
{
    memset(c->out, 0xff, c->shape.rows_max * c->out_floats * sizeof *c->out);
    attention_schedule(plan, c->sequences, c->n_sequences);
    for (uint32_t tid = 0; tid < n_threads; tid++) {
        enum status s =
            attention_run(plan, tid, c->layers, c->shape.architecture_hash, c->q, c->out);
        if (s != OK)
            return s;
    }
    for (uint32_t tid = 0; tid < n_threads; tid++)
        attention_merge(plan, tid, c->out);
    return OK;
}

static struct attention_plan *plan_for(const struct crowd *c, const struct kernels *kernels,
                                       uint32_t n_threads)
{
    struct attention_plan *plan = NULL;
    struct attention_shape shape = c->shape;
    shape.n_threads = n_threads;
    ck_assert_int_eq((int)attention_plan_new(&shape, &kernels->attention, &plan, NULL), OK);
    for (uint32_t i = 0; i < c->n; i++)
        attention_plan_admit(plan, i, generations[i]);
    return plan;
}

START_TEST(together_is_as_alone)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    struct paged_spec spec = random_shape(&seed);
    struct crowd c;
    struct kernels kernels;
    crowd_init(&c, 2 + (uint32_t)_i % (ATTEND_POOLS_MAX - 1), &spec, &seed);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!pick_isa(isa, &kernels))
            continue;
        for (uint32_t i = 0; i < c.n; i++)
            paged_kv_owner_map(&c.worlds[i], &kernels,
                               c.expected + c.row_first[i] * c.out_floats);
        for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
            struct attention_plan *plan = plan_for(&c, &kernels, threads);
            ck_assert_int_eq((int)attend(&c, plan, threads), OK);
            require_same(c.out, c.expected, c.shape.rows_max * c.out_floats, "together");
            attention_plan_free(&plan);
        }
    }
    crowd_release(&c);
}
END_TEST

START_TEST(a_cache_that_was_not_admitted_is_refused)
{
    uint64_t seed = test_seed() + 100;
    struct paged_spec spec = random_shape(&seed);
    struct crowd c;
    crowd_init(&c, 3, &spec, &seed);
    struct attention_plan *plan = plan_for(&c, scalar_kernels(), 2);
    ck_assert_int_eq((int)attend(&c, plan, 2), OK);
    attention_plan_dismiss(plan, 1);
    ck_assert_int_eq((int)attend(&c, plan, 2), STATUS_STALE_PLAN);
    attention_plan_admit(plan, 1, generations[2]);
    ck_assert_int_eq((int)attend(&c, plan, 2), STATUS_STALE_PLAN);
    for (size_t i = 0; i < c.out_floats * c.shape.rows_max * sizeof *c.out; i++)
        ck_assert_uint_eq(((const uint8_t *)c.out)[i], 0xff);
    attention_plan_admit(plan, 1, generations[1]);
    ck_assert_int_eq((int)attend(&c, plan, 2), OK);
    attention_plan_free(&plan);
    crowd_release(&c);
}
END_TEST

/* A step in which no sequence of it takes part does not look at a pool. */
START_TEST(a_pool_that_a_step_does_not_use_is_not_looked_at)
{
    uint64_t seed = test_seed() + 200;
    struct paged_spec spec = random_shape(&seed);
    struct crowd c;
    crowd_init(&c, 2, &spec, &seed);
    struct attention_plan *plan = plan_for(&c, scalar_kernels(), 1);
    attention_plan_dismiss(plan, 1);
    c.layers[1] = (struct kv_layer){0};
    c.n_sequences = c.worlds[0].spec.n_sequences;
    ck_assert_int_eq((int)attend(&c, plan, 1), OK);
    paged_kv_owner_map(&c.worlds[0], scalar_kernels(), c.expected);
    require_same(c.out, c.expected, c.worlds[0].n_rows * c.out_floats, "one of two");
    attention_plan_free(&plan);
    crowd_release(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_pools");
    TCase *tc = tcase_create("attention_pools");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, together_is_as_alone, 0, TRIALS);
    tcase_add_test(tc, a_cache_that_was_not_admitted_is_refused);
    tcase_add_test(tc, a_pool_that_a_step_does_not_use_is_not_looked_at);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
