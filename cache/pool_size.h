/* pool_size.h: how many bytes the page pool takes. A pure function; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_POOL_SIZE_H
#define FOLDKV_CACHE_POOL_SIZE_H

#include "config/why.h"

struct pool_size_limits {
    uint64_t option_bytes;    /* cache.bytes; 0: choose */
    uint64_t available_bytes; /* memory that the system can give now */
    uint64_t block_bytes;     /* one block of every group */
    uint64_t context_bytes;   /* what one sequence of a full context takes (pool_split.h) */
    uint32_t context;         /* tokens */
};

/* Chosen: a quarter of what is available, at most 2 GiB, never less than the blocks of one full
 * context. Given: what was given; less than a context is the operator's choice, a request that does
 * not fit is refused then. pool_split makes whole blocks of it. CACHE_TOO_SMALL if the option holds
 * no block, BAD_OPTION if it is more than is available, NO_MEMORY if not even one context is
 * available; each with a why. */
enum status pool_size(const struct pool_size_limits *limits, size_t *ret_bytes,
                      struct why *ret_why) MUST_USE;

#endif
