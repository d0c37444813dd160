/* bench_attention.h: grouped attention against its own ablations and against what the machine can
 * read.
 *
 * Prints medians of rounds in which all variants alternate; nothing passes or fails by time. Takes
 * its own memory and starts its own workers; from a thread of the caller's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_ATTENTION_H
#define FOLDKV_KERNELS_BENCH_BENCH_ATTENTION_H

#include "kernels/kernel.h"

struct bench_attention_options {
    uint32_t n_threads; /* 1..256 */
    const char *isa;    /* NULL or "": the best */
    enum kv_type type;
    uint32_t context;    /* tokens a sequence holds; 0: 32768 */
    uint32_t sequences;  /* decoded together, each with K/V of its own; 0: 1 */
    uint32_t rows;       /* query rows a sequence; 0: 1. More than one: grouped only, and GFLOP/s */
    uint32_t n_kv_heads; /* 0: 3 */
    uint32_t group;      /* query heads a K/V head; 0: 3 */
    uint32_t d;          /* d_qk and d_v; 0: 64 */
    uint32_t layers;     /* distinct K/V each; 0: as many as make 1 GiB */
    uint32_t rounds;     /* 0: 7 */
    bool scattered;      /* pages in random order, instead of one run */
};

enum status bench_attention(const struct bench_attention_options *options, FILE *out, bool json,
                            struct why *ret_why) MUST_USE;

#endif
