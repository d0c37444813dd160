/* block_table.h: a sequence's pages in order, also as runs.
 *
 * A table may begin at a later block than 0: those before it have been given back.
 *
 * The arrays are lent by whoever makes the table (cache_new takes them for all sequences at once).
 * Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_BLOCK_TABLE_H
#define FOLDKV_CACHE_BLOCK_TABLE_H

#include "cache/page_span.h"

struct block_table {
    uint32_t *pages;           /* [capacity], valid in [first_page, n_pages) */
    struct page_span *spans;   /* [capacity]; the same pages as runs, as long as they can be */
    uint32_t first_page;       /* blocks before it are given back */
    uint32_t first_span;       /* runs before it are used up */
    uint32_t n_pages, n_spans; /* ends of what is valid */
    uint32_t capacity;
};

void block_table_init(struct block_table *table, uint32_t *pages, struct page_span *spans,
                      uint32_t capacity);
/* Makes an empty table, whose next page is that of block first_page. */
void block_table_reset(struct block_table *table, uint32_t first_page);
void block_table_push(struct block_table *table, uint32_t page);
/* Takes the last page off and returns it. */
uint32_t block_table_pop(struct block_table *table);
/* Takes the first page off and returns it. */
uint32_t block_table_shift(struct block_table *table);
/* Puts page in place i and keeps the others; O(pages behind i). */
void block_table_replace(struct block_table *table, uint32_t i, uint32_t page);
/* NO_PAGE if it is empty. */
uint32_t block_table_last(const struct block_table *table);

#endif
