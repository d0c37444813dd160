/* bench_bandwidth.c: reads a buffer with all workers, with and without prefetching, and keeps the times.
 *
 * HOW     Each thread reads one contiguous share from end to end, as a kernel walks its own panels.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench_bandwidth.h"

#include <stdatomic.h>

#include "kernels/bench/bench_bandwidth_priv.h"
#include "kernels/bench/bench_time.h"
#include "kernels/cpu_features.h"

enum { PIECE = 256, AHEAD_BYTES = 4096 };

struct pass {
    const struct bench_bandwidth *b;
    bench_read_fn *read;
    size_t ahead;
    atomic_uint_fast64_t seen; /* so that no read can be left out */
};

static bench_read_fn *read_for(enum isa isa)
{
#if KERNELS_X86
    if (isa == ISA_AVX512)
        return bench_read__avx512;
    if (isa == ISA_AVX2)
        return bench_read__avx2;
#elif KERNELS_ARM
    if (isa == ISA_NEON || isa == ISA_DOTPROD)
        return bench_read__neon;
#endif
    (void)isa;
    return bench_read__scalar;
}

static void read_share(void *arg, uint32_t tid)
{
    struct pass *pass = arg;
    size_t pieces = pass->b->bytes / PIECE;
    uint32_t n = workers_count(pass->b->workers);
    size_t first = pieces * tid / n * PIECE;
    size_t end = pieces * (tid + 1) / n * PIECE;
    atomic_fetch_or(&pass->seen, pass->read(pass->b->base + first, end - first, pass->ahead));
}

static double timed_pass(const struct bench_bandwidth *b, size_t ahead)
{
    struct pass pass = {.b = b, .read = read_for(b->isa), .ahead = ahead};
    double start = bench_time_s();
    workers_run(b->workers, read_share, &pass);
    return bench_time_s() - start;
}

void bench_bandwidth_init(struct bench_bandwidth *b, struct workers *workers, enum isa isa,
                          const char *base, size_t bytes)
{
    *b = (struct bench_bandwidth){.workers = workers, .isa = isa, .base = base, .bytes = bytes};
}

void bench_bandwidth_round(struct bench_bandwidth *b)
{
    ASSERT(b->rounds < BENCH_ROUNDS_MAX);
    b->plain_s[b->rounds] = timed_pass(b, 0);
    b->prefetched_s[b->rounds] = timed_pass(b, AHEAD_BYTES);
    b->rounds++;
}

double bench_bandwidth_limit(struct bench_bandwidth *b)
{
    double plain = bench_median(b->plain_s, b->rounds);
    double prefetched = bench_median(b->prefetched_s, b->rounds);
    return (double)b->bytes / (plain < prefetched ? plain : prefetched);
}
