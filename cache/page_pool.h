/* page_pool.h: which page numbers are free, and where the next page of a sequence should lie.
 *
 * Numbers only: the memory is pool_memory's. Every call is O(1). Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_PAGE_POOL_H
#define FOLDKV_CACHE_PAGE_POOL_H

#include "cache/page_span.h"
#include "config/status.h"

enum { PAGE_EXTENT = 16 }; /* pages that a new sequence finds in a row while memory lasts */

struct page_pool;

/* All n_pages (at least 1) are free. NO_MEMORY leaves *ret_pool NULL. */
enum status page_pool_new(uint32_t n_pages, struct page_pool **ret_pool) MUST_USE;
void page_pool_free(struct page_pool **pool);

/* Takes the page behind page `after` if it is free, else the start of a new extent: the longest
 * aligned one, of at most PAGE_EXTENT pages, in one of the largest free runs. after is a taken page
 * or NO_PAGE. NO_PAGE if no page is free. */
uint32_t page_pool_take(struct page_pool *pool, uint32_t after) MUST_USE;
/* Gives back a taken page. */
void page_pool_give(struct page_pool *pool, uint32_t page);

uint32_t page_pool_free_pages(const struct page_pool *pool);
bool page_pool_is_free(const struct page_pool *pool, uint32_t page);
/* Walks everything; NULL, or the invariant that does not hold. For tests. */
const char *page_pool_check(const struct page_pool *pool);

#endif
