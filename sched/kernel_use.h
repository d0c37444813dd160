/* kernel_use.h: which kernels a model runs with, by name: what a plan receipt says and what is there.
 *
 * Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_KERNEL_USE_H
#define FOLDKV_SCHED_KERNEL_USE_H

#include "sched/model.h"

enum { KERNEL_USE_MAX = 64 };

/* One operation that the model needs. */
struct kernel_use {
    const char *op;       /* "attend_chunk_f16" */
    const char *function; /* "attend_chunk_f16__avx2"; NULL: one that kernels.def does not have */
};

/* In the order of kernels.def; at most KERNEL_USE_MAX. */
size_t kernel_use_list(const struct model *model, const struct kernels *kernels,
                       struct kernel_use ret_uses[KERNEL_USE_MAX]);
/* The functions alone, of the operations that kernels.def has one for: what a plan receipt names. */
size_t kernel_use_names(const struct model *model, const struct kernels *kernels,
                        const char *ret_names[KERNEL_USE_MAX]);
/* How many of the uses run another function than the named ones. An operation that no name is for must
 * be one that kernels.def does not have either. */
uint32_t kernel_use_differences(const struct kernel_use *uses, size_t n_uses,
                                const char *const *functions, size_t n_functions);

#endif
