/* bench_product.c: fills matrices with plausible weights and multiplies them.
 *
 * HOW     One matrix is made from a fixed sequence in the file's layout and packed as the loader packs; the others are copies:
 *         what counts is that their bytes lie apart.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench_product.h"

#include "config/mem.h"
#include "kernels/bench/bench_time.h"
#include "kernels/half.h"

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* One row's block in the file's layout: scales near 0.01, any values. */
static void fill_source(enum weight_type type, char *source, size_t bytes)
{
    uint64_t state = 1;
    uint32_t halves_at[2];
    uint32_t halves = weight_type_halves(type, halves_at);
    size_t block = weight_row_bytes(type, weight_type_block(type));
    for (size_t at = 0; at + block <= bytes; at += block) {
        float value = ((float)(next_random(&state) & 0xffffu) - 32768.0f) * 0x1p-21f;
        uint16_t half = half_from_float(value);
        if (type == WEIGHT_F32) {
            memcpy(source + at, &value, sizeof value);
        } else if (type == WEIGHT_BF16) {
            uint16_t top = (uint16_t)(float_bits(value) >> 16);
            memcpy(source + at, &top, sizeof top);
        } else if (type == WEIGHT_F16) {
            memcpy(source + at, &half, sizeof half);
        } else {
            for (size_t i = 0; i < block; i++)
                source[at + i] = (char)next_random(&state);
            for (uint32_t i = 0; i < halves; i++)
                memcpy(source + at + halves_at[i], &half, sizeof half);
        }
    }
}

static enum status fill_matrices(struct bench_product *p)
{
    const struct packed_matrix *m = &p->matrix;
    size_t bytes = m->n_rows * weight_row_bytes(m->type, m->n_columns);
    char *source = mem_alloc(bytes);
    if (source == NULL)
        return STATUS_NO_MEMORY;
    fill_source(m->type, source, bytes);
    packed_pack(m->type, source, m->n_rows, m->n_columns, 0, packed_panels(m->n_rows), p->memory);
    mem_free(source);
    for (uint32_t i = 1; i < p->n_matrices; i++)
        memcpy(p->memory + i * p->matrix_bytes, p->memory, p->matrix_bytes);
    return OK;
}

static enum status fill_activations(struct bench_product *p, uint32_t n)
{
    uint32_t columns = p->matrix.n_columns;
    size_t scales = (size_t)n * (columns / ACT_BLOCK);
    p->values = mem_aligned((size_t)n * columns * sizeof *p->values);
    p->quants = mem_aligned((size_t)n * columns);
    p->scale = mem_aligned(scales * sizeof *p->scale);
    p->scaled_sum = mem_aligned(scales * sizeof *p->scaled_sum);
    p->sum = mem_aligned(scales * sizeof *p->sum);
    p->out = mem_aligned((size_t)n * p->matrix.n_rows * sizeof *p->out);
    if (p->values == NULL || p->quants == NULL || p->scale == NULL || p->scaled_sum == NULL ||
        p->sum == NULL || p->out == NULL)
        return STATUS_NO_MEMORY;
    uint64_t state = 2;
    for (size_t i = 0; i < (size_t)n * columns; i++)
        p->values[i] = ((float)(next_random(&state) & 0xffffu) - 32768.0f) * 0x1p-15f;
    p->kernels->quantise(p->values, n * columns, p->quants, p->scale, p->scaled_sum, p->sum);
    p->x = (struct activations){columns, p->values, p->quants, p->scale, p->scaled_sum, p->sum};
    return OK;
}

enum status bench_product_init(struct bench_product *p, struct workers *workers,
                               const struct kernels *kernels, enum weight_type type,
                               uint32_t n_rows, uint32_t n_columns, size_t bytes, uint32_t n_max,
                               struct why *ret_why)
{
    size_t panel_bytes = packed_panel_bytes(type, n_columns);
    size_t matrix_bytes = panel_bytes * packed_panels(n_rows);
    *p = (struct bench_product){
        .workers = workers,
        .kernels = kernels,
        .matrix = {.type = type,
                   .n_rows = n_rows,
                   .n_columns = n_columns,
                   .panel_bytes = panel_bytes},
        .matrix_bytes = matrix_bytes,
        .n_matrices = (uint32_t)((bytes + matrix_bytes - 1) / matrix_bytes),
    };
    p->memory_bytes = matrix_bytes * p->n_matrices;
    p->memory = mem_map(p->memory_bytes);
    p->matrix.panels = p->memory;
    if (p->memory != NULL && fill_matrices(p) == OK && fill_activations(p, n_max) == OK)
        return OK;
    bench_product_release(p);
    return why_set(ret_why, STATUS_NO_MEMORY, "bytes", "no memory for %zu MiB of weights",
                   matrix_bytes * p->n_matrices >> 20);
}

void bench_product_release(struct bench_product *p)
{
    mem_unmap(p->memory, p->memory_bytes);
    mem_free(p->values);
    mem_free(p->quants);
    mem_free(p->scale);
    mem_free(p->scaled_sum);
    mem_free(p->sum);
    mem_free(p->out);
    p->memory = NULL;
    p->values = p->scale = p->scaled_sum = p->out = NULL;
    p->quants = NULL;
    p->sum = NULL;
}

static void multiply_all(void *arg, uint32_t tid)
{
    struct bench_product *p = arg;
    matmul_fn *matmul = p->kernels->matmul[p->matrix.type];
    uint32_t first, end;
    workers_share(packed_panels(p->matrix.n_rows), 1, tid, workers_count(p->workers), &first, &end);
    struct packed_matrix m = p->matrix;
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        matmul(&m, &p->x, 0, p->n, first, end, p->out, m.n_rows);
        m.panels += p->matrix_bytes;
        workers_barrier(p->workers);
    }
}

double bench_product_pass(struct bench_product *p, uint32_t n)
{
    p->n = n;
    double start = bench_time_s();
    workers_run(p->workers, multiply_all, p);
    return bench_time_s() - start;
}
