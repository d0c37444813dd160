/* Pool memory: the mapping that holds every K/V page.
 *
 * WHY     A sequence's pages are read head by head; head-major order makes consecutive pages of one
 *         head consecutive bytes. Page faults do not belong into a request.
 * HOW     One mapping, 2 MiB-aligned, in huge pages where the system gives them. Touching populates
 *         the page tables without writing, so that a thread may do it while pages are in use.
 * ALWAYS  (1) Under the address sanitizer a free page is poisoned, and a red zone follows each
 *             head's pages: otherwise the sanitizer would see one big happy array. Between pages
 *             there is none, since runs of pages are one piece. pool_memory_poison
 * NOT     Zeroing: a page's unwritten rows are read by no kernel (masked by loop bound).
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "config/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define POOL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISONS 1
#endif
#endif
#ifndef POOL_POISONS
#define POOL_POISONS 0
#endif

#if POOL_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; headers may be older than the system */
#endif

enum { RED_ZONE_BYTES = POOL_POISONS ? 4096 : 0, SYSTEM_PAGE = 4096, MEASURE_PAGES = 4096 };

enum status pool_memory_init(struct pool_memory *memory, uint32_t n_layers, uint32_t n_heads,
                             uint32_t n_pages, size_t page_bytes)
{
    struct cache_memory *view = &memory->view;
    *memory = (struct pool_memory){.n_layers = n_layers, .n_heads = n_heads, .n_pages = n_pages};
    size_t head, n = n_layers;
    if (__builtin_mul_overflow(page_bytes, n_pages, &head) ||
        __builtin_mul_overflow(n, n_heads, &n) ||
        __builtin_mul_overflow(head, n, &memory->payload_bytes) ||
        __builtin_add_overflow(head, (size_t)RED_ZONE_BYTES, &view->head_stride) ||
        __builtin_mul_overflow(view->head_stride, n, &view->bytes))
        return STATUS_NO_MEMORY;
    view->page_bytes = page_bytes;
    view->layer_stride = view->head_stride * n_heads;
    view->base = mem_map(view->bytes);
    if (view->base == NULL)
        return STATUS_NO_MEMORY;
    memory->mapped_bytes = mem_map_rounded(view->bytes);
    ASAN_POISON_MEMORY_REGION(view->base, memory->mapped_bytes);
    return OK;
}

size_t pool_memory_padded_bytes(uint32_t n_layers, uint32_t n_heads, size_t payload_bytes)
{
    return mem_map_rounded(payload_bytes + (size_t)n_layers * n_heads * RED_ZONE_BYTES);
}

void pool_memory_release(struct pool_memory *memory)
{
    if (memory->view.base != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(memory->view.base, memory->mapped_bytes);
        mem_unmap(memory->view.base, memory->view.bytes);
    }
    *memory = (struct pool_memory){0};
}

void pool_memory_touch(const struct pool_memory *memory, uint32_t first, uint32_t end,
                       uint32_t share, uint32_t n_shares)
{
    const struct cache_memory *view = &memory->view;
    ASSERT(first <= end && end <= memory->n_pages && share < n_shares);
    for (size_t i = share; i < (size_t)memory->n_layers * memory->n_heads; i += n_shares) {
        size_t from = i * view->head_stride + first * view->page_bytes;
        size_t to = i * view->head_stride + end * view->page_bytes;
        from -= from % SYSTEM_PAGE;
        to += (SYSTEM_PAGE - to % SYSTEM_PAGE) % SYSTEM_PAGE;
        (void)madvise(view->base + from, to - from, MADV_POPULATE_WRITE);
    }
}

uint64_t pool_memory_measure(const struct pool_memory *memory)
{
    unsigned char is_there[MEASURE_PAGES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = sizeof is_there * page;
    uint64_t n = 0;
    for (size_t at = 0; at < memory->mapped_bytes; at += most) {
        size_t left = memory->mapped_bytes - at, bytes = left < most ? left : most;
        if (mincore(memory->view.base + at, bytes, is_there) != 0)
            return 0;
        for (size_t i = 0; i < bytes / page; i++)
            n += is_there[i] & 1u;
    }
    return n * page;
}

/* page's bytes in each layer and head, poisoned or not. */
static void set_poison(const struct pool_memory *memory, uint32_t page, bool poison)
{
    const struct cache_memory *view = &memory->view;
    ASSERT(page < memory->n_pages);
    for (size_t i = 0; i < (size_t)memory->n_layers * memory->n_heads; i++) {
        char *at = view->base + i * view->head_stride + page * view->page_bytes;
        if (poison)
            ASAN_POISON_MEMORY_REGION(at, view->page_bytes);
        else
            ASAN_UNPOISON_MEMORY_REGION(at, view->page_bytes);
    }
}

void pool_memory_poison(const struct pool_memory *memory, uint32_t page)
{
    if (POOL_POISONS)
        set_poison(memory, page, true);
}

void pool_memory_unpoison(const struct pool_memory *memory, uint32_t page)
{
    if (POOL_POISONS)
        set_poison(memory, page, false);
}
