/* attention_map_test.c: every arrangement of heads, three ways over the same inputs, each with a
 * receipt of what it makes.
 *
 * HOW     Materialised repeat, direct owner map and grouped tiles give the same bits on every set
 *         for every map here and K/V of every type. What the grouped path allocates in a step, and
 *         what the repeat copies, is read from the allocation counter around the run, not computed.
 *         Bytes read from memory need a counter of the machine; where the system gives none, the
 *         receipt says so. The seed is printed, and taken from FOLDKV_TEST_SEED.
 */
// SPDX-License-Identifier: Apache-2.0
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/mem.h"
#include "kernels/attention_priv.h"
#include "kernels/oracle/attention_oracle.h"
#include "tests/kernels/attention_ways.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

/* Groups as counts of query heads a K/V head; with a shuffle no group is contiguous, and with v
 * apart the V owners are the K owners one further. */
static const struct arrangement {
    const char *name;
    uint32_t n_kv_heads;
    uint8_t group[8];
    uint32_t d_qk, d_v;
    bool is_shuffled, is_v_apart;
} arrangements[] = {
    {"one for all (MQA) 4/1, d 256", 1, {4}, 256, 256, false, false},
    {"one for all, 33/1", 1, {33}, 32, 32, false, false},
    {"one for all, 64/1", 1, {64}, 16, 16, true, false},
    {"groups of 1 (MHA)", 6, {1, 1, 1, 1, 1, 1}, 64, 64, false, false},
    {"groups of 2", 3, {2, 2, 2}, 64, 64, false, false},
    {"groups of 3", 3, {3, 3, 3}, 64, 64, false, false},
    {"groups of 4", 4, {4, 4, 4, 4}, 128, 128, false, false},
    {"groups of 5", 2, {5, 5}, 128, 128, false, false},
    {"groups of 6", 2, {6, 6}, 80, 80, true, false},
    {"groups of 7, 14/2", 2, {7, 7}, 64, 64, false, false},
    {"groups of 8", 2, {8, 8}, 128, 128, false, false},
    {"groups of 9", 3, {9, 9, 9}, 64, 64, true, false},
    {"unequal 1, 9, 2, 4", 4, {1, 9, 2, 4}, 64, 48, false, false},
    {"unequal and scattered 7, 1, 3", 3, {7, 1, 3}, 48, 96, true, false},
    {"K and V apart", 3, {4, 2, 5}, 64, 64, true, true},
    {"d_qk 192, d_v 128", 2, {8, 8}, 192, 128, false, false},
    {"d_qk 16, d_v 256", 2, {3, 2}, 16, 256, false, true},
};

static struct paged_spec spec_of(const struct arrangement *a, enum kv_type type, uint64_t *seed)
{
    struct paged_spec s = {.n_kv_heads = a->n_kv_heads,
                           .d_qk = a->d_qk,
                           .d_v = a->d_v,
                           .type = type,
                           .n_sequences = 2,
                           .first = {270, 40},
                           .rows = {1, 9}};
    for (uint32_t owner = 0; owner < a->n_kv_heads; owner++)
        for (uint32_t i = 0; i < a->group[owner]; i++)
            s.k_owner[s.n_query_heads++] = (uint16_t)owner;
    for (uint32_t h = s.n_query_heads - 1; h > 0 && a->is_shuffled; h--) {
        uint32_t other = noise_below(seed, h + 1);
        uint16_t swap = s.k_owner[h];
        s.k_owner[h] = s.k_owner[other];
        s.k_owner[other] = swap;
    }
    for (uint32_t h = 0; h < s.n_query_heads; h++)
        s.v_owner[h] = (uint16_t)((s.k_owner[h] + a->is_v_apart) % a->n_kv_heads);
    return s;
}

START_TEST(every_arrangement_is_the_same_bits_every_way)
{
    const struct arrangement *a = &arrangements[_i / KV_TYPE_COUNT];
    uint64_t seed = test_seed() + (uint64_t)_i;
    struct paged_spec spec = spec_of(a, (enum kv_type)(_i % KV_TYPE_COUNT), &seed);
    struct paged_kv p;
    paged_kv_init(&p, &spec, &seed);
    require_all_ways_agree(&p);
    double error = paged_kv_error(&p, scalar_kernels());
    ck_assert_msg(error < (spec.type == KV_I8 ? 5e-5 : 2e-6), "%s: relative error %g", a->name,
                  error);
    paged_kv_release(&p);
}
END_TEST

/* ---- receipts ---- */

struct receipt {
    uint64_t logical_bytes;   /* K and V as stored */
    uint64_t repeat_bytes;    /* what a repeat makes, by the allocation counter */
    uint64_t grouped_bytes;   /* what the grouped path makes, by the same counter */
    uint64_t owner_map_bytes; /* and the direct owner map */
};

/* A counter of the last cache's misses by this thread; -1 where there is none, or it is not ours to
 * read. */
static int open_misses(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_CACHE_MISSES,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static void print_bytes_read(int misses)
{
    uint64_t lines = 0;
    if (misses >= 0 && read(misses, &lines, sizeof lines) == (ssize_t)sizeof lines)
        printf("at most %llu bytes read from memory\n", (unsigned long long)lines * 64);
    else
        printf("bytes read from memory: not measurable here\n");
}

static uint64_t logical_bytes(const struct paged_kv *p)
{
    uint64_t unit =
        kv_k_part_bytes(p->spec.type, p->spec.d_qk) + kv_v_part_bytes(p->spec.type, p->spec.d_v);
    uint32_t n_tokens = p->spec.first[0] + p->spec.rows[0];
    return unit * ((n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT) * p->spec.n_kv_heads;
}

static void run_grouped(const struct paged_kv *p, const struct kernels *kernels, float *out,
                        struct receipt *r)
{
    struct attention_shape shape = paged_kv_shape(p, 1);
    struct attention_plan *plan = NULL;
    ck_assert_int_eq((int)attention_plan_new(&shape, &kernels->attention, &plan, NULL), OK);
    attention_plan_admit(plan, 0, p->layer.generation);
    uint64_t before = mem_asked_bytes();
    attention_schedule(plan, p->sequences, 1);
    ck_assert_int_eq((int)attention_run(plan, 0, &p->layer, shape.architecture_hash,
                                        p->q, out),
                     OK);
    attention_merge(plan, 0, out);
    r->grouped_bytes = mem_asked_bytes() - before;
    attention_plan_free(&plan);
}

static void run_oracles(const struct paged_kv *p, const struct kernels *kernels, float *repeated,
                        float *owned, struct receipt *r)
{
    struct attention_shape shape = paged_kv_shape(p, 1);
    struct oracle_attention o = {&shape,           &kernels->attention, &p->layer,
                                 &p->sequences[0], p->q,                repeated};
    uint64_t before = mem_asked_bytes();
    char *copy = mem_aligned(oracle_repeat_bytes(&shape, p->spec.first[0] + p->spec.rows[0]));
    ck_assert_ptr_nonnull(copy);
    oracle_repeat(&o, 0, shape.n_query_heads, copy);
    r->repeat_bytes = mem_asked_bytes() - before;
    mem_free(copy);
    o.out = owned;
    before = mem_asked_bytes();
    oracle_owner_map(&o, 0, shape.n_query_heads);
    r->owner_map_bytes = mem_asked_bytes() - before;
}

START_TEST(only_a_repeat_makes_new_kv)
{
    static const char *const type_names[KV_TYPE_COUNT] = {
        [KV_F16] = "f16", [KV_F32] = "f32", [KV_I8] = "int8"};
    const struct arrangement *a = &arrangements[_i / KV_TYPE_COUNT];
    enum kv_type type = (enum kv_type)(_i % KV_TYPE_COUNT);
    uint64_t seed = test_seed() + 1000 + (uint64_t)_i;
    struct paged_spec spec = spec_of(a, type, &seed);
    spec.n_sequences = 1;
    struct paged_kv p;
    struct kernels kernels;
    paged_kv_init(&p, &spec, &seed);
    size_t n = paged_kv_out_bytes(&p) / sizeof(float);
    float *out = mem_zalloc(3 * n, sizeof *out);
    ck_assert_ptr_nonnull(out);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct receipt r = {.logical_bytes = logical_bytes(&p)};
        if (!pick_isa(isa, &kernels))
            continue;
        int misses = open_misses();
        run_grouped(&p, &kernels, out, &r);
        if (isa == ISA_SCALAR)
            print_bytes_read(misses);
        if (misses >= 0)
            close(misses);
        run_oracles(&p, &kernels, out + n, out + 2 * n, &r);
        require_same(out + n, out, n, "repeat");
        require_same(out + 2 * n, out, n, "owner map");
        ck_assert_uint_eq(r.grouped_bytes, 0);
        ck_assert_uint_eq(r.owner_map_bytes, 0);
        ck_assert_uint_eq(r.repeat_bytes * spec.n_kv_heads, r.logical_bytes * spec.n_query_heads);
        if (isa == ISA_SCALAR)
            printf("%s, %s: K/V %llu bytes, a repeat made %llu, grouped %llu\n", a->name,
                   type_names[type], (unsigned long long)r.logical_bytes,
                   (unsigned long long)r.repeat_bytes, (unsigned long long)r.grouped_bytes);
    }
    mem_free(out);
    paged_kv_release(&p);
}
END_TEST

/* ---- tiles ---- */

/* The query heads of one K/V head stand in as few tiles as hold them, of sizes within one of each
 * other, one behind the other. */
START_TEST(groups_are_cut_evenly)
{
    static const struct {
        uint8_t group;
        uint32_t n_tiles, least, most;
    } cuts[] = {{9, 1, 9, 9}, {24, 1, 24, 24}, {25, 2, 12, 13}, {33, 2, 16, 17}, {64, 3, 21, 22}};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        struct arrangement a = {"", 1, {cuts[i].group}, 16, 16, false, false};
        uint64_t seed = 1;
        struct paged_spec spec = spec_of(&a, KV_F16, &seed);
        spec.n_sequences = 1;
        struct paged_kv p;
        struct attention_plan *plan = NULL;
        paged_kv_init(&p, &spec, &seed);
        struct attention_shape shape = paged_kv_shape(&p, 1);
        ck_assert_int_eq(
            (int)attention_plan_new(&shape, &scalar_kernels()->attention, &plan, NULL), OK);
        attention_schedule(plan, p.sequences, 1);
        ck_assert_uint_eq(plan->n_tiles, cuts[i].n_tiles);
        for (uint32_t t = 0; t < plan->n_tiles; t++)
            ck_assert(plan->tiles[t].n_rows >= cuts[i].least &&
                      plan->tiles[t].n_rows <= cuts[i].most);
        attention_plan_free(&plan);
        paged_kv_release(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_map");
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *tc = tcase_create("maps");
    tcase_set_timeout(tc, 200);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, every_arrangement_is_the_same_bits_every_way, 0,
                        (int)ARRAY_LEN(arrangements) * KV_TYPE_COUNT);
    tcase_add_loop_test(tc, only_a_repeat_makes_new_kv, 0,
                        (int)ARRAY_LEN(arrangements) * KV_TYPE_COUNT);
    tcase_add_test(tc, groups_are_cut_evenly);
    return suite_run(suite);
}
