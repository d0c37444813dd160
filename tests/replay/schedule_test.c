/* schedule_test.c: the same request gives the same bytes under every schedule.
 *
 * WHY     Exactness is the promise: alone or in a batch, any threads, any chunking, hit or miss,
 *         preempted or not.
 * HOW     Requests from a seed are first answered alone: one thread, whole prompts, no reuse. Then
 *         schedules from the seed (threads, chunk, pool, arrival, cancelled company, a pace of any
 *         temper, steps that are late in any layer, one lane or several of the same weights in one
 *         pass) answer them again, and every output is compared with memcmp. A run in which nothing
 *         was reused, copied, preempted, shed or longer than a chunk proves nothing, and fails; so of
 *         each eight schedules one is of requests that outgrow their pool together, one has several
 *         lanes, and one a long prompt.
 *         FOLDKV_TEST_SEED repeats a run; FOLDKV_TEST_LONG=1 takes full counts.
 */
// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <inttypes.h>

#include "config/mem.h"
#include "sched/request_priv.h"
#include "tests/support/engine_rig.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { SPECS = 24, GROWERS = 8, PROMPT_MAX = 320, ANSWER_MAX = 24, STEPS_MAX = 100000 };

/* What the schedules of one model went through, all together. */
struct coverage {
    uint64_t hits, copied, preemptions, recomputed, shed, long_rows, schedules, crowds;
};

struct field {
    const struct gguf *gguf;
    uint32_t vocab;
    uint32_t short_most; /* tokens of a prompt that is not to be long */
    const char *isa;
    const char *cache_type;
    uint32_t pool_blocks_least; /* what the longest request needs */
    uint64_t block_bytes;       /* of 64 tokens in every layer */
    struct rig_spec specs[SPECS];
    struct rig_outcome alone[SPECS];
    uint32_t *ids;
    uint64_t random;
    struct coverage coverage;
};

static uint32_t draw_below(struct field *f, uint32_t n)
{
    return noise_below(&f->random, n);
}

/* Every sixth of the others is longer than a chunk. The last few begin in one block and end in the
 * next. */
static uint32_t draw_length(struct field *f, uint32_t i)
{
    if (i >= SPECS - GROWERS)
        return CACHE_PAGE_TOKENS - ANSWER_MAX + 4 + draw_below(f, ANSWER_MAX / 2);
    return i % 6 == 0 ? 257 + draw_below(f, PROMPT_MAX - 257) : 1 + draw_below(f, f->short_most);
}

/* Prompts take their heads from a few common stems, so that prefixes are shared at every length. */
static void make_specs(struct field *f)
{
    static const uint32_t stems = 3;
    f->ids = mem_alloc((size_t)SPECS * PROMPT_MAX * sizeof *f->ids);
    ck_assert_ptr_nonnull(f->ids);
    uint32_t *stem = mem_alloc(stems * PROMPT_MAX * sizeof *stem);
    ck_assert_ptr_nonnull(stem);
    for (uint32_t i = 0; i < stems * PROMPT_MAX; i++)
        stem[i] = draw_below(f, f->vocab);
    for (uint32_t i = 0; i < SPECS; i++) {
        uint32_t *ids = f->ids + (size_t)i * PROMPT_MAX;
        uint32_t n = draw_length(f, i);
        uint32_t shared = i < SPECS - GROWERS ? draw_below(f, n + 1) : 0;
        uint32_t which = draw_below(f, stems);
        for (uint32_t k = 0; k < n; k++)
            ids[k] = k < shared ? stem[which * PROMPT_MAX + k] : draw_below(f, f->vocab);
        bool is_greedy = draw_below(f, 3) == 0;
        f->specs[i] = (struct rig_spec){
            .ids = ids,
            .n_ids = n,
            .max_tokens = i >= SPECS - GROWERS    ? ANSWER_MAX
                          : draw_below(f, 8) == 0 ? 0
                                                  : 1 + draw_below(f, ANSWER_MAX),
            .sampling = {.temperature =
                             is_greedy ? 0.0f : 0.5f + (float)draw_below(f, 100) / 100.0f,
                         .top_p = draw_below(f, 2) ? 1.0f : 0.9f,
                         .top_k = draw_below(f, 2) ? 0 : 40,
                         .seed = noise_next(&f->random)},
            .logprobs = (int32_t)draw_below(f, 7) - 1,
        };
        f->specs[i].prompt_logprobs = f->specs[i].logprobs >= 0 && draw_below(f, 4) == 0;
    }
    mem_free(stem);
}

static struct rig_options base_options(const struct field *f)
{
    struct rig_options o = rig_options();
    o.isa = f->isa;
    o.cache_type = f->cache_type;
    return o;
}

/* One thread, whole prompts, and a cache that is emptied between: nothing to reuse. */
static void answer_alone(struct field *f)
{
    struct rig_options o = base_options(f);
    o.prefill_chunk = 512;
    struct rig *rig = rig_new(f->gguf, &o);
    const struct rig_parts *p = rig_parts(rig);
    const struct graph *g = p->model->graph;
    for (uint32_t i = 0; i < g->n_groups; i++)
        f->block_bytes += (uint64_t)cache_memory(p->cache, i).page_bytes * g->groups[i].n_heads *
                          g->groups[i].n_layers;
    f->pool_blocks_least = cache_blocks_for(PROMPT_MAX + ANSWER_MAX + 1);
    for (uint32_t i = 0; i < SPECS; i++) {
        rig_submit(rig, &f->specs[i], &f->alone[i]);
        rig_run(rig, STEPS_MAX);
        ck_assert_uint_eq(f->alone[i].cached_tokens, 0);
        cache_purge(p->cache);
    }
    rig_free(&rig);
}

enum { LEAP_NS = 100000000 }; /* many times what these steps are said to take */

/* What a schedule is made for; most are for nothing in particular. */
enum aim { AIM_NONE, AIM_LONG = 1, AIM_LANES = 3, AIM_OUTGROW = 7, AIMS = 8 };

/* One lane, and the least pool that can hold each of its requests alone. Small chunks may let some end before
 * others begin: until somebody was preempted all prompts go into the first step. */
static void make_tight(const struct field *f, struct rig_options *o)
{
    if (f->coverage.preemptions == 0)
        o->prefill_chunk = 512;
    o->running_max = 12;
    o->cache_bytes = f->block_bytes * f->pool_blocks_least;
    o->n_lanes = 1;
    o->lane_bytes = 0;
    o->other_type = NULL;
}

static struct rig_options draw_options(struct field *f, enum aim aim)
{
    static const uint32_t chunks[] = {16, 64, 512};
    static const char *const others[] = {"f16", "f32", "int8"};
    struct rig_options o = base_options(f);
    o.n_threads = 1 + draw_below(f, 3);
    o.prefill_chunk = chunks[draw_below(f, 3)];
    o.running_max = 1 + draw_below(f, 12);
    o.cache_bytes = f->block_bytes * (f->pool_blocks_least + draw_below(f, 14));
    o.n_lanes = aim != AIM_LANES && draw_below(f, 3) > 0 ? 1 : 2 + draw_below(f, PASS_SCHEDULERS_MAX - 1);
    o.lane_bytes = f->block_bytes * draw_below(f, 3);
    if (draw_below(f, 2) == 0) { /* every second lane is company of another type */
        o.other_type = others[draw_below(f, 3)];
        o.lane_bytes += 3 * o.cache_bytes;
    }
    o.leap_ns = draw_below(f, 3) == 0 ? 0 : LEAP_NS;
    if (aim == AIM_OUTGROW)
        make_tight(f, &o);
    return o;
}

static void note_lane(struct field *f, const struct scheduler *scheduler)
{
    struct engine_stats stats;
    scheduler_stats(scheduler, &stats);
    f->coverage.hits += stats.prefix_hit_tokens;
    f->coverage.copied += stats.prefix_copied_tokens;
    f->coverage.preemptions += stats.preemptions;
    f->coverage.recomputed += stats.recomputed_tokens;
    f->coverage.shed += stats.shed_rows;
    ck_assert_uint_eq(stats.requests_admitted, stats.requests_finished + stats.requests_aborted +
                                                   stats.requests_failed + stats.requests_running +
                                                   stats.requests_waiting);
    ck_assert_uint_eq(stats.blocks_used, 0);
    ck_assert_uint_eq(stats.blocks, stats.blocks_free + stats.blocks_cached);
}

static void note(struct field *f, struct rig *rig)
{
    for (uint32_t i = 0; i < rig_parts(rig)->n_lanes; i++)
        note_lane(f, rig_lane(rig, i)->scheduler);
    f->coverage.crowds += rig_parts(rig)->n_lanes > 1;
    f->coverage.schedules++;
}

enum { REQUESTS_MAX = 10, COMPANY_MAX = 3, MANY_SCHEDULES = 200 };

/* One whose answers are known: its K/V are of the field's type. */
static uint32_t draw_lane(struct field *f, const struct rig_options *o)
{
    return o->other_type == NULL ? draw_below(f, o->n_lanes)
                                 : 2 * draw_below(f, (o->n_lanes + 1) / 2);
}

static uint32_t draw_spec(struct field *f, enum aim aim, uint32_t i)
{
    if (aim == AIM_OUTGROW)
        return SPECS - 1 - i % GROWERS;
    return aim == AIM_LONG && i == 0 ? 0 : draw_below(f, SPECS);
}

/* One schedule: some of the requests, and company that leaves in the middle. */
static void run_schedule(struct field *f, uint64_t seed, enum aim aim)
{
    f->random = seed;
    struct rig_options o = draw_options(f, aim);
    struct rig *rig = rig_new(f->gguf, &o);
    struct rig_outcome got[REQUESTS_MAX] = {0}, company_got[COMPANY_MAX] = {0};
    struct request *company[COMPANY_MAX] = {0};
    uint32_t which[REQUESTS_MAX];
    uint32_t n = aim == AIM_OUTGROW ? REQUESTS_MAX : 2 + draw_below(f, REQUESTS_MAX - 1);
    uint32_t submitted = 0, accompanied = 0;
    while (submitted < n || pass_active(rig_parts(rig)->pass) > 0) {
        while (submitted < n && (aim == AIM_OUTGROW || draw_below(f, 3) == 0)) {
            which[submitted] = draw_spec(f, aim, submitted);
            rig_submit_to(rig, draw_lane(f, &o), &f->specs[which[submitted]], &got[submitted]);
            f->coverage.long_rows += f->specs[which[submitted]].n_ids > ATTEND_CHUNK;
            submitted++;
        }
        if (accompanied < COMPANY_MAX && draw_below(f, 8) == 0) {
            const struct rig_spec *spec = &f->specs[draw_below(f, SPECS)];
            company[accompanied] =
                rig_submit_to(rig, draw_below(f, o.n_lanes), spec, &company_got[accompanied]);
            accompanied++;
        }
        for (uint32_t i = 0; i < accompanied; i++)
            if (!company_got[i].is_done && draw_below(f, 10) == 0)
                request_ask(company[i], REQUEST_CANCEL);
        rig_step(rig, 1000 + draw_below(f, 10000000));
    }
    for (uint32_t i = 0; i < n; i++) {
        char what[96];
        snprintf(what, sizeof what, "schedule %" PRIu64 " (%s, %s), request %u", seed, f->isa,
                 f->cache_type, which[i]);
        rig_outcome_check_equal(&f->alone[which[i]], &got[i], what);
        rig_outcome_release(&got[i]);
    }
    for (uint32_t i = 0; i < COMPANY_MAX; i++)
        rig_outcome_release(&company_got[i]);
    note(f, rig);
    rig_free(&rig);
}

static void field_release(struct field *f)
{
    for (uint32_t i = 0; i < SPECS; i++)
        rig_outcome_release(&f->alone[i]);
    mem_free(f->ids);
}

/* At least AIMS schedules of a field that says what is asked and of what. */
static void check_schedules(struct field *f, uint32_t n)
{
    uint64_t seed = test_seed();
    f->random = seed;
    make_specs(f);
    answer_alone(f);
    for (uint32_t i = 0; i < n; i++)
        run_schedule(f, seed + i + 1, (enum aim)(i % AIMS));
    const struct coverage *c = &f->coverage;
    printf("%s, %s: %" PRIu64 " schedules from seed %" PRIu64 ": %" PRIu64 " tokens hit, %" PRIu64
           " copied, %" PRIu64 " preemptions, %" PRIu64 " recomputed, %" PRIu64 " shed, %" PRIu64
           " requests over several chunks, %" PRIu64 " with several lanes\n",
           f->isa, f->cache_type, c->schedules, seed, c->hits, c->copied, c->preemptions, c->recomputed,
           c->shed, c->long_rows, c->crowds);
    ck_assert_uint_gt(c->hits, 0);
    ck_assert_uint_gt(c->long_rows, 0);
    ck_assert_uint_gt(c->copied, 0);
    ck_assert_uint_gt(c->preemptions, 0);
    ck_assert_uint_gt(c->crowds, 0);
    ck_assert_uint_gt(c->shed, 0);
    if (n >= MANY_SCHEDULES) /* what was preempted may find all its rows still cached */
        ck_assert_uint_gt(c->recomputed, 0);
    field_release(f);
}

/* ---- the models ---- */

static uint32_t count(uint32_t usual, uint32_t full)
{
    const char *is_long = getenv("FOLDKV_TEST_LONG");
    return is_long != NULL && strcmp(is_long, "1") == 0 ? full : usual;
}

static void check_model(const struct small_model *model, const char *isa, const char *cache_type,
                        uint32_t n)
{
    size_t len;
    char *bytes = small_model_bytes(model, &len);
    struct gguf *gguf;
    struct why why = {0};
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    struct field field = {.gguf = gguf,
                          .vocab = model->vocab,
                          .short_most = 100,
                          .isa = isa,
                          .cache_type = cache_type};
    check_schedules(&field, n);
    gguf_free(&gguf);
    mem_free(bytes);
}

static void check_small(const char *isa, uint32_t type, uint32_t n)
{
    struct small_model model = small_model_default();
    model.type = type;
    check_model(&model, isa, "f16", n);
}

static const char *best_isa(void)
{
    struct kernels kernels;
    kernels_pick(isa_available(), &kernels);
    return isa_name(kernels.isa);
}

enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q4_1 = 3, GGML_Q8_0 = 8 };

/* Every arrangement of heads that a checkpoint may have, each with another weight and K/V type. */
static const uint32_t uneven_heads[] = {1, 4, 2, 4}, odd_k_map[] = {2, 0, 2, 1, 2, 2},
                      odd_v_map[] = {0, 1, 1, 2, 0, 0},
                      layer_maps[] = {0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1};
static const struct arrangement {
    const char *name;
    const char *cache_type;
    struct small_model model;
} arrangements[] = {
    {"qwen",
     "f16",
     {.architecture = "qwen2",
      .layers = 2,
      .heads = 14,
      .kv_heads = 2,
      .d_qk = 16,
      .d_v = 16,
      .type = GGML_Q8_0,
      .has_output = true}},
    {"exaone",
     "f32",
     {.architecture = "exaone4",
      .layers = 2,
      .heads = 8,
      .kv_heads = 2,
      .d_qk = 32,
      .d_v = 32,
      .type = GGML_Q4_1}},
    {"maps",
     "f16", /* K maps unlike V maps, groups of one to four, no two neighbours alike */
     {.layers = 2,
      .heads = 6,
      .kv_heads = 3,
      .d_qk = 32,
      .d_v = 16,
      .k_map = odd_k_map,
      .n_k_map = 6,
      .v_map = odd_v_map,
      .n_v_map = 6,
      .type = GGML_F16}},
    {"layer_maps",
     "f16", /* another map in each layer: plans over the same pages */
     {.architecture = "qwen3",
      .layers = 3,
      .heads = 6,
      .kv_heads = 2,
      .d_qk = 16,
      .d_v = 32,
      .k_map = layer_maps,
      .n_k_map = 18,
      .type = GGML_Q8_0}},
    {"uneven",
     "f16", /* three cache groups */
     {.layers = 4,
      .heads = 4,
      .layer_kv_heads = uneven_heads,
      .d_qk = 16,
      .d_v = 48,
      .type = GGML_Q4_1}},
    {"gemma",
     "f16", /* a window shorter than a prompt, one K/V head */
     {.architecture = "gemma3",
      .layers = 6,
      .heads = 4,
      .kv_heads = 1,
      .d_qk = 64,
      .d_v = 64,
      .window = 72,
      .type = GGML_F32}},
};

static void check_arrangement(const struct arrangement *a)
{
    struct small_model model = a->model, usual = small_model_default();
    model.hidden = usual.hidden;
    model.ffn = usual.ffn;
    model.vocab = usual.vocab;
    model.context = usual.context;
    model.seed = usual.seed;
    model.head_type = usual.head_type;
    printf("%s\n", a->name);
    check_model(&model, best_isa(), a->cache_type, count(120, 1200));
    check_model(&model, best_isa(), "int8", count(60, 600));
}

START_TEST(arrangement_qwen)
{
    check_arrangement(&arrangements[0]);
}
END_TEST

START_TEST(arrangement_exaone)
{
    check_arrangement(&arrangements[1]);
}
END_TEST

START_TEST(arrangement_maps)
{
    check_arrangement(&arrangements[2]);
    check_arrangement(&arrangements[3]);
}
END_TEST

START_TEST(arrangement_uneven)
{
    check_arrangement(&arrangements[4]);
}
END_TEST

START_TEST(arrangement_gemma)
{
    check_arrangement(&arrangements[5]);
}
END_TEST

START_TEST(small_model_on_scalar)
{
    check_small("scalar", GGML_Q4_1, count(100, 2000));
}
END_TEST

START_TEST(small_model_on_vectors)
{
    check_small(best_isa(), GGML_Q4_1, count(1700, 2000));
}
END_TEST

START_TEST(small_model_with_f16_weights)
{
    check_small(best_isa(), GGML_F16, count(200, 2000));
}
END_TEST

/* The weight types that no arrangement and no checkpoint of the tests has, or too few schedules. */
START_TEST(weight_types)
{
    static const uint32_t types[] = {2, 30, 6, 7, 10, 11, 12, 13, 14, 20, 23}; /* ggml's numbers */
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct small_model model = small_model_default();
        model.hidden = model.ffn = 256;
        model.heads = 4;
        model.d_qk = model.d_v = 64;
        model.type = types[i];
        model.head_type = GGML_Q8_0;
        printf("ggml type %u\n", types[i]);
        check_model(&model, best_isa(), "f16", count(20, 200));
    }
}
END_TEST

static void check_checkpoint(const char *path_from, uint32_t vocab, uint32_t short_most, uint32_t n)
{
    const char *path = getenv(path_from);
    ck_assert_msg(path != NULL, "%s is not set", path_from);
    struct gguf *gguf;
    struct why why = {0};
    ck_assert_msg(gguf_open(path, &gguf, &why) == OK, "%s", why.text);
    struct field field = {.gguf = gguf,
                          .vocab = vocab,
                          .short_most = short_most,
                          .isa = best_isa(),
                          .cache_type = "f16"};
    check_schedules(&field, n);
    gguf_free(&gguf);
}

START_TEST(real_checkpoint)
{
    check_checkpoint("FOLDKV_TEST_MODEL", 49152, 100, count(50, 200));
}
END_TEST

START_TEST(gemma_checkpoint)
{
    check_checkpoint("FOLDKV_TEST_GEMMA", 262144, 40, count(16, 100));
}
END_TEST

START_TEST(qwen_checkpoint)
{
    check_checkpoint("FOLDKV_TEST_QWEN", 151936, 40, count(16, 100));
}
END_TEST

int main(void)
{
    printf("FOLDKV_TEST_SEED=%" PRIu64 "\n", test_seed());
    Suite *suite = suite_create("schedule");
    const struct {
        const char *name;
        const TTest *test;
    } cases[] = {
        {"scalar", small_model_on_scalar},
        {"vectors", small_model_on_vectors},
        {"f16", small_model_with_f16_weights},
        {"checkpoint", real_checkpoint},
        {"qwen", arrangement_qwen},
        {"exaone", arrangement_exaone},
        {"maps", arrangement_maps},
        {"uneven", arrangement_uneven},
        {"gemma", arrangement_gemma},
        {"types", weight_types},
        {"gemma_checkpoint", gemma_checkpoint},
        {"qwen_checkpoint", qwen_checkpoint},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) { /* the build runs them side by side by name */
        TCase *tc = tcase_create(cases[i].name);
        tcase_set_timeout(tc, 1200);
        tcase_add_test(tc, cases[i].test);
        suite_add_tcase(suite, tc);
    }
    return suite_run(suite);
}
