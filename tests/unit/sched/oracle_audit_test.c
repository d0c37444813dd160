/* oracle_audit_test.c: rows that a decoder hands over are the oracle's to the bit, in every shape and K/V type;
 * and a kernel that is a little wrong is found, however little. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/oracle_audit.h"

#include <math.h>

#include "config/mem.h"
#include "tests/support/decoder_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { TOKENS = 330 };

static const uint32_t uneven_heads[] = {1, 4, 2, 2};
static const struct shape {
    const char *architecture;
    uint32_t layers, heads, kv_heads, d_qk, d_v, window;
    const uint32_t *layer_kv_heads;
} shapes[] = {
    {"llama", 3, 6, 2, 16, 16, 0, NULL},
    {"llama", 4, 4, 4, 16, 48, 0, uneven_heads},
    {"qwen2", 2, 14, 2, 16, 16, 0, NULL},
    {"gemma3", 7, 4, 1, 64, 64, 100, NULL},
};

static void load(struct decoder_rig *rig, const struct shape *s, enum kv_type type)
{
    struct small_model shape = small_model_default();
    struct why why = {0};
    struct gguf *gguf;
    size_t len;
    shape.architecture = s->architecture;
    shape.layers = s->layers;
    shape.heads = s->heads;
    shape.kv_heads = s->kv_heads;
    shape.d_qk = s->d_qk;
    shape.d_v = s->d_v;
    shape.window = s->window;
    shape.layer_kv_heads = s->layer_kv_heads;
    char *bytes = small_model_bytes(&shape, &len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    decoder_rig_init(rig, gguf, type, NULL, 2, TOKENS);
    gguf_free(&gguf);
    mem_free(bytes);
}

struct finding {
    struct oracle_audit *audit;
    uint32_t n_rows;
    uint32_t layer, position;
    double difference;
};

static void on_row(void *user, const struct decoder_row *row)
{
    struct finding *f = user;
    uint64_t calls = mem_calls();
    f->n_rows++;
    f->layer = row->layer;
    f->position = row->sequence.first_position;
    ck_assert(oracle_audit_row(f->audit, row, &f->difference));
    ck_assert_uint_eq(mem_calls(), calls);
}

/* Runs the text in chunks, a row of each step looked at; the worst difference. */
static double worst_row(struct decoder_rig *rig, uint32_t chunk)
{
    struct finding f = {0};
    double worst = 0.0;
    uint32_t ids[TOKENS], n_layers = rig->model->graph->n_layers;
    ck_assert_int_eq(oracle_audit_new(rig->model->graph, rig->model->kv_type, &f.audit, NULL), OK);
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 31 + i * 7) % rig->model->graph->vocab;
    for (uint32_t first = 0, turn = 0; first < TOKENS; first += chunk, turn++) {
        uint32_t n = TOKENS - first < chunk ? TOKENS - first : chunk;
        decoder_ask_row(rig->decoder, 0, turn % n_layers, turn * 7919u * 5, on_row, &f);
        decoder_rig_step(rig, ids, first, n);
        ck_assert_uint_eq(f.n_rows, turn + 1);
        ck_assert_uint_eq(f.layer, turn % n_layers);
        ck_assert_uint_ge(f.position, first);
        ck_assert_uint_lt(f.position, first + n);
        worst = isnan(f.difference) || f.difference > worst ? f.difference : worst;
    }
    oracle_audit_free(&f.audit);
    return worst;
}

START_TEST(rows_are_the_oracles_to_the_bit)
{
    const struct shape *s = &shapes[_i / KV_TYPE_COUNT];
    for (int asks = 0; asks < 2; asks++) {
        struct decoder_rig rig;
        load(&rig, s, (enum kv_type)(_i % KV_TYPE_COUNT));
        rig.asks_last_only = asks == 1;
        double prompts = worst_row(&rig, 48), singles = worst_row(&rig, 1);
        ck_assert_msg(prompts == 0.0 && singles == 0.0, "%s: %g, %g", s->architecture, prompts,
                      singles);
        decoder_rig_release(&rig);
    }
}
END_TEST

/* ---- kernels that are a little wrong ---- */

static attend_chunk_fn *true_chunk;
static float factor;

static void scaled_chunk(const struct attend_tile *tile)
{
    float q[ATTEND_ROWS_MAX * ATTEND_Q_STRIDE];
    struct attend_tile scaled = *tile;
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t i = 0; i < tile->d_qk; i++)
            q[r * ATTEND_Q_STRIDE + i] = tile->q[r * ATTEND_Q_STRIDE + i] * factor;
    scaled.q = q;
    true_chunk(&scaled);
}

/* A rig whose decoder has the factor in its kernels' scores. */
static void load_scaled(struct decoder_rig *rig, float by, enum kv_type type)
{
    load(rig, &shapes[0], type);
    struct decoder_limits limits = {
        .rows_max = TOKENS, .sequences_max = 1, .logit_rows_max = 64, .context_max = 384};
    struct why why = {0};
    uint32_t pool;
    decoder_free(&rig->decoder);
    factor = by;
    true_chunk = rig->kernels.attention.chunk[type];
    rig->kernels.attention.chunk[type] = scaled_chunk;
    ck_assert_int_eq(decoder_new(rig->model, &rig->kernels, rig->workers, &limits, &rig->decoder, &why),
                     OK);
    ck_assert_int_eq(decoder_attach(rig->decoder, &rig->memory, &pool, &why), OK);
    ck_assert_uint_eq(pool, 0);
}

START_TEST(scores_off_by_a_hundredth_are_far_over_the_bound)
{
    struct decoder_rig rig;
    load_scaled(&rig, 1.01f, (enum kv_type)_i);
    double worst = worst_row(&rig, 1);
    printf("scores times 1.01, K/V type %d: %.2e of the row's largest value\n", _i, worst);
    ck_assert_double_gt(worst, 1e-3); /* the gate's bound is 1e-4 */
    decoder_rig_release(&rig);
}
END_TEST

START_TEST(not_a_number_is_told_as_such)
{
    struct decoder_rig rig;
    load_scaled(&rig, NAN, KV_F16);
    ck_assert(isnan(worst_row(&rig, 64)));
    decoder_rig_release(&rig);
}
END_TEST

/* ---- what else is counted ---- */

START_TEST(single_rows_issue_each_byte_once)
{
    const struct shape *s = &shapes[_i];
    struct decoder_rig rig;
    struct decoder_sums sums;
    load(&rig, s, KV_F16);
    uint32_t ids[TOKENS] = {0};
    decoder_rig_step(&rig, ids, 0, 200);
    decoder_sums(rig.decoder, 0, &sums);
    ck_assert_uint_eq(sums.logical_bytes, 0);
    for (uint32_t t = 200; t < TOKENS; t++)
        decoder_rig_step(&rig, ids, t, 1);
    uint64_t want = 0;
    for (uint32_t t = 200; t < TOKENS; t++)
        for (uint32_t l = 0; l < s->layers; l++) {
            const struct graph_layer *g = &rig.model->graph->layers[l];
            uint32_t first = g->window == 0 || t < g->window ? 0 : t - g->window + 1;
            uint64_t units = t / 16 - first / 16 + 1;
            want += units * g->n_k_heads * (g->d_qk + g->d_v) * 16 * 2;
        }
    decoder_sums(rig.decoder, 0, &sums);
    ck_assert_uint_eq(sums.logical_bytes, want);
    ck_assert_uint_eq(sums.issued_bytes, want);
    ck_assert_uint_eq(sums.allocations, 0);
    decoder_sums(rig.decoder, 1, &sums);
    ck_assert_uint_eq(sums.logical_bytes, 0);
    decoder_rig_release(&rig);
}
END_TEST

/* What a kernel that repeats K/V in memory does: it takes some. */
static void greedy_chunk(const struct attend_tile *tile)
{
    void *copy = mem_alloc(4096);
    ck_assert_ptr_nonnull(copy);
    true_chunk(tile);
    mem_free(copy);
}

START_TEST(a_kernel_that_takes_memory_is_counted)
{
    struct decoder_rig rig;
    struct decoder_sums sums;
    uint32_t ids[TOKENS] = {0};
    load_scaled(&rig, 1.0f, KV_F16);
    struct decoder_limits limits = {
        .rows_max = TOKENS, .sequences_max = 1, .logit_rows_max = 64, .context_max = 384};
    uint32_t pool;
    decoder_free(&rig.decoder);
    rig.kernels.attention.chunk[KV_F16] = greedy_chunk;
    ck_assert_int_eq(decoder_new(rig.model, &rig.kernels, rig.workers, &limits, &rig.decoder, NULL), OK);
    ck_assert_int_eq(decoder_attach(rig.decoder, &rig.memory, &pool, NULL), OK);
    decoder_rig_step(&rig, ids, 0, 1);
    decoder_sums(rig.decoder, 0, &sums);
    ck_assert_uint_eq(sums.allocations, 3 * 2); /* a tile of each K/V head in each layer */
    mem_free(mem_alloc(1));                     /* not in a step */
    decoder_sums(rig.decoder, 0, &sums);
    ck_assert_uint_eq(sums.allocations, 3 * 2);
    decoder_rig_release(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle_audit");
    TCase *tc = tcase_create("audit");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, rows_are_the_oracles_to_the_bit, 0, (int)ARRAY_LEN(shapes) * KV_TYPE_COUNT);
    tcase_add_loop_test(tc, scores_off_by_a_hundredth_are_far_over_the_bound, 0, KV_TYPE_COUNT);
    tcase_add_test(tc, not_a_number_is_told_as_such);
    tcase_add_loop_test(tc, single_rows_issue_each_byte_once, 0, (int)ARRAY_LEN(shapes));
    tcase_add_test(tc, a_kernel_that_takes_memory_is_counted);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
