/* kernel.h: the table of kernels a process runs with, picked once at start.
 *
 * NAMES  <op>_<types>__<isa>, e.g. matmul_q4_1__avx512, attend_chunk_f16__avx2; isa is scalar, avx2, avx512, neon or dotprod.
 * kernels.def has one row a kernel; pick.c sets scalar rows, then overrides in rising order, and is the only reader of CPU
 * features. A mask hides instruction sets for tests and --isa. All sets give the same bits. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_KERNEL_H
#define FOLDKV_KERNELS_KERNEL_H

#include "config/why.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/vector.h"

/* Version of the arithmetic: of the orders of sums in attention.h, matmul.h and vector.h and of the elementary functions. Raised
 * with any change that may alter a bit of a result, so that K/V of another version is nothing to this one. */
enum { KERNEL_CONTRACT = 3, KERNEL_NUMERICS_ROOM = 96 };

enum isa { ISA_SCALAR, ISA_AVX2, ISA_AVX512, ISA_NEON, ISA_DOTPROD, ISA_COUNT };

struct kernels {
    matmul_fn *matmul[WEIGHT_TYPE_COUNT];
    quantise_fn *quantise;
    struct vector_kernels vector;
    struct attention_kernels attention;
    enum isa isa; /* the highest set in use */
};

/* One row of kernels.def as data, for `foldkv kernels`, tests and receipts. */
struct kernel_row {
    const char *op;       /* "matmul_q4_1" */
    const char *function; /* "matmul_q4_1__avx512" */
    enum isa isa;
    bool available; /* this machine has the features */
};

/* All that decides a bit of a result beside the instruction set: the version, the activations of quantised products, chunk, step
 * (tokens, or elements of K or V, the smaller) and page. */
void kernel_numerics(uint32_t contract, char ret_text[KERNEL_NUMERICS_ROOM]);
const char *isa_name(enum isa isa);
/* The set of a name; false if there is none. */
bool isa_from_name(const char *name, enum isa *ret_isa);
/* Bit (1 << isa) for each set this machine has; scalar is always there. */
uint32_t isa_available(void);
/* Fills ret_kernels with the best rows of the sets in mask (1 << isa) that this machine has; scalar is always in. */
void kernels_pick(uint32_t mask, struct kernels *ret_kernels);
/* The same for --isa NAME: everything up to and including it. BAD_OPTION if the machine does not have it. */
enum status kernels_pick_named(const char *name, struct kernels *ret_kernels, struct why *ret_why) MUST_USE;
size_t kernels_row_count(void);
struct kernel_row kernels_row(size_t i);
/* True if the row's function is the one that kernels holds for its op. */
bool kernels_row_is_chosen(const struct kernels *kernels, size_t i);

#endif
