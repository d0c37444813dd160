/* Page pool: free page numbers as runs.
 *
 * WHY     Kernels stream a sequence's K/V fastest where its pages follow each other, so a page is
 *         given where the sequence can go on growing, and freed pages join their neighbours again.
 * HOW     A free run carries its length at both ends (so a freed page finds its neighbours at once)
 *         and hangs in the bin of its power of two; a mask of the bins that hold something yields
 *         one of the largest runs. A new sequence starts at the longest aligned extent, 16 pages
 *         down to 1, so that it and the one in front of it can both grow. An extent is a place to
 *         start, no reservation: when memory is tight others take its pages.
 * ALWAYS  (1) A page is free or taken; free_pages counts the free ones.  page_pool_take,
 *             page_pool_give
 *         (2) No two free runs touch.  page_pool_give
 *         (3) A run's length stands at its first and last page, and the run hangs in that length's
 *             bin, in no other.  run_link
 * THREAD  engine
 * NOT     The memory of the pages, and who holds them: pool_memory, block_store.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/page_pool.h"

#include "config/mem.h"

enum { N_BINS = 32 };

struct page_pool {
    uint32_t n_pages;
    uint32_t free_pages;
    uint32_t bins_used; /* bit b: bins[b] is not empty */
    uint32_t bins[N_BINS];
    uint32_t *length; /* at both ends of a free run */
    uint32_t *next;   /* at the first page of a free run */
    uint32_t *previous;
    bool *is_free;
};

static uint32_t bin_of(uint32_t length)
{
    return 31u - (uint32_t)__builtin_clz(length);
}

static void run_link(struct page_pool *pool, uint32_t first, uint32_t length)
{
    if (length == 0)
        return;
    uint32_t bin = bin_of(length), head = pool->bins[bin];
    pool->length[first] = pool->length[first + length - 1] = length;
    pool->next[first] = head;
    pool->previous[first] = NO_PAGE;
    if (head != NO_PAGE)
        pool->previous[head] = first;
    pool->bins[bin] = first;
    pool->bins_used |= 1u << bin;
}

static void run_unlink(struct page_pool *pool, uint32_t first)
{
    uint32_t bin = bin_of(pool->length[first]);
    uint32_t next = pool->next[first], previous = pool->previous[first];
    if (next != NO_PAGE)
        pool->previous[next] = previous;
    if (previous != NO_PAGE)
        pool->next[previous] = next;
    else
        pool->bins[bin] = next;
    if (pool->bins[bin] == NO_PAGE)
        pool->bins_used &= ~(1u << bin);
}

enum status page_pool_new(uint32_t n_pages, struct page_pool **ret_pool)
{
    ASSERT(n_pages >= 1 && n_pages < NO_PAGE);
    *ret_pool = NULL;
    struct page_pool *pool = mem_zalloc(1, sizeof *pool);
    if (pool == NULL)
        return STATUS_NO_MEMORY;
    pool->n_pages = n_pages;
    pool->length = mem_zalloc(n_pages, sizeof *pool->length);
    pool->next = mem_zalloc(n_pages, sizeof *pool->next);
    pool->previous = mem_zalloc(n_pages, sizeof *pool->previous);
    pool->is_free = mem_zalloc(n_pages, sizeof *pool->is_free);
    if (!pool->length || !pool->next || !pool->previous || !pool->is_free) {
        page_pool_free(&pool);
        return STATUS_NO_MEMORY;
    }
    for (uint32_t b = 0; b < N_BINS; b++)
        pool->bins[b] = NO_PAGE;
    memset(pool->is_free, true, n_pages);
    pool->free_pages = n_pages;
    run_link(pool, 0, n_pages);
    *ret_pool = pool;
    return OK;
}

void page_pool_free(struct page_pool **pool)
{
    struct page_pool *p = *pool;
    *pool = NULL;
    if (p == NULL)
        return;
    mem_free(p->length);
    mem_free(p->next);
    mem_free(p->previous);
    mem_free(p->is_free);
    mem_free(p);
}

/* Where in a free run a new sequence starts: the first place at which the longest aligned extent
 * fits. */
static uint32_t extent_start(uint32_t first, uint32_t length)
{
    for (uint32_t extent = PAGE_EXTENT; extent > 1; extent /= 2) {
        uint32_t into = (extent - first % extent) % extent;
        if (into < length && length - into >= extent)
            return first + into;
    }
    return first;
}

/* Takes page out of the free run that starts at first. */
static void carve(struct page_pool *pool, uint32_t first, uint32_t page)
{
    uint32_t end = first + pool->length[first];
    run_unlink(pool, first);
    run_link(pool, first, page - first);
    run_link(pool, page + 1, end - page - 1);
    pool->is_free[page] = false;
    pool->free_pages--;
}

uint32_t page_pool_take(struct page_pool *pool, uint32_t after)
{
    if (pool->free_pages == 0)
        return NO_PAGE;
    if (after != NO_PAGE) {
        ASSERT(after < pool->n_pages && !pool->is_free[after]);
        uint32_t page = after + 1; /* the page before it is taken, so it is the first of its run */
        if (page < pool->n_pages && pool->is_free[page]) {
            carve(pool, page, page);
            return page;
        }
    }
    uint32_t first = pool->bins[bin_of(pool->bins_used)];
    uint32_t page = extent_start(first, pool->length[first]);
    carve(pool, first, page);
    return page;
}

void page_pool_give(struct page_pool *pool, uint32_t page)
{
    ASSERT(page < pool->n_pages && !pool->is_free[page]);
    uint32_t first = page, end = page + 1;
    if (page > 0 && pool->is_free[page - 1]) {
        first = page - pool->length[page - 1];
        run_unlink(pool, first);
    }
    if (end < pool->n_pages && pool->is_free[end]) {
        uint32_t length = pool->length[end];
        run_unlink(pool, end);
        end += length;
    }
    pool->is_free[page] = true;
    pool->free_pages++;
    run_link(pool, first, end - first);
}

uint32_t page_pool_free_pages(const struct page_pool *pool)
{
    return pool->free_pages;
}

bool page_pool_is_free(const struct page_pool *pool, uint32_t page)
{
    ASSERT(page < pool->n_pages);
    return pool->is_free[page];
}

/* The number of runs that hang in the bins, or UINT32_MAX if one hangs wrongly. */
static uint32_t count_binned(const struct page_pool *pool)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < N_BINS; b++) {
        if ((pool->bins[b] != NO_PAGE) != (pool->bins_used >> b & 1))
            return UINT32_MAX;
        uint32_t previous = NO_PAGE;
        for (uint32_t run = pool->bins[b]; run != NO_PAGE;
             previous = run, run = pool->next[run], n++) {
            if (!pool->is_free[run] || bin_of(pool->length[run]) != b ||
                pool->previous[run] != previous || n > pool->n_pages)
                return UINT32_MAX;
        }
    }
    return n;
}

const char *page_pool_check(const struct page_pool *pool)
{
    uint32_t n_free = 0, n_runs = 0;
    for (uint32_t page = 0; page < pool->n_pages; page++) {
        if (!pool->is_free[page])
            continue;
        uint32_t length = pool->length[page], end = page + length;
        if (length == 0 || end > pool->n_pages || pool->length[end - 1] != length)
            return "page_pool 3: a free run's length stands at both its ends";
        for (uint32_t i = page; i < end; i++)
            if (!pool->is_free[i])
                return "page_pool 3: a free run holds free pages only";
        if (end < pool->n_pages && pool->is_free[end])
            return "page_pool 2: no two free runs touch";
        n_free += length;
        n_runs++;
        page = end - 1;
    }
    if (n_free != pool->free_pages)
        return "page_pool 1: free_pages counts the free pages";
    if (count_binned(pool) != n_runs)
        return "page_pool 3: every free run hangs in its length's bin";
    return NULL;
}
