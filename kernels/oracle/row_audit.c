/* row_audit.c: each operation of a decoder step but attention, on one set of random numbers.
 *
 * HOW     An operation is a function that runs a set's kernel into floats, and one that gives the
 *         same values in double arithmetic. The kernel runs once for the set and once for scalar.
 *         Weights are random blocks whose bytes keep every scale under 2 and finite.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/row_audit.h"

#include <math.h>

#include "config/mem.h"

enum { N = 512, ROWS = 3, OUTPUTS = 24, OUT_MAX = 2 * N + 64 };

/* What an operation reads: x and y random, the angles' cosine and sine, and of a product the packed
 * weights with three rows of activations. */
struct inputs {
    float x[N], y[N], cosine[N / 2], sine[N / 2];
    struct packed_matrix weights;
    struct activations rows;
    float values[ROWS * N], scale[ROWS * N / ACT_BLOCK], scaled_sum[ROWS * N / ACT_BLOCK];
    int8_t quants[ROWS * N];
    int32_t sum[ROWS * N / ACT_BLOCK];
    char *panels, *source;
};

/* Both give the number of values. */
typedef uint32_t run_fn(const struct inputs *in, const struct kernels *kernels, float *out);
typedef uint32_t reference_fn(const struct inputs *in, double *out);

struct operation {
    const char *op;
    run_fn *run;
    reference_fn *reference;
};

static uint32_t norm_run(const struct inputs *in, const struct kernels *k, float *out)
{
    k->vector.rms_norm(in->x, in->y, 1e-5f, N, out);
    return N;
}

static uint32_t norm_reference(const struct inputs *in, double *out)
{
    double sum = 0.0;
    for (int i = 0; i < N; i++)
        sum += (double)in->x[i] * (double)in->x[i];
    for (int i = 0; i < N; i++)
        out[i] = (double)in->x[i] / sqrt(sum / N + (double)1e-5f) * (double)in->y[i];
    return N;
}

static uint32_t halves_run(const struct inputs *in, const struct kernels *k, float *out)
{
    memcpy(out, in->x, sizeof in->x);
    k->vector.rope_halves(out, in->cosine, in->sine, N);
    return N;
}

static uint32_t neighbours_run(const struct inputs *in, const struct kernels *k, float *out)
{
    memcpy(out, in->x, sizeof in->x);
    k->vector.rope_neighbours(out, in->cosine, in->sine, N);
    return N;
}

/* Pair i is (first, second), turned by angle i. */
static void turn(const struct inputs *in, int i, int first, int second, double *out)
{
    double a = (double)in->x[first], b = (double)in->x[second];
    double c = (double)in->cosine[i], s = (double)in->sine[i];
    out[first] = a * c - b * s;
    out[second] = b * c + a * s;
}

static uint32_t halves_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N / 2; i++)
        turn(in, i, i, i + N / 2, out);
    return N;
}

static uint32_t neighbours_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N / 2; i++)
        turn(in, i, 2 * i, 2 * i + 1, out);
    return N;
}

static uint32_t silu_run(const struct inputs *in, const struct kernels *k, float *out)
{
    k->vector.silu_mul(in->x, in->y, N, out);
    return N;
}

static uint32_t silu_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N; i++)
        out[i] = (double)in->x[i] / (1.0 + exp(-(double)in->x[i])) * (double)in->y[i];
    return N;
}

static uint32_t gelu_run(const struct inputs *in, const struct kernels *k, float *out)
{
    k->vector.gelu_mul(in->x, in->y, N, out);
    return N;
}

static uint32_t gelu_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N; i++) {
        double g = (double)in->x[i], inner = sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g);
        out[i] = 0.5 * g * (1.0 + tanh(inner)) * (double)in->y[i];
    }
    return N;
}

static uint32_t add_run(const struct inputs *in, const struct kernels *k, float *out)
{
    memcpy(out, in->x, sizeof in->x);
    k->vector.add(out, in->y, N);
    return N;
}

static uint32_t add_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N; i++)
        out[i] = (double)in->x[i] + (double)in->y[i];
    return N;
}

static uint32_t scale_run(const struct inputs *in, const struct kernels *k, float *out)
{
    memcpy(out, in->x, sizeof in->x);
    k->vector.scale(out, in->y[0], N);
    return N;
}

static uint32_t scale_reference(const struct inputs *in, double *out)
{
    for (int i = 0; i < N; i++)
        out[i] = (double)in->x[i] * (double)in->y[0];
    return N;
}

static uint32_t peak_run(const struct inputs *in, const struct kernels *k, float *out)
{
    struct logits_peak peak;
    k->vector.logits_peak(in->x, N, out, &peak);
    out[N / LOGITS_TILE] = peak.max;
    out[N / LOGITS_TILE + 1] = (float)peak.argmax;
    out[N / LOGITS_TILE + 2] = peak.is_finite ? 1.0f : 0.0f;
    return N / LOGITS_TILE + 3;
}

static uint32_t peak_reference(const struct inputs *in, double *out)
{
    uint32_t n_tiles = N / LOGITS_TILE, argmax = 0;
    for (uint32_t tile = 0; tile < n_tiles; tile++)
        out[tile] = -INFINITY;
    for (uint32_t i = 0; i < N; i++) {
        out[i / LOGITS_TILE] = fmax(out[i / LOGITS_TILE], (double)in->x[i]);
        argmax = in->x[i] > in->x[argmax] ? i : argmax;
    }
    out[n_tiles] = (double)in->x[argmax];
    out[n_tiles + 1] = argmax;
    out[n_tiles + 2] = 1.0;
    return n_tiles + 3;
}

static uint32_t weigh_run(const struct inputs *in, const struct kernels *k, float *out)
{
    double sum = k->vector.logits_weigh(in->x, N, 2.0f, 1.5f, out, out + N);
    out[N + N / LOGITS_TILE] = (float)sum;
    return N + N / LOGITS_TILE + 1;
}

static uint32_t weigh_reference(const struct inputs *in, double *out)
{
    uint32_t n_tiles = N / LOGITS_TILE;
    memset(out + N, 0, (n_tiles + 1) * sizeof *out);
    for (uint32_t i = 0; i < N; i++) {
        out[i] = exp(((double)in->x[i] - 2.0) * 1.5);
        out[N + i / LOGITS_TILE] += out[i];
        out[N + n_tiles] += out[i];
    }
    return N + n_tiles + 1;
}

static uint32_t find_run(const struct inputs *in, const struct kernels *k, float *out)
{
    uint32_t ids[N], n = k->vector.find_at_least(in->x, N, 1.0f, ids);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)ids[i];
    return n;
}

static uint32_t find_reference(const struct inputs *in, double *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        if (in->x[i] >= 1.0f)
            out[n++] = i;
    }
    return n;
}

/* The numbers that the quants stand for, then the blocks' sums. */
static uint32_t quantise_run(const struct inputs *in, const struct kernels *k, float *out)
{
    int8_t quants[N];
    float scale[N / ACT_BLOCK];
    int32_t sum[N / ACT_BLOCK];
    k->quantise(in->x, N, quants, scale, out + N, sum);
    for (int i = 0; i < N; i++)
        out[i] = (float)quants[i] * scale[i / ACT_BLOCK];
    return N + N / ACT_BLOCK;
}

static uint32_t quantise_reference(const struct inputs *in, double *out)
{
    memset(out + N, 0, N / ACT_BLOCK * sizeof *out);
    for (int block = 0; block < N / ACT_BLOCK; block++) {
        double amax = 0.0;
        for (int i = 0; i < ACT_BLOCK; i++)
            amax = fmax(amax, fabs((double)in->x[block * ACT_BLOCK + i]));
        for (int i = block * ACT_BLOCK; i < (block + 1) * ACT_BLOCK; i++) {
            out[i] = nearbyint((double)in->x[i] * 127.0 / amax) * amax / 127.0;
            out[N + block] += out[i];
        }
    }
    return N + N / ACT_BLOCK;
}

static uint32_t product_run(const struct inputs *in, const struct kernels *k, float *out)
{
    k->matmul[in->weights.type](&in->weights, &in->rows, 0, ROWS, 0, packed_panels(OUTPUTS), out,
                                OUTPUTS);
    return ROWS * OUTPUTS;
}

static uint32_t product_reference(const struct inputs *in, double *out)
{
    bool takes_quants = weight_type_takes_quants(in->weights.type);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        float weights[N];
        packed_row(&in->weights, o, weights);
        for (uint32_t r = 0; r < ROWS; r++) {
            double sum = 0.0;
            for (uint32_t i = r * N; i < (r + 1) * N; i++) {
                double x = takes_quants ? (double)in->quants[i] * (double)in->scale[i / ACT_BLOCK]
                                        : (double)in->values[i];
                sum += (double)weights[i - r * N] * x;
            }
            out[r * OUTPUTS + o] = sum;
        }
    }
    return ROWS * OUTPUTS;
}

static const struct operation operations[] = {
    {"rms_norm", norm_run, norm_reference},
    {"rope_halves", halves_run, halves_reference},
    {"rope_neighbours", neighbours_run, neighbours_reference},
    {"silu_mul", silu_run, silu_reference},
    {"gelu_mul", gelu_run, gelu_reference},
    {"add", add_run, add_reference},
    {"scale", scale_run, scale_reference},
    {"logits_peak", peak_run, peak_reference},
    {"logits_weigh", weigh_run, weigh_reference},
    {"find_at_least", find_run, find_reference},
    {"quantise", quantise_run, quantise_reference},
};

/* The type of a product's weights: "matmul_q4_1". False for another operation. */
static bool product_type(const char *op, enum weight_type *ret_type)
{
    char name[32];
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++) {
        snprintf(name, sizeof name, "matmul_%s", weight_type_name((enum weight_type)i));
        for (char *c = name; *c != '\0'; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        *ret_type = (enum weight_type)i;
        if (strcmp(op, name) == 0)
            return true;
    }
    return false;
}

static const struct operation *find_operation(const char *op, enum weight_type *ret_type)
{
    static const struct operation product = {"matmul", product_run, product_reference};
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        if (strcmp(operations[i].op, op) == 0)
            return &operations[i];
    }
    return product_type(op, ret_type) ? &product : NULL;
}

bool row_audit_knows(const char *op)
{
    enum weight_type type;
    return find_operation(op, &type) != NULL;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 16;
}

static void fill(float *x, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int)(next_random(state) % 4096) - 2048) / 1024.0f;
}

/* False without memory. */
static bool make_weights(struct inputs *in, enum weight_type type, uint64_t *state)
{
    size_t bytes = weight_row_bytes(type, N) * OUTPUTS;
    in->weights = (struct packed_matrix){.type = type,
                                         .n_rows = OUTPUTS,
                                         .n_columns = N,
                                         .panel_bytes = packed_panel_bytes(type, N)};
    in->source = mem_aligned(bytes);
    in->panels = mem_aligned(packed_panels(OUTPUTS) * in->weights.panel_bytes);
    in->weights.panels = in->panels;
    if (in->source == NULL || in->panels == NULL)
        return false;
    for (size_t i = 0; i < bytes; i++)
        in->source[i] = (char)(next_random(state) & 0xbf); /* no exponent's top bit */
    packed_pack(type, in->source, OUTPUTS, N, 0, packed_panels(OUTPUTS), in->panels);
    return true;
}

static void inputs_init(struct inputs *in, uint64_t *state)
{
    struct kernels scalar;
    kernels_pick(0, &scalar);
    fill(in->x, N, state);
    fill(in->y, N, state);
    fill(in->values, ROWS * N, state);
    for (int i = 0; i < N / 2; i++) {
        in->cosine[i] = (float)cos(0.1 * i);
        in->sine[i] = (float)sin(0.1 * i);
    }
    for (size_t r = 0; r < ROWS; r++)
        scalar.quantise(in->values + r * N, N, in->quants + r * N, in->scale + r * N / ACT_BLOCK,
                        in->scaled_sum + r * N / ACT_BLOCK, in->sum + r * N / ACT_BLOCK);
    in->rows = (struct activations){N, in->values, in->quants, in->scale, in->scaled_sum, in->sum};
}

static void compare(const struct operation *operation, const struct inputs *in,
                    const struct kernels *kernels, struct row_audit *audit)
{
    float got[OUT_MAX] = {0}, by_scalar[OUT_MAX] = {0};
    double wanted[OUT_MAX] = {0}, greatest = 0.0;
    struct kernels scalar;
    kernels_pick(0, &scalar);
    uint64_t before = mem_calls();
    uint32_t n = operation->run(in, kernels, got);
    audit->allocation_calls = mem_calls() - before;
    uint32_t n_scalar = operation->run(in, &scalar, by_scalar);
    uint32_t n_wanted = operation->reference(in, wanted);
    audit->same_as_scalar = n == n_scalar && memcmp(got, by_scalar, n * sizeof *got) == 0;
    for (uint32_t i = 0; i < n_wanted; i++) {
        double d = fabs((double)got[i] - wanted[i]);
        greatest = fmax(greatest, fabs(wanted[i]));
        audit->error_max = d > audit->error_max || isnan(d) ? d : audit->error_max;
    }
    audit->error_max /= greatest;
    audit->is_near = n == n_wanted && audit->error_max <= 1e-5;
}

enum status row_audit_run(const char *op, const struct kernels *kernels,
                          struct row_audit *ret_audit)
{
    enum weight_type type = WEIGHT_TYPE_COUNT;
    const struct operation *operation = find_operation(op, &type);
    uint64_t state = 0x2545f4914f6cdd1du;
    ASSERT(operation != NULL);
    *ret_audit = (struct row_audit){0};
    struct inputs *in = mem_zalloc(1, sizeof *in);
    enum status s = STATUS_NO_MEMORY;
    if (in != NULL)
        inputs_init(in, &state);
    if (in != NULL && (operation->run != product_run || make_weights(in, type, &state))) {
        compare(operation, in, kernels, ret_audit);
        s = OK;
    }
    if (in != NULL) {
        mem_free(in->panels);
        mem_free(in->source);
    }
    mem_free(in);
    return s;
}
