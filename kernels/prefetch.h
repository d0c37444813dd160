/* prefetch.h: asks for a cache line. The address need not be mapped: it is only a hint, and past the end of a matrix it
 * asks for nothing useful. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_PREFETCH_H
#define FOLDKV_KERNELS_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* Into the first-level cache. Integers, because a pointer past the end of an object may not even be formed. */
static inline __attribute__((always_inline)) void prefetch_line(const void *base, size_t offset)
{
    __builtin_prefetch((const void *)((uintptr_t)base + offset), 0, 3);
}

/* To be written: the line is ours when the store comes. */
static inline __attribute__((always_inline)) void prefetch_for_write(const void *base, size_t offset)
{
    __builtin_prefetch((const void *)((uintptr_t)base + offset), 1, 3);
}

/* Into the second-level cache: keeps the first level's few miss buffers free for what is needed sooner. */
static inline __attribute__((always_inline)) void prefetch_line_far(const void *base, size_t offset)
{
    __builtin_prefetch((const void *)((uintptr_t)base + offset), 0, 2);
}

#endif
