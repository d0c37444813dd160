/* bench_gemm.c: several activation rows with each weight type: GFLOP/s, two operations a weight and row.
 *
 * HOW     The set of matrices exceeds the caches, so small batches meet their weights in memory, as in a decoder; for many
 *         rows a part of the set is enough. The figures are of medians.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench.h"

#include "kernels/bench/bench_bandwidth.h"
#include "kernels/bench/bench_product.h"
#include "kernels/bench/bench_time.h"

static const uint32_t batches[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 512};

enum { BATCH_MAX = 512, WORK_ROWS = 32 };

/* Many rows take fewer matrices, so that every figure costs about the same time. */
static uint32_t matrices_for(const struct bench_product *p, uint32_t n)
{
    uint32_t all = p->n_matrices;
    uint32_t some = n <= WORK_ROWS ? all : all * WORK_ROWS / n;
    return some > 0 ? some : 1;
}

static double measure(struct bench_product *p, uint32_t n, uint32_t rounds)
{
    double seconds[BENCH_ROUNDS_MAX];
    uint32_t all = p->n_matrices;
    p->n_matrices = matrices_for(p, n);
    double work = 2.0 * p->n_matrices * p->matrix.n_rows * p->matrix.n_columns * n;
    for (uint32_t i = 0; i < rounds; i++)
        seconds[i] = bench_product_pass(p, n);
    p->n_matrices = all;
    return work / bench_median(seconds, rounds);
}

static void print_head(FILE *out, bool json, const struct bench_options *o, enum isa isa)
{
    if (json) {
        fprintf(out,
                "{\"bench\": \"gemm\", \"threads\": %u, \"isa\": \"%s\", \"columns\": %u, "
                "\"rows\": %u, \"results\": [",
                o->n_threads, isa_name(isa), o->n_columns, o->n_rows);
        return;
    }
    fprintf(out, "GFLOP/s by activation rows, %u columns x %u rows, %u threads, %s\n      ",
            o->n_columns, o->n_rows, o->n_threads, isa_name(isa));
    for (size_t i = 0; i < ARRAY_LEN(batches); i++)
        fprintf(out, " %7u", batches[i]);
    fprintf(out, "\n");
}

static enum status measure_type(const struct bench_options *o, struct workers *workers,
                                const struct kernels *kernels, enum weight_type type, bool is_first,
                                FILE *out, bool json, struct why *ret_why)
{
    struct bench_product p;
    TRY(bench_product_init(&p, workers, kernels, type, o->n_rows, o->n_columns, o->bytes, BATCH_MAX,
                           ret_why));
    if (!json)
        fprintf(out, "%-6s", weight_type_name(type));
    for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
        double gflops = measure(&p, batches[i], o->rounds) * 1e-9;
        if (json)
            fprintf(out, "%s{\"type\": \"%s\", \"n\": %u, \"gflops\": %.1f}",
                    is_first && i == 0 ? "" : ", ", weight_type_name(type), batches[i], gflops);
        else
            fprintf(out, " %7.1f", gflops);
        fflush(out);
    }
    if (!json)
        fprintf(out, "\n");
    bench_product_release(&p);
    return OK;
}

enum status bench_gemm(const struct bench_options *options, FILE *out, bool json,
                       struct why *ret_why)
{
    struct bench_options o;
    struct kernels kernels;
    struct workers *workers = NULL;
    TRY(bench_options_complete(options, (size_t)128 << 20, &o, &kernels, ret_why));
    TRY(workers_new(o.n_threads, &workers, ret_why));
    print_head(out, json, &o, kernels.isa);
    enum status s = OK;
    for (int type = 0, left = (int)o.types; type < WEIGHT_TYPE_COUNT && s == OK; type++) {
        if ((left >> type & 1) == 0)
            continue;
        s = measure_type(&o, workers, &kernels, (enum weight_type)type, left == (int)o.types, out,
                         json, ret_why);
        left &= ~(1 << type);
    }
    if (json)
        fprintf(out, "]}\n");
    workers_free(&workers);
    return s;
}
