/* pool_memory.h: the bytes of the page pool: one mapping, head-major, and how it is strided.
 *
 * Made and freed by one thread while no other uses it; touch and measure may run on any thread at any time
 * between; poison and unpoison are the engine thread's and do something only
 * in address-sanitized builds. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_POOL_MEMORY_H
#define FOLDKV_CACHE_POOL_MEMORY_H

#include "config/status.h"

/* Where the pool lies: page p of head h of layer l starts at base + l * layer_stride + h *
 * head_stride + p * page_bytes. */
struct cache_memory {
    char *base;
    size_t bytes; /* from base to the end of the last head */
    size_t layer_stride;
    size_t head_stride;
    size_t page_bytes;
};

struct pool_memory {
    struct cache_memory view;
    size_t payload_bytes; /* pages alone */
    size_t mapped_bytes;  /* with the rounding to 2 MiB (and red zones, where there are any) */
    uint32_t n_layers, n_heads, n_pages;
};

/* NO_MEMORY, also if the product of the sizes overflows; *memory can be released then, too. All
 * pages start poisoned. */
enum status pool_memory_init(struct pool_memory *memory, uint32_t n_layers, uint32_t n_heads,
                             uint32_t n_pages, size_t page_bytes) MUST_USE;
void pool_memory_release(struct pool_memory *memory);

/* Bytes that a mapping of so many pages takes: the payload, red zones in sanitized builds, and the
 * rounding to 2 MiB. */
size_t pool_memory_padded_bytes(uint32_t n_layers, uint32_t n_heads, size_t payload_bytes);

/* Has the system give the memory of pages [first, end) now, in one of n_shares parts of the layers'
 * heads, so that no step meets a page fault there. Contents stay as they are, so it may run beside
 * everything else. Where the system cannot do that, nothing happens: it gives memory when it is
 * first written. */
void pool_memory_touch(const struct pool_memory *memory, uint32_t first, uint32_t end,
                       uint32_t share, uint32_t n_shares);

/* Bytes of the mapping that the system has in memory now: asked of the system, not reckoned. Any
 * thread. */
uint64_t pool_memory_measure(const struct pool_memory *memory);

/* From now on a read or write of this page is reported. */
void pool_memory_poison(const struct pool_memory *memory, uint32_t page);
void pool_memory_unpoison(const struct pool_memory *memory, uint32_t page);

#endif
