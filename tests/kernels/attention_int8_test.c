/* attention_int8_test.c: int8 K/V: what is stored, and that 16-bit queries and weights lose nothing
 * that matters.
 *
 * HOW     Stored bytes are compared with the definition, written here over plain floats, on every
 *         set. Attention is compared with double over the same stored K/V: one token that outweighs
 *         each other one many thousand times, and 32,768 that together weigh as much. The seed is
 *         printed, and taken from FOLDKV_TEST_SEED.
 * NOT     Equality of the ways and sets, which attention_test.c has for every type.
 */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "config/mem.h"
#include "tests/kernels/attention_ways.h"
#include "tests/support/guard.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { ROUNDS = 100, DIFFUSE = 32768 };

/* ---- storing ---- */

struct unit {
    uint32_t d_qk, d_v, token;
    char *k, *v;
};

static struct unit unit_new(uint32_t d_qk, uint32_t d_v, uint32_t token)
{
    size_t k_bytes = kv_k_part_bytes(KV_I8, d_qk), v_bytes = kv_v_part_bytes(KV_I8, d_v);
    return (struct unit){d_qk, d_v, token, memset(guard_alloc(k_bytes), 0x5a, k_bytes),
                         memset(guard_alloc(v_bytes), 0x5a, v_bytes)};
}

static void unit_free(struct unit *u)
{
    guard_free(u->k, kv_k_part_bytes(KV_I8, u->d_qk));
    guard_free(u->v, kv_v_part_bytes(KV_I8, u->d_v));
}

/* The row's numbers; its scale comes back. */
static float quantised(const float *x, uint32_t d, int *ret_numbers)
{
    float top = 0;
    bool bad = false;
    for (uint32_t i = 0; i < d; i++) {
        bad = bad || !isfinite(x[i]);
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    }
    bool flat = bad || top < 0x1p-100f;
    for (uint32_t i = 0; i < d; i++)
        ret_numbers[i] = flat ? 0 : (int)rintf(x[i] * (127.0f / top));
    return bad ? NAN : flat ? 0 : top / 127.0f;
}

static void put_scale(char *part, uint32_t d, uint32_t token, float scale)
{
    memcpy(part + (size_t)16 * d + 4 * (size_t)token, &scale, sizeof scale);
}

/* The definition, into a unit that is otherwise left alone. */
static void store_by_definition(struct unit *u, const float *k, const float *v)
{
    int numbers[ATTEND_WIDTH_MAX];
    put_scale(u->k, u->d_qk, u->token, quantised(k, u->d_qk, numbers));
    for (uint32_t i = 0; i < u->d_qk; i++)
        u->k[(i / 4 * 16 + u->token) * 4 + i % 4] = (char)(uint8_t)(numbers[i] + 128);
    put_scale(u->v, u->d_v, u->token, quantised(v, u->d_v, numbers));
    for (uint32_t j = 0; j < u->d_v; j++)
        u->v[(u->token / 4 * u->d_v + j) * 4 + u->token % 4] = (char)(int8_t)numbers[j];
}

/* A scale may be a NaN of any payload. */
static void require_same_part(const char *found, const char *wanted, uint32_t d)
{
    ck_assert_mem_eq(found, wanted, (size_t)16 * d);
    float a[16], b[16];
    memcpy(a, found + (size_t)16 * d, sizeof a);
    memcpy(b, wanted + (size_t)16 * d, sizeof b);
    require_same(a, b, 16, "scale");
}

START_TEST(storing_follows_the_definition)
{
    static const double sizes[] = {1, 1e-4, 70000, 1e-36, 0, 1e37};
    struct kernels kernels;
    uint64_t seed = test_seed() + 1;
    for (int i = 0; i < ROUNDS && pick_isa(_i, &kernels); i++) {
        uint32_t d_qk = 16 * (1 + noise_below(&seed, 16)), d_v = 16 * (1 + noise_below(&seed, 16));
        uint32_t token = noise_below(&seed, 16);
        float k[ATTEND_WIDTH_MAX], v[ATTEND_WIDTH_MAX];
        double size = sizes[(uint32_t)i % ARRAY_LEN(sizes)];
        noise_fill(k, d_qk, -size, size, &seed);
        noise_fill(v, d_v, -1, 1, &seed);
        if (i % 10 == 9) {
            k[noise_below(&seed, d_qk)] = INFINITY;
            v[noise_below(&seed, d_v)] = -NAN;
        }
        struct unit found = unit_new(d_qk, d_v, token), wanted = unit_new(d_qk, d_v, token);
        kernels.attention.store[KV_I8](d_qk, d_v, token, k, v, found.k, found.v);
        store_by_definition(&wanted, k, v);
        require_same_part(found.k, wanted.k, d_qk);
        require_same_part(found.v, wanted.v, d_v);
        unit_free(&found);
        unit_free(&wanted);
    }
}
END_TEST

/* ---- one sink and many alike ---- */

static const struct sink {
    float spread; /* of the diffuse tokens' scores */
    float v_mean;
    float v_sink;
} sinks[] = {{0, 1, 1}, {1, 1, 1}, {0, 1, -3}, {1, 1, -3}, {0.1f, 1, 0}, {2, 0, 2}};

/* All queries lean one way, and the sink's K lies along it: its score is ln 32768 above the mean. */
static void fill_sink(struct paged_kv *p, const struct sink *sink, uint64_t *seed)
{
    float lean[ATTEND_WIDTH_MAX], k[ATTEND_WIDTH_MAX], v[ATTEND_WIDTH_MAX];
    float square = 0;
    noise_fill(lean, p->spec.d_qk, -1, 1, seed);
    for (uint32_t i = 0; i < p->spec.d_qk; i++)
        square += lean[i] * lean[i];
    float lift = 10.3972f * sqrtf((float)p->spec.d_qk) / square;
    for (uint32_t t = 0; t <= DIFFUSE; t++) {
        noise_fill(k, p->spec.d_qk, (double)-sink->spread, (double)sink->spread, seed);
        noise_fill(v, p->spec.d_v, (double)sink->v_mean - 0.5, (double)sink->v_mean + 0.5, seed);
        for (uint32_t j = 0; j < p->spec.d_v && t == 0; j++)
            v[j] = sink->v_sink;
        for (uint32_t i = 0; i < p->spec.d_qk && t == 0; i++)
            k[i] = lean[i] * lift;
        for (uint32_t h = 0; h < p->spec.n_kv_heads; h++)
            paged_kv_store(p, 0, t, h, k, v);
    }
    for (size_t i = 0; i < p->q_bytes / sizeof(float); i++)
        p->q[i] = lean[i % p->spec.d_qk] + 0.05f * p->q[i];
}

START_TEST(a_sink_beside_diffuse_tokens_keeps_their_mass)
{
    uint64_t seed = test_seed() + 100 + (uint64_t)_i;
    struct paged_spec spec = {.n_query_heads = 3,
                              .n_kv_heads = 1,
                              .d_qk = _i % 2 == 0 ? 64 : 128,
                              .d_v = _i % 2 == 0 ? 64 : 128,
                              .type = KV_I8,
                              .n_sequences = 1,
                              .first = {DIFFUSE},
                              .rows = {1},
                              .run_pages_max = 40};
    struct paged_kv p;
    struct kernels kernels;
    paged_kv_init(&p, &spec, &seed);
    fill_sink(&p, &sinks[_i], &seed);
    kernels_pick(UINT32_MAX, &kernels);
    double error = paged_kv_error(&p, &kernels);
    printf("spread %g, V %g, V of the sink %g: relative error %.2g\n", (double)sinks[_i].spread,
           (double)sinks[_i].v_mean, (double)sinks[_i].v_sink, error);
    ck_assert_msg(error <= 1e-4, "relative error %g", error);
    paged_kv_release(&p);
}
END_TEST

/* Every set, over the stored K/V. */
START_TEST(sixteen_bits_are_close_to_double)
{
    uint64_t seed = test_seed() + 200;
    struct paged_spec spec = {.n_query_heads = 8,
                              .n_kv_heads = 2,
                              .d_qk = 256,
                              .d_v = 256,
                              .type = KV_I8,
                              .k_owner = {0, 0, 0, 0, 1, 1, 1, 1},
                              .v_owner = {0, 0, 0, 0, 1, 1, 1, 1},
                              .n_sequences = 1,
                              .first = {1000},
                              .rows = {3}};
    struct paged_kv p;
    paged_kv_init(&p, &spec, &seed);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct kernels kernels;
        if (!pick_isa(isa, &kernels))
            continue;
        double error = paged_kv_error(&p, &kernels);
        ck_assert_msg(error < 5e-5, "%s: relative error %g", isa_name(kernels.isa), error);
    }
    paged_kv_release(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_int8");
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *tc = tcase_create("int8");
    tcase_set_timeout(tc, 200);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, storing_follows_the_definition, 0, ISA_COUNT);
    tcase_add_loop_test(tc, a_sink_beside_diffuse_tokens_keeps_their_mass, 0,
                        (int)ARRAY_LEN(sinks));
    tcase_add_test(tc, sixteen_bits_are_close_to_double);
    return suite_run(suite);
}
