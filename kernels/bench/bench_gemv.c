/* bench_gemv.c: one activation row with each weight type: bytes of weights a second against the read limit.
 *
 * HOW     Round by round: a plain read, a prefetched read and the product, over the same bytes by the same threads.
 *         The figures are of medians.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench.h"

#include "kernels/bench/bench_bandwidth.h"
#include "kernels/bench/bench_product.h"
#include "kernels/bench/bench_time.h"

struct gemv_result {
    double product; /* bytes a second */
    double limit;
};

static enum status measure(const struct bench_options *o, struct workers *workers,
                           const struct kernels *kernels, enum weight_type type,
                           struct gemv_result *ret, struct why *ret_why)
{
    struct bench_product p;
    TRY(bench_product_init(&p, workers, kernels, type, o->n_rows, o->n_columns, o->bytes, 1,
                           ret_why));
    struct bench_bandwidth b;
    bench_bandwidth_init(&b, workers, kernels->isa, p.memory, p.memory_bytes);
    double seconds[BENCH_ROUNDS_MAX];
    (void)bench_product_pass(&p, 1);
    for (uint32_t i = 0; i < o->rounds; i++) {
        bench_bandwidth_round(&b);
        seconds[i] = bench_product_pass(&p, 1);
    }
    ret->limit = bench_bandwidth_limit(&b);
    ret->product = (double)p.memory_bytes / bench_median(seconds, o->rounds);
    bench_product_release(&p);
    return OK;
}

static void print(FILE *out, bool json, bool first, enum weight_type type,
                  const struct gemv_result *r)
{
    const char *name = weight_type_name(type);
    double percent = 100 * r->product / r->limit;
    if (json)
        fprintf(
            out,
            "%s{\"type\": \"%s\", \"gb_per_s\": %.2f, \"limit_gb_per_s\": %.2f, \"percent\": %.1f}",
            first ? "" : ", ", name, r->product * 1e-9, r->limit * 1e-9, percent);
    else
        fprintf(out, "%-6s %8.2f GB/s   read limit %8.2f GB/s   %5.1f %%\n", name,
                r->product * 1e-9, r->limit * 1e-9, percent);
    fflush(out);
}

enum status bench_gemv(const struct bench_options *options, FILE *out, bool json,
                       struct why *ret_why)
{
    struct bench_options o;
    struct kernels kernels;
    struct workers *workers = NULL;
    TRY(bench_options_complete(options, (size_t)1 << 30, &o, &kernels, ret_why));
    TRY(workers_new(o.n_threads, &workers, ret_why));
    if (json)
        fprintf(out,
                "{\"bench\": \"gemv\", \"threads\": %u, \"isa\": \"%s\", \"columns\": %u, "
                "\"rows\": %u, \"results\": [",
                o.n_threads, isa_name(kernels.isa), o.n_columns, o.n_rows);
    else
        fprintf(out,
                "one activation row, %u columns x %u rows, %zu MiB of weights, %u threads, %s\n",
                o.n_columns, o.n_rows, o.bytes >> 20, o.n_threads, isa_name(kernels.isa));
    enum status s = OK;
    uint32_t left = o.types;
    for (int type = 0; type < WEIGHT_TYPE_COUNT && s == OK; type++) {
        struct gemv_result r;
        if ((left >> type & 1u) == 0)
            continue;
        s = measure(&o, workers, &kernels, (enum weight_type)type, &r, ret_why);
        if (s == OK)
            print(out, json, left == o.types, (enum weight_type)type, &r);
        left &= ~(1u << type);
    }
    if (json)
        fprintf(out, "]}\n");
    workers_free(&workers);
    return s;
}
