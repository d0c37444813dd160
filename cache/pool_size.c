/* Pool size: the default of cache.bytes, and what of a given one is refused.
 *
 * WHY     The pool is touched before ready: more than there is would be found out by the system's
 *         killer, so it is said here.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_size.h"

#include "cache/page_span.h"

enum { AVAILABLE_SHARE = 4 };
static const uint64_t chosen_max = (uint64_t)2 << 30;

static enum status choose(const struct pool_size_limits *limits, uint64_t *ret_bytes,
                          struct why *ret_why)
{
    uint64_t bytes = limits->available_bytes / AVAILABLE_SHARE;
    bytes = bytes < chosen_max ? bytes : chosen_max;
    bytes = bytes > limits->context_bytes ? bytes : limits->context_bytes;
    if (bytes > limits->available_bytes)
        return why_set(ret_why, STATUS_NO_MEMORY, "cache.bytes",
                       "one context of %u tokens takes %llu bytes of cache, %llu are available; "
                       "set cache.bytes for less",
                       limits->context, (unsigned long long)limits->context_bytes,
                       (unsigned long long)limits->available_bytes);
    *ret_bytes = bytes;
    return OK;
}

enum status pool_size(const struct pool_size_limits *limits, size_t *ret_bytes, struct why *ret_why)
{
    ASSERT(limits->block_bytes > 0 && limits->context_bytes >= limits->block_bytes);
    uint64_t bytes = limits->option_bytes;
    *ret_bytes = 0;
    if (bytes == 0)
        TRY(choose(limits, &bytes, ret_why));
    if (bytes < limits->block_bytes)
        return why_set(ret_why, STATUS_CACHE_TOO_SMALL, "cache.bytes",
                       "cache.bytes is %llu, one block of %d tokens takes %llu",
                       (unsigned long long)bytes, CACHE_PAGE_TOKENS,
                       (unsigned long long)limits->block_bytes);
    if (bytes > limits->available_bytes || bytes > SIZE_MAX)
        return why_set(ret_why, STATUS_BAD_OPTION, "cache.bytes",
                       "cache.bytes is %llu, at most %llu are available", (unsigned long long)bytes,
                       (unsigned long long)limits->available_bytes);
    *ret_bytes = (size_t)bytes;
    return OK;
}
