/* bench.h: measurements of the kernels against what the machine can do. They print medians; nothing passes or fails by time.
 *
 * Each takes its own memory and gives it back. Only from a thread of the caller's; they start their own workers. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_H
#define FOLDKV_KERNELS_BENCH_BENCH_H

#include "kernels/kernel.h"

struct bench_options {
    uint32_t n_threads; /* 1..256 */
    const char *isa;    /* NULL or "": the best */
    uint32_t n_columns; /* of a weight matrix; 0: 2048 */
    uint32_t n_rows;    /* 0: 4096 */
    size_t bytes;       /* distinct weights; 0: 1 GiB for gemv, 128 MiB for gemm */
    uint32_t rounds;    /* 0: 9 */
    const char *type;   /* of weights; NULL or "": every type whose blocks n_columns holds whole */
    uint32_t types;     /* set by bench_options_complete: bits 1 << enum weight_type */
};

/* Fills in defaults, checks ranges and picks the kernels; BAD_OPTION names the field. */
enum status bench_options_complete(const struct bench_options *given, size_t bytes_default,
                                   struct bench_options *ret, struct kernels *ret_kernels,
                                   struct why *ret_why) MUST_USE;

/* One activation row with each weight type, as percent of the read limit measured in the same rounds. */
enum status bench_gemv(const struct bench_options *options, FILE *out, bool json,
                       struct why *ret_why) MUST_USE;
/* 1 to 512 activation rows with each weight type, GFLOP/s. */
enum status bench_gemm(const struct bench_options *options, FILE *out, bool json,
                       struct why *ret_why) MUST_USE;

#endif
