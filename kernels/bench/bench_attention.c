/* bench_attention.c: materialised repeat, direct re-read, grouped without prefetch, grouped, read
 * limit.
 *
 * HOW     Layers of distinct K/V, one GiB or more of it, one pass over all of them a variant, with
 *         the two barriers a layer that a decoder step has. A round runs every variant once; the
 *         figures are of medians. "Bytes" are the K/V that is stored, whatever a variant reads or
 *         copies. Without prefetch means that the kernel is handed the units it works on as those
 *         to ask for.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench_attention.h"

#include <math.h>

#include "config/mem.h"
#include "kernels/bench/bench_bandwidth.h"
#include "kernels/bench/bench_time.h"
#include "kernels/half.h"
#include "kernels/oracle/attention_oracle.h"
#include "kernels/workers.h"

enum { ROUNDS = 7, CONTEXT = 32768, HEADS = 3, GROUP = 3, WIDTH = 64, SCHEDULES = 100 };

enum variant { REPEAT, OWNER_MAP, NO_PREFETCH, GROUPED, VARIANT_COUNT };

static const char *const variant_names[VARIANT_COUNT] = {"materialised", "re-read", "no-prefetch",
                                                         "grouped"};

struct bench {
    struct bench_attention_options o;
    struct kernels kernels;
    struct attention_kernels blind; /* without prefetch */
    struct workers *workers;
    struct attention_shape shape;
    struct attention_plan *plans[2]; /* blind, seeing */
    struct kv_layer layer;           /* the first */
    size_t layer_bytes;
    char *memory;
    size_t memory_bytes;
    char *copy;
    size_t copy_bytes;
    struct page_run *runs;
    uint32_t n_pages; /* of a sequence */
    struct attention_sequence *sequences;
    uint16_t *owner;
    float *q;
    float *out;
};

struct pass {
    struct bench *bench;
    enum variant variant;
};

static const uint8_t no_hash[32];
static attend_chunk_fn *seeing_chunk;

/* The chunk function has no argument to pass this through: one benchmark at a time. */
static void blind_chunk(const struct attend_tile *tile)
{
    struct attend_tile blind = *tile;
    blind.k_ahead = blind.k_far = tile->k_units;
    blind.v_ahead = blind.v_far = tile->v_units;
    seeing_chunk(&blind);
}

static enum status check_options(struct bench_attention_options *o, struct why *ret_why)
{
    static const struct {
        const char *name;
        size_t offset;
        uint32_t fallback, most;
    } fields[] = {
        {"threads", offsetof(struct bench_attention_options, n_threads), 0, 256},
        {"context", offsetof(struct bench_attention_options, context), CONTEXT, 1 << 22},
        {"sequences", offsetof(struct bench_attention_options, sequences), 1, 1024},
        {"rows", offsetof(struct bench_attention_options, rows), 1, 8192},
        {"kv-heads", offsetof(struct bench_attention_options, n_kv_heads), HEADS, 64},
        {"group", offsetof(struct bench_attention_options, group), GROUP, 16},
        {"d", offsetof(struct bench_attention_options, d), WIDTH, ATTEND_WIDTH_MAX},
        {"rounds", offsetof(struct bench_attention_options, rounds), ROUNDS, BENCH_ROUNDS_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        uint32_t *value = (uint32_t *)(void *)((char *)o + fields[i].offset);
        *value = *value != 0 ? *value : fields[i].fallback;
        if (*value < 1 || *value > fields[i].most)
            return why_set(ret_why, STATUS_BAD_OPTION, fields[i].name, "%s: %u is not in 1..%u",
                           fields[i].name, *value, fields[i].most);
    }
    if (o->rows > o->context)
        return why_set(ret_why, STATUS_BAD_OPTION, "rows", "rows: %u is more than the context, %u",
                       o->rows, o->context);
    if (o->layers > 4096)
        return why_set(ret_why, STATUS_BAD_OPTION, "layers", "layers: %u is not in 1..4096",
                       o->layers);
    return OK;
}

static struct attention_shape shape_of(const struct bench *b)
{
    const struct bench_attention_options *o = &b->o;
    return (struct attention_shape){
        .n_query_heads = o->n_kv_heads * o->group,
        .n_kv_heads = o->n_kv_heads,
        .d_qk = o->d,
        .d_v = o->d,
        .type = o->type,
        .scale = 1 / sqrtf((float)o->d),
        .query_to_k_head = b->owner,
        .query_to_v_head = b->owner,
        .n_threads = o->n_threads,
        .rows_max = o->sequences * o->rows,
        .sequences_max = o->sequences,
        .context_max = o->context,
    };
}

static void lay_out(struct bench *b)
{
    const struct bench_attention_options *o = &b->o;
    size_t k_part = kv_k_part_bytes(o->type, o->d);
    size_t unit = k_part + kv_v_part_bytes(o->type, o->d);
    b->n_pages = (o->context + PAGE_TOKENS - 1) / PAGE_TOKENS;
    b->layer = (struct kv_layer){
        .base = b->memory,
        .head_stride = unit * PAGE_UNITS * b->n_pages * o->sequences,
        .page_stride = unit * PAGE_UNITS,
        .unit_stride = unit,
        .v_offset = k_part,
        .n_heads = (uint16_t)o->n_kv_heads,
        .d_qk = (uint16_t)o->d,
        .d_v = (uint16_t)o->d,
        .type = o->type,
        .generation = no_hash,
    };
    b->layer_bytes = b->layer.head_stride * o->n_kv_heads;
    if (b->o.layers == 0)
        b->o.layers = (uint32_t)((((size_t)1 << 30) + b->layer_bytes - 1) / b->layer_bytes);
    b->memory_bytes = b->layer_bytes * b->o.layers;
}

static enum status take_memory(struct bench *b, struct why *ret_why)
{
    const struct bench_attention_options *o = &b->o;
    uint32_t heads = o->n_kv_heads * o->group;
    size_t rows = (size_t)o->sequences * o->rows;
    b->owner = mem_zalloc(heads, sizeof *b->owner);
    b->runs = mem_zalloc((size_t)b->n_pages * o->sequences, sizeof *b->runs);
    b->sequences = mem_zalloc(o->sequences, sizeof *b->sequences);
    b->q = mem_aligned(rows * heads * o->d * sizeof *b->q);
    b->out = mem_aligned(rows * heads * o->d * sizeof *b->out);
    b->memory = mem_map(b->memory_bytes);
    b->layer.base = b->memory;
    if (b->owner == NULL || b->runs == NULL || b->sequences == NULL || b->q == NULL ||
        b->out == NULL || b->memory == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for %zu MiB of K/V",
                       b->memory_bytes >> 20);
    for (uint32_t h = 0; h < heads; h++)
        b->owner[h] = (uint16_t)(h / o->group);
    b->shape = shape_of(b);
    b->copy_bytes = o->rows == 1 ? oracle_repeat_bytes(&b->shape, o->context) : 0;
    b->copy = b->copy_bytes > 0 ? mem_map(b->copy_bytes) : NULL;
    if (b->copy_bytes > 0 && b->copy == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for %zu MiB of repeated K/V",
                       b->copy_bytes >> 20);
    return OK;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill_scales(float *scales)
{
    for (int t = 0; t < ATTEND_UNIT; t++)
        scales[t] = 1.0f / 64;
}

/* Magnitudes of 1/8 to 2, either sign: the exponent's two low bits are random. int8: any byte. */
static void fill_share(void *arg, uint32_t tid)
{
    static const uint64_t keeps[KV_TYPE_COUNT] = {0x8fff8fff8fff8fffu, 0x81ffffff81ffffffu,
                                                  UINT64_MAX};
    static const uint64_t sets[KV_TYPE_COUNT] = {0x3000300030003000u, 0x3e0000003e000000u, 0};
    const struct bench *b = arg;
    uint64_t state = 0x9e3779b97f4a7c15u + tid;
    uint64_t keep = keeps[b->o.type], set = sets[b->o.type];
    uint64_t *words = (uint64_t *)(void *)b->memory;
    size_t n = b->memory_bytes / sizeof *words;
    for (size_t i = n * tid / b->o.n_threads; i < n * (tid + 1) / b->o.n_threads; i++)
        words[i] = (next_random(&state) & keep) | set;
    size_t units = b->memory_bytes / b->layer.unit_stride;
    for (size_t u = units * tid / b->o.n_threads;
         b->o.type == KV_I8 && u < units * (tid + 1) / b->o.n_threads; u++) {
        char *unit = b->memory + u * b->layer.unit_stride;
        fill_scales((float *)(void *)(unit + b->layer.v_offset) - ATTEND_UNIT);
        fill_scales((float *)(void *)(unit + b->layer.unit_stride) - ATTEND_UNIT);
    }
}

/* Every page is a run of its own when scattered; a permutation over all the sequences' pages. */
static void make_sequences(struct bench *b)
{
    const struct bench_attention_options *o = &b->o;
    uint64_t state = 88172645463325252u;
    uint32_t n = b->n_pages * o->sequences;
    for (uint32_t i = 0; i < n; i++)
        b->runs[i] = (struct page_run){i, 1};
    for (uint32_t i = n - 1; i > 0 && o->scattered; i--) {
        uint32_t j = (uint32_t)(next_random(&state) % (i + 1));
        struct page_run swap = b->runs[i];
        b->runs[i] = b->runs[j];
        b->runs[j] = swap;
    }
    for (uint32_t i = 0; i < o->sequences; i++) {
        struct page_run *runs = b->runs + (size_t)i * b->n_pages;
        if (!o->scattered)
            runs[0].n_pages = b->n_pages;
        b->sequences[i] = (struct attention_sequence){
            .runs = runs,
            .n_runs = o->scattered ? b->n_pages : 1,
            .first_position = o->context - o->rows,
            .n_rows = o->rows,
            .row_first = i * o->rows,
        };
    }
    for (size_t i = 0; i < (size_t)n / b->n_pages * o->rows * o->n_kv_heads * o->group * o->d; i++)
        b->q[i] = (float)(int32_t)(uint32_t)next_random(&state) * 0x1p-31f * 2;
}

static void run_layer(struct bench *b, enum variant variant, uint32_t tid,
                      const struct kv_layer *layer)
{
    if (variant == NO_PREFETCH || variant == GROUPED) {
        const struct attention_plan *plan = b->plans[variant == GROUPED];
        enum status s = attention_run(plan, tid, layer, no_hash, b->q, b->out);
        ASSERT(s == OK);
        workers_barrier(b->workers);
        attention_merge(plan, tid, b->out);
        return;
    }
    uint32_t first, end;
    workers_share(b->shape.n_query_heads, 1, tid, b->o.n_threads, &first, &end);
    for (uint32_t i = 0; i < b->o.sequences; i++) {
        struct oracle_attention oracle = {
            &b->shape, &b->kernels.attention, layer, &b->sequences[i], b->q, b->out};
        if (variant == REPEAT)
            oracle_repeat(&oracle, first, end, b->copy);
        else
            oracle_owner_map(&oracle, first, end);
    }
    workers_barrier(b->workers);
}

static void run_layers(void *arg, uint32_t tid)
{
    const struct pass *pass = arg;
    struct kv_layer layer = pass->bench->layer;
    for (uint32_t i = 0; i < pass->bench->o.layers; i++) {
        run_layer(pass->bench, pass->variant, tid, &layer);
        workers_barrier(pass->bench->workers);
        layer.base += pass->bench->layer_bytes;
    }
}

static double timed_pass(struct bench *b, enum variant variant)
{
    struct pass pass = {b, variant};
    double start = bench_time_s();
    workers_run(b->workers, run_layers, &pass);
    return bench_time_s() - start;
}

static double schedule_s(struct bench *b)
{
    double start = bench_time_s();
    for (int i = 0; i < SCHEDULES; i++)
        attention_schedule(b->plans[1], b->sequences, b->o.sequences);
    return (bench_time_s() - start) / SCHEDULES;
}

static enum variant first_variant(const struct bench *b)
{
    return b->o.rows == 1 ? REPEAT : NO_PREFETCH;
}

/* Operations of a pass: two products of d for each query row, head and visible token. */
static double pass_flops(const struct bench *b)
{
    double tokens = 0;
    for (uint32_t r = 0; r < b->o.rows; r++)
        tokens += (double)(b->o.context - r);
    return 4.0 * b->o.d * b->shape.n_query_heads * tokens * b->o.sequences * b->o.layers;
}

static void print(FILE *out, bool json, const struct bench *b, const double seconds[VARIANT_COUNT],
                  double limit_s)
{
    const struct bench_attention_options *o = &b->o;
    static const char *const types[KV_TYPE_COUNT] = {"f16", "f32", "int8"};
    const char *type = types[o->type];
    double bytes = (double)b->memory_bytes;
    fprintf(out,
            json ? "{\"bench\": \"attention\", \"isa\": \"%s\", \"threads\": %u, \"type\": \"%s\", "
                   "\"context\": %u, "
                   "\"sequences\": %u, \"rows\": %u, \"kv_heads\": %u, \"group\": %u, \"d\": %u, "
                   "\"layers\": %u, "
                   "\"scattered\": %s, \"results\": ["
                 : "%s, %u threads, K/V %s, context %u, %u sequences, %u rows each, %u K/V heads, "
                   "group %u, d %u, "
                   "%u layers, scattered %s\n",
            isa_name(b->kernels.isa), o->n_threads, type, o->context, o->sequences, o->rows,
            o->n_kv_heads, o->group, o->d, o->layers, o->scattered ? "true" : "false");
    for (enum variant v = first_variant(b); v < VARIANT_COUNT; v++)
        fprintf(out,
                json ? "{\"variant\": \"%s\", \"ms\": %.3f, \"gb_per_s\": %.2f, "
                       "\"percent_of_limit\": %.1f, "
                       "\"to_grouped\": %.2f, \"gflop_per_s\": %.1f}, "
                     : "%-12s %9.2f ms  %7.2f GB/s  %5.1f %% of the read limit  %6.2f x grouped  "
                       "%7.1f GFLOP/s\n",
                variant_names[v], 1e3 * seconds[v], 1e-9 * bytes / seconds[v],
                100 * limit_s / seconds[v], seconds[v] / seconds[GROUPED],
                1e-9 * pass_flops(b) / seconds[v]);
    if (json)
        fprintf(out, "{\"variant\": \"read limit\", \"ms\": %.3f, \"gb_per_s\": %.2f}]}\n",
                1e3 * limit_s, 1e-9 * bytes / limit_s);
    else
        fprintf(out, "%-12s %9.2f ms  %7.2f GB/s\n", "read limit", 1e3 * limit_s,
                1e-9 * bytes / limit_s);
}

static void measure(struct bench *b, FILE *out, bool json)
{
    struct bench_bandwidth bandwidth;
    double seconds[VARIANT_COUNT][BENCH_ROUNDS_MAX];
    double median[VARIANT_COUNT] = {0};
    bench_bandwidth_init(&bandwidth, b->workers, b->kernels.isa, b->memory, b->memory_bytes);
    for (uint32_t i = 0; i < b->o.rounds; i++) {
        bench_bandwidth_round(&bandwidth);
        for (enum variant v = first_variant(b); v < VARIANT_COUNT; v++)
            seconds[v][i] = timed_pass(b, v);
    }
    for (enum variant v = first_variant(b); v < VARIANT_COUNT; v++)
        median[v] = bench_median(seconds[v], b->o.rounds);
    print(out, json, b, median, (double)b->memory_bytes / bench_bandwidth_limit(&bandwidth));
}

static enum status make_plans(struct bench *b, struct why *ret_why)
{
    seeing_chunk = b->kernels.attention.chunk[b->o.type];
    b->blind = b->kernels.attention;
    b->blind.chunk[b->o.type] = blind_chunk;
    TRY(attention_plan_new(&b->shape, &b->blind, &b->plans[0], ret_why));
    TRY(attention_plan_new(&b->shape, &b->kernels.attention, &b->plans[1], ret_why));
    for (int i = 0; i < 2; i++) {
        attention_plan_admit(b->plans[i], 0, no_hash);
        attention_schedule(b->plans[i], b->sequences, b->o.sequences);
    }
    return OK;
}

static enum status prepare(struct bench *b, struct why *ret_why)
{
    TRY(check_options(&b->o, ret_why));
    if (b->o.isa != NULL && b->o.isa[0] != '\0')
        TRY(kernels_pick_named(b->o.isa, &b->kernels, ret_why));
    else
        kernels_pick(UINT32_MAX, &b->kernels);
    lay_out(b);
    TRY(take_memory(b, ret_why));
    TRY(workers_new(b->o.n_threads, &b->workers, ret_why));
    workers_run(b->workers, fill_share, b);
    make_sequences(b);
    return make_plans(b, ret_why);
}

static void release(struct bench *b)
{
    for (int i = 0; i < 2; i++)
        attention_plan_free(&b->plans[i]);
    workers_free(&b->workers);
    mem_unmap(b->copy, b->copy_bytes);
    mem_unmap(b->memory, b->memory_bytes);
    mem_free(b->out);
    mem_free(b->q);
    mem_free(b->sequences);
    mem_free(b->runs);
    mem_free(b->owner);
}

enum status bench_attention(const struct bench_attention_options *options, FILE *out, bool json,
                            struct why *ret_why)
{
    struct bench b = {.o = *options};
    enum status s = prepare(&b, ret_why);
    if (s == OK) {
        measure(&b, out, json);
        if (!json)
            fprintf(out, "schedule     %9.2f us\n", 1e6 * schedule_s(&b));
    }
    release(&b);
    return s;
}
