/* attention_test.c: grouped attention against its oracles, against itself in every cut, and against
 * double.
 *
 * HOW     Every case runs on every instruction set of this machine and is compared with memcmp:
 *         sets with scalar, the grouped path with materialised repeat and direct owner map, one
 *         thread with three, a whole prompt with pieces of it and with single rows. All that is not
 *         stored is NaN (paged_kv.h), so whatever reads too much shows. Scalar is compared with
 *         double. The seed is printed, and taken from FOLDKV_TEST_SEED.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "config/mem.h"
#include "kernels/half.h"
#include "kernels/oracle/plain_oracle.h"
#include "kernels/workers.h"
#include "tests/kernels/attention_ways.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { CANARY = 64, WORLDS = 24, TILES = 150 };

static float *new_floats(size_t n)
{
    float *p = mem_zalloc(n, sizeof *p);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* ---- leaf kernels: a set against scalar ---- */

struct leaf {
    struct attend_tile tile;
    enum kv_type type;
    char *k, *v;
    size_t k_bytes, v_bytes;
    const void *k_units[ATTEND_CHUNK_UNITS], *v_units[ATTEND_CHUNK_UNITS];
    uint16_t row_tokens[ATTEND_ROWS_MAX], row_first[ATTEND_ROWS_MAX];
    float *q;
    size_t q_bytes;
};

static uint32_t random_width(uint64_t *seed)
{
    return noise_below(seed, 3) == 0   ? 16 * (1 + noise_below(seed, 16))
           : noise_below(seed, 2) == 0 ? 64
                                       : 128;
}

/* Even, a diagonal, or anything, with rows that see nothing. */
static void random_rows(struct leaf *leaf, uint64_t *seed)
{
    struct attend_tile *t = &leaf->tile;
    uint32_t kind = noise_below(seed, 3);
    for (uint32_t r = 0; r < t->n_rows; r++) {
        uint32_t behind = kind == 0   ? 0
                          : kind == 1 ? (t->n_rows - 1 - r) / 3
                                      : noise_below(seed, t->n_tokens + 1);
        leaf->row_tokens[r] = (uint16_t)(behind < t->n_tokens ? t->n_tokens - behind : 0);
    }
    leaf->row_tokens[noise_below(seed, t->n_rows)] = (uint16_t)t->n_tokens;
    uint32_t window = 1 + noise_below(seed, ATTEND_CHUNK);
    for (uint32_t r = 0; r < t->n_rows; r++) {
        uint32_t seen = kind == 1 ? window : 1 + noise_below(seed, ATTEND_CHUNK);
        leaf->row_first[r] =
            (uint16_t)(leaf->row_tokens[r] < seen ? 0 : leaf->row_tokens[r] - seen);
    }
    t->row_first = noise_below(seed, 2) == 0 ? NULL : leaf->row_first;
}

static void store_value(enum kv_type type, char *part, size_t i, float x)
{
    uint16_t half = half_from_float(x);
    if (type == KV_F16)
        memcpy(part + 2 * i, &half, sizeof half);
    else
        memcpy(part + 4 * i, &x, sizeof x);
}

static void leaf_init(struct leaf *leaf, uint64_t *seed)
{
    struct attend_tile *t = &leaf->tile;
    leaf->type = (enum kv_type)noise_below(seed, KV_TYPE_COUNT);
    *t = (struct attend_tile){.n_rows = 1 + noise_below(seed, ATTEND_ROWS_MAX),
                              .d_qk = random_width(seed),
                              .d_v = random_width(seed),
                              .n_tokens = 1 + noise_below(seed, ATTEND_CHUNK)};
    if (noise_below(seed, 3) == 0)
        t->n_tokens = ATTEND_CHUNK;
    random_rows(leaf, seed);
    uint32_t n_units = (t->n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
    leaf->k_bytes = n_units * kv_k_part_bytes(leaf->type, t->d_qk);
    leaf->v_bytes = n_units * kv_v_part_bytes(leaf->type, t->d_v);
    leaf->k = memset(guard_alloc(leaf->k_bytes), 0xff, leaf->k_bytes);
    leaf->v = memset(guard_alloc(leaf->v_bytes), 0xff, leaf->v_bytes);
    double peak = noise_below(seed, 4) == 0 ? 40 : 1; /* far apart scores weigh exactly 0 */
    double bad = noise_below(seed, 8) == 0 ? INFINITY : 0;
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        float k[ATTEND_WIDTH_MAX], v[ATTEND_WIDTH_MAX];
        uint32_t u = token / ATTEND_UNIT;
        noise_fill(k, t->d_qk, -peak, peak, seed);
        noise_fill(v, t->d_v, -2, 2, seed);
        v[5] += (float)(token == t->n_tokens - 1 ? bad : 0);
        scalar_kernels()->attention.store[leaf->type](
            t->d_qk, t->d_v, token % ATTEND_UNIT, k, v,
            leaf->k + u * kv_k_part_bytes(leaf->type, t->d_qk),
            leaf->v + u * kv_v_part_bytes(leaf->type, t->d_v));
    }
    for (uint32_t u = 0; u < n_units; u++) {
        leaf->k_units[u] = leaf->k + u * kv_k_part_bytes(leaf->type, t->d_qk);
        leaf->v_units[u] = leaf->v + u * kv_v_part_bytes(leaf->type, t->d_v);
    }
    leaf->q_bytes = ((t->n_rows - 1) * (size_t)ATTEND_Q_STRIDE + t->d_qk) * sizeof(float);
    leaf->q = guard_alloc(leaf->q_bytes);
    noise_fill(leaf->q, leaf->q_bytes / sizeof(float), -0.3, 0.3, seed);
    t->q = leaf->q;
    t->row_tokens = leaf->row_tokens;
    t->k_units = t->k_ahead = t->k_far = leaf->k_units;
    t->v_units = t->v_ahead = t->v_far = leaf->v_units;
}

static void leaf_release(struct leaf *leaf)
{
    guard_free(leaf->k, leaf->k_bytes);
    guard_free(leaf->v, leaf->v_bytes);
    guard_free(leaf->q, leaf->q_bytes);
}

/* m, l and acc one behind the other, ending at a guard page. */
static float *leaf_run(const struct leaf *leaf, const struct kernels *kernels, size_t *ret_n)
{
    struct attend_tile tile = leaf->tile;
    *ret_n = tile.n_rows * ((size_t)tile.d_v + 2);
    float *all = guard_alloc(*ret_n * sizeof *all);
    tile.m = all;
    tile.l = all + tile.n_rows;
    tile.acc = all + 2 * (size_t)tile.n_rows;
    kernels->attention.chunk[leaf->type](&tile);
    return all;
}

START_TEST(chunks_are_the_same_bits_as_scalar)
{
    struct kernels kernels;
    uint64_t seed = test_seed() + 1;
    for (int i = 0; i < TILES && pick_isa(_i, &kernels); i++) {
        struct leaf leaf;
        size_t n;
        leaf_init(&leaf, &seed);
        float *expected = leaf_run(&leaf, scalar_kernels(), &n);
        float *found = leaf_run(&leaf, &kernels, &n);
        require_same(found, expected, n, kernels_row(0).op);
        for (uint32_t r = 0; r < leaf.tile.n_rows;
             r++) /* rows that see nothing have the empty state */
            if (leaf.row_tokens[r] == 0)
                ck_assert(isinf(found[r]) && found[r] < 0 &&
                          float_bits(found[leaf.tile.n_rows + r]) == 0);
        guard_free(expected, n * sizeof *expected);
        guard_free(found, n * sizeof *found);
        leaf_release(&leaf);
    }
}
END_TEST

START_TEST(a_row_is_the_same_bits_in_any_tile)
{
    struct kernels kernels;
    uint64_t seed = test_seed() + 2;
    for (int i = 0; i < TILES / 3 && pick_isa(_i, &kernels); i++) {
        struct leaf leaf;
        size_t n, n_one;
        leaf_init(&leaf, &seed);
        float *all = leaf_run(&leaf, &kernels, &n);
        for (uint32_t r = 0; r < leaf.tile.n_rows; r++) {
            struct leaf one = leaf;
            one.tile.n_rows = 1;
            one.tile.q += r * ATTEND_Q_STRIDE;
            one.tile.row_tokens += r;
            one.tile.row_first = one.tile.row_first == NULL ? NULL : one.tile.row_first + r;
            one.tile.n_tokens = leaf.row_tokens[r];
            if (one.tile.n_tokens == 0)
                continue;
            float *alone = leaf_run(&one, &kernels, &n_one);
            require_same(all + r, alone, 1, "m");
            require_same(all + leaf.tile.n_rows + r, alone + 1, 1, "l");
            require_same(all + 2 * (size_t)leaf.tile.n_rows + (size_t)r * leaf.tile.d_v, alone + 2,
                         leaf.tile.d_v, "acc");
            guard_free(alone, n_one * sizeof *alone);
        }
        guard_free(all, n * sizeof *all);
        leaf_release(&leaf);
    }
}
END_TEST

START_TEST(merge_and_finish_are_the_same_bits_as_scalar)
{
    struct kernels kernels;
    uint64_t seed = test_seed() + 3;
    for (int i = 0; i < TILES && pick_isa(_i, &kernels); i++) {
        uint32_t d = random_width(&seed);
        size_t bytes = d * sizeof(float);
        float *acc[2], *acc2 = guard_alloc(bytes), *out[2], m[2], l[2];
        float m2 = (float)noise_between(-90, 90, &seed), l2 = (float)noise_between(1, 200, &seed);
        noise_fill(acc2, d, -9, 9, &seed);
        for (int side = 0; side < 2; side++) {
            acc[side] = guard_alloc(bytes);
            out[side] = guard_alloc(bytes);
            if (side == 0)
                noise_fill(acc[0], d, -9, 9, &seed);
            else
                memcpy(acc[1], acc[0], bytes);
        }
        m[0] = m[1] = (float)noise_between(-90, 90, &seed);
        l[0] = l[1] = (float)noise_between(1, 200, &seed);
        for (int side = 0; side < 2; side++) {
            const struct attention_kernels *k =
                side == 0 ? &scalar_kernels()->attention : &kernels.attention;
            k->merge(d, &m[side], &l[side], acc[side], m2, l2, acc2);
            k->finish(d, l[side], acc[side], out[side]);
        }
        require_same(&m[1], &m[0], 1, "m");
        require_same(&l[1], &l[0], 1, "l");
        require_same(acc[1], acc[0], d, "acc");
        require_same(out[1], out[0], d, "out");
        for (int side = 0; side < 2; side++) {
            guard_free(acc[side], bytes);
            guard_free(out[side], bytes);
        }
        guard_free(acc2, bytes);
    }
}
END_TEST

START_TEST(storing_writes_one_token_and_nothing_else)
{
    struct kernels kernels;
    uint64_t seed = test_seed() + 4;
    for (int i = 0; i < TILES && pick_isa(_i, &kernels); i++) {
        enum kv_type type = (enum kv_type)(i % 2);
        uint32_t d_qk = random_width(&seed), d_v = random_width(&seed),
                 token = noise_below(&seed, ATTEND_UNIT);
        size_t k_bytes = kv_k_part_bytes(type, d_qk), v_bytes = kv_v_part_bytes(type, d_v);
        float *k = guard_alloc(d_qk * sizeof *k), *v = guard_alloc(d_v * sizeof *v);
        noise_fill(k, d_qk, -70000, 70000, &seed);
        noise_fill(v, d_v, -1e-4, 1e-4, &seed);
        v[0] = -0.0f;
        char *k_part = memset(guard_alloc(k_bytes), 0x5a, k_bytes),
             *v_part = memset(guard_alloc(v_bytes), 0x5a, v_bytes);
        char *k_wanted = memset(guard_alloc(k_bytes), 0x5a, k_bytes);
        char *v_wanted = memset(guard_alloc(v_bytes), 0x5a, v_bytes);
        for (uint32_t j = 0; j < d_qk; j++)
            store_value(type, k_wanted, (size_t)j * ATTEND_UNIT + token, k[j]);
        for (uint32_t j = 0; j < d_v; j++)
            store_value(type, v_wanted, (size_t)token * d_v + j, v[j]);
        kernels.attention.store[type](d_qk, d_v, token, k, v, k_part, v_part);
        ck_assert_mem_eq(k_part, k_wanted, k_bytes);
        ck_assert_mem_eq(v_part, v_wanted, v_bytes);
        guard_free(k, d_qk * sizeof *k);
        guard_free(v, d_v * sizeof *v);
        guard_free(k_part, k_bytes);
        guard_free(v_part, v_bytes);
        guard_free(k_wanted, k_bytes);
        guard_free(v_wanted, v_bytes);
    }
}
END_TEST

/* ---- whole attention ---- */

/* Maps of three kinds: contiguous groups, anything, and K and V owners apart. */
static void random_owners(struct paged_spec *s, uint64_t *seed)
{
    uint32_t kind = noise_below(seed, 3);
    for (uint32_t h = 0; h < s->n_query_heads; h++) {
        s->k_owner[h] = (uint16_t)(kind == 0 ? h * s->n_kv_heads / s->n_query_heads
                                             : noise_below(seed, s->n_kv_heads));
        s->v_owner[h] = kind == 2 ? (uint16_t)noise_below(seed, s->n_kv_heads) : s->k_owner[h];
    }
}

/* Decoding and prefilling sequences together; lengths near the borders of units, steps, pages and
 * chunks. */
static struct paged_spec random_spec(uint64_t *seed)
{
    static const uint32_t borders[] = {0,   1,   15,  16,  17,  47,  48,  63,  64,  65,
                                       127, 128, 254, 255, 256, 257, 300, 511, 512, 530};
    struct paged_spec s = {.n_kv_heads = 1 + noise_below(seed, 3),
                           .type = (enum kv_type)noise_below(seed, PAGED_TYPES)};
    s.n_query_heads = s.n_kv_heads * (1 + noise_below(seed, s.n_kv_heads == 1 ? 30 : 7));
    s.d_qk = 16 * (1 + noise_below(seed, 5));
    s.d_v = noise_below(seed, 2) == 0 ? s.d_qk : 16 * (1 + noise_below(seed, 5));
    random_owners(&s, seed);
    s.n_sequences = 1 + noise_below(seed, 4);
    for (uint32_t i = 0; i < s.n_sequences; i++) {
        s.first[i] = borders[noise_below(seed, ARRAY_LEN(borders))];
        s.rows[i] = noise_below(seed, 2) == 0 ? 1 : 1 + noise_below(seed, 20);
    }
    return s;
}

START_TEST(all_ways_on_all_sets_agree)
{
    uint64_t seed = test_seed() + 100 + (uint64_t)_i;
    struct paged_spec spec = random_spec(&seed);
    require_all_ways_agree_on(&spec, &seed);
}
END_TEST

START_TEST(scalar_is_close_to_double)
{
    uint64_t seed = test_seed() + 200 + (uint64_t)_i;
    struct paged_spec spec = random_spec(&seed);
    struct paged_kv p;
    paged_kv_init(&p, &spec, &seed);
    double error = paged_kv_error(&p, scalar_kernels());
    ck_assert_msg(error < (spec.type == KV_I8 ? 5e-5 : 2e-6), "relative error %g", error);
    paged_kv_release(&p);
}
END_TEST

/* Peers that sum V in half precision are off by a half here. */
START_TEST(diffuse_attention_keeps_its_precision)
{
    uint64_t seed = test_seed() + 300;
    struct paged_spec spec = {.n_query_heads = 2,
                              .n_kv_heads = 1,
                              .d_qk = 64,
                              .d_v = 64,
                              .type = KV_F16,
                              .n_sequences = 1,
                              .first = {32767},
                              .rows = {1},
                              .v_mean = 1,
                              .run_pages_max = 40};
    struct paged_kv p;
    struct kernels kernels;
    paged_kv_init(&p, &spec, &seed);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (pick_isa(isa, &kernels)) {
            double error = paged_kv_error(&p, &kernels);
            ck_assert_msg(error < 1e-5, "%s: relative error %g", isa_name(kernels.isa), error);
        }
    paged_kv_release(&p);
}
END_TEST

/* ---- what must not be touched ---- */

/* Rows before the token keep their bits; the others cannot be finite. */
static void require_confined(const struct paged_kv *p, const float *before, const float *after,
                             uint32_t token)
{
    size_t width = (size_t)p->spec.n_query_heads * p->spec.d_v;
    for (uint32_t r = 0; r < p->n_rows; r++) {
        uint32_t position = p->spec.first[0] + r;
        if (position < token)
            ck_assert_mem_eq(after + r * width, before + r * width, width * sizeof *after);
        else
            for (size_t j = 0; j < width; j++)
                ck_assert(!isfinite(after[r * width + j]));
    }
}

START_TEST(infinities_of_later_tokens_reach_no_earlier_row)
{
    static const float poison[][2] = {{0, INFINITY}, {NAN, 0}, {INFINITY, NAN}, {0, -INFINITY}};
    uint64_t seed = test_seed() + 400;
    struct paged_spec spec = {.n_query_heads = 6,
                              .n_kv_heads = 2,
                              .d_qk = 64,
                              .d_v = 48,
                              .type = (enum kv_type)(_i % 2),
                              .k_owner = {0, 0, 0, 1, 1, 1},
                              .v_owner = {0, 0, 0, 1, 1, 1},
                              .n_sequences = 1,
                              .first = {230},
                              .rows = {70}};
    struct paged_kv p;
    struct kernels kernels;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!pick_isa(isa, &kernels))
            continue;
        paged_kv_init(&p, &spec, &seed);
        size_t n = paged_kv_out_bytes(&p) / sizeof(float);
        float *before = new_floats(n), *after = new_floats(n);
        uint32_t token = 231 + noise_below(&seed, 69);
        paged_kv_grouped(&p, &kernels, 2, before);
        paged_kv_plant(&p, token, poison[_i][0], poison[_i][1]);
        paged_kv_grouped(&p, &kernels, 2, after);
        require_confined(&p, before, after, token);
        mem_free(before);
        mem_free(after);
        paged_kv_release(&p);
    }
}
END_TEST

/* Token 0 outweighs all others and its V is 0; theirs underflow to -0, which one more merge would
 * turn into 0. */
START_TEST(an_empty_chunk_is_not_merged)
{
    uint64_t seed = test_seed() + 450;
    struct paged_spec spec = {.n_query_heads = 2,
                              .n_kv_heads = 1,
                              .d_qk = 16,
                              .d_v = 16,
                              .type = KV_F32,
                              .n_sequences = 1,
                              .first = {250},
                              .rows = {12}};
    struct paged_kv p;
    struct kernels kernels;
    kernels_pick(UINT32_MAX, &kernels);
    paged_kv_init(&p, &spec, &seed);
    for (uint32_t t = 0; t < 262; t++)
        paged_kv_plant(&p, t, t == 0 ? 1 : 0, t == 0 ? 0 : -0x1p-149f);
    for (size_t i = 0; i < p.q_bytes / sizeof(float); i++)
        p.q[i] = 1;
    float whole[12 * 2 * 16], single[12 * 2 * 16];
    paged_kv_stepwise(&p, &kernels, 2, 1, single);
    ck_assert(float_bits(single[0]) == 0x80000000u);
    for (uint32_t threads = 1; threads <= 2; threads++) { /* two cut the tile between its chunks */
        paged_kv_grouped(&p, &kernels, threads, whole);
        ck_assert_mem_eq(whole, single, sizeof whole);
    }
    paged_kv_release(&p);
}
END_TEST

START_TEST(a_stale_plan_is_refused_and_touches_nothing)
{
    uint64_t seed = test_seed() + 500;
    struct paged_spec spec = {.n_query_heads = 3,
                              .n_kv_heads = 1,
                              .d_qk = 32,
                              .d_v = 32,
                              .n_sequences = 1,
                              .first = {40},
                              .rows = {1}};
    struct paged_kv p;
    struct attention_plan *plan = NULL;
    paged_kv_init(&p, &spec, &seed);
    struct attention_shape shape = paged_kv_shape(&p, 2);
    ck_assert_int_eq((int)attention_plan_new(&shape, &scalar_kernels()->attention, &plan, NULL),
                     OK);
    attention_plan_admit(plan, 0, p.layer.generation);
    attention_schedule(plan, p.sequences, 1);
    float out[96];
    memset(out, CANARY, sizeof out);
    uint8_t hash[32], generation[32];
    memcpy(hash, shape.architecture_hash, sizeof hash);
    memcpy(generation, p.layer.generation, sizeof generation);
    p.layer.generation = generation;
    for (uint32_t tid = 0; tid < 2; tid++) {
        hash[31] ^= 1;
        ck_assert_int_eq((int)attention_run(plan, tid, &p.layer, hash, p.q, out),
                         STATUS_STALE_PLAN);
        hash[31] ^= 1;
        generation[0] ^= 0x80;
        ck_assert_int_eq((int)attention_run(plan, tid, &p.layer, hash, p.q, out),
                         STATUS_STALE_PLAN);
        generation[0] ^= 0x80;
        for (size_t i = 0; i < sizeof out; i++)
            ck_assert_int_eq(((const char *)out)[i], CANARY);
    }
    ck_assert_int_eq((int)attention_run(plan, 0, &p.layer, hash, p.q, out), OK);
    attention_plan_free(&plan);
    paged_kv_release(&p);
}
END_TEST

/* ---- real threads ---- */

struct threaded {
    struct workers *workers;
    struct attention_plan *plan;
    const struct paged_kv *p;
    const struct attention_shape *shape;
    float *out;
};

static void run_member(void *arg, uint32_t tid)
{
    struct threaded *t = arg;
    enum status s = attention_run(t->plan, tid, &t->p->layer, t->shape->architecture_hash,
                                  t->p->q, t->out);
    ASSERT(s == OK);
    workers_barrier(t->workers);
    attention_merge(t->plan, tid, t->out);
}

START_TEST(threads_side_by_side_give_the_same_bits)
{
    uint64_t seed = test_seed() + 600;
    struct paged_spec spec = {.n_query_heads = 9,
                              .n_kv_heads = 3,
                              .d_qk = 64,
                              .d_v = 64,
                              .type = KV_F16,
                              .n_sequences = 4,
                              .k_owner = {0, 0, 0, 1, 1, 1, 2, 2, 2},
                              .v_owner = {0, 0, 0, 1, 1, 1, 2, 2, 2},
                              .first = {1500, 0, 700, 3},
                              .rows = {1, 40, 5, 1}};
    struct paged_kv p;
    struct kernels kernels;
    kernels_pick(UINT32_MAX, &kernels);
    paged_kv_init(&p, &spec, &seed);
    size_t n = paged_kv_out_bytes(&p) / sizeof(float);
    float *expected = new_floats(n), *found = new_floats(n);
    paged_kv_owner_map(&p, &kernels, expected);
    for (uint32_t threads = 1; threads <= 7; threads++) {
        struct attention_shape shape = paged_kv_shape(&p, threads);
        struct threaded t = {.p = &p, .shape = &shape, .out = found};
        ck_assert_int_eq((int)workers_new(threads, &t.workers, NULL), OK);
        ck_assert_int_eq((int)attention_plan_new(&shape, &kernels.attention, &t.plan, NULL), OK);
        attention_plan_admit(t.plan, 0, p.layer.generation);
        attention_schedule(t.plan, p.sequences, spec.n_sequences);
        memset(found, 0xff, n * sizeof *found);
        workers_run(t.workers, run_member, &t);
        require_same(found, expected, n, "threads");
        attention_plan_free(&t.plan);
        workers_free(&t.workers);
    }
    mem_free(expected);
    mem_free(found);
    paged_kv_release(&p);
}
END_TEST

START_TEST(one_tile_may_be_cut_by_many_threads)
{
    uint64_t seed = test_seed() + 650;
    struct paged_spec spec = {.n_query_heads = 5,
                              .n_kv_heads = 1,
                              .d_qk = 32,
                              .d_v = 48,
                              .type = KV_F16,
                              .n_sequences = 1,
                              .first = {3000},
                              .rows = {3}};
    struct paged_kv p;
    struct kernels kernels;
    kernels_pick(UINT32_MAX, &kernels);
    paged_kv_init(&p, &spec, &seed);
    size_t n = paged_kv_out_bytes(&p) / sizeof(float);
    float *expected = new_floats(n), *found = new_floats(n);
    paged_kv_owner_map(&p, &kernels, expected);
    for (uint32_t threads = 1; threads <= 14; threads++) {
        memset(found, 0xff, n * sizeof *found);
        paged_kv_grouped(&p, &kernels, threads, found);
        require_same(found, expected, n, "cut");
    }
    mem_free(expected);
    mem_free(found);
    paged_kv_release(&p);
}
END_TEST

/* ---- the plain definitions ---- */

START_TEST(the_fixture_owns_48_repeats_96_and_grouped_repeats_none)
{
    static const uint32_t owner[4] = {0, 0, 1, 1};
    double q[4 * 2], k[2 * 3 * 2], v[2 * 3 * 2], out[3][4 * 2];
    uint64_t seed = test_seed() + 700;
    for (size_t i = 0; i < ARRAY_LEN(q); i++)
        q[i] = noise_between(-1, 1, &seed);
    for (size_t i = 0; i < ARRAY_LEN(k); i++) {
        k[i] = noise_between(-1, 1, &seed);
        v[i] = noise_between(-1, 1, &seed);
    }
    struct oracle_plain p = {4, 2, 3, 2, 2, owner, q, k, v};
    struct oracle_receipt r[3];
    ck_assert_int_eq((int)oracle_plain_repeat(&p, out[0], &r[0]), OK);
    oracle_plain_owner_map(&p, out[1], &r[1]);
    oracle_plain_grouped(&p, out[2], &r[2]);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(r[i].owned_bytes, 48);
        ck_assert_uint_eq(r[i].repeated_bytes, i == 0 ? 96 : 0);
        ck_assert_mem_eq(out[i], out[0], sizeof out[0]);
    }
    ck_assert_mem_ne(out[0], out[0] + 2,
                     2 * sizeof(double)); /* heads of one owner still differ by their queries */
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 200);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("attention");
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *tc = add_case(suite, "leaves");
    tcase_add_loop_test(tc, chunks_are_the_same_bits_as_scalar, 0, ISA_COUNT);
    tcase_add_loop_test(tc, a_row_is_the_same_bits_in_any_tile, 0, ISA_COUNT);
    tcase_add_loop_test(tc, merge_and_finish_are_the_same_bits_as_scalar, 0, ISA_COUNT);
    tcase_add_loop_test(tc, storing_writes_one_token_and_nothing_else, 0, ISA_COUNT);
    tc = add_case(suite, "whole");
    tcase_add_loop_test(tc, all_ways_on_all_sets_agree, 0, WORLDS);
    tcase_add_loop_test(tc, scalar_is_close_to_double, 0, WORLDS / 3);
    tcase_add_test(tc, diffuse_attention_keeps_its_precision);
    tc = add_case(suite, "limits");
    tcase_add_loop_test(tc, infinities_of_later_tokens_reach_no_earlier_row, 0, 4);
    tcase_add_test(tc, an_empty_chunk_is_not_merged);
    tcase_add_test(tc, a_stale_plan_is_refused_and_touches_nothing);
    tcase_add_test(tc, threads_side_by_side_give_the_same_bits);
    tcase_add_test(tc, one_tile_may_be_cut_by_many_threads);
    tcase_add_test(tc, the_fixture_owns_48_repeats_96_and_grouped_repeats_none);
    return suite_run(suite);
}
