/* page_span.h: page numbers, the page's size in tokens, and runs of consecutive pages. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_PAGE_SPAN_H
#define FOLDKV_CACHE_PAGE_SPAN_H

#include "config/base.h"

enum { CACHE_PAGE_TOKENS = 64, CACHE_GROUPS_MAX = 16 };

/* No page; also the end of every list of pages. */
#define NO_PAGE UINT32_MAX

/* A run of physically consecutive pages; same layout as kernels' struct page_run. */
struct page_span {
    uint32_t first_page;
    uint32_t n_pages;
};

/* Blocks that n_tokens need. */
static inline uint32_t cache_blocks_for(uint32_t n_tokens)
{
    return n_tokens / CACHE_PAGE_TOKENS + (n_tokens % CACHE_PAGE_TOKENS != 0);
}

#endif
