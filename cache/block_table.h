/* block_table.h: a sequence's pages in order, also as runs.
 *
 * The arrays are lent by whoever makes the table (cache_new takes them for all sequences at once).
 * Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_BLOCK_TABLE_H
#define FOLDKV_CACHE_BLOCK_TABLE_H

#include "cache/page_span.h"

struct block_table {
    uint32_t *pages;         /* [capacity] */
    struct page_span *spans; /* [capacity]; the same pages as runs, as long as they can be */
    uint32_t n_pages, n_spans, capacity;
};

void block_table_init(struct block_table *table, uint32_t *pages, struct page_span *spans,
                      uint32_t capacity);
void block_table_push(struct block_table *table, uint32_t page);
/* Takes the last page off and returns it. */
uint32_t block_table_pop(struct block_table *table);
/* Puts page in place i and keeps the others; O(pages behind i). */
void block_table_replace(struct block_table *table, uint32_t i, uint32_t page);
/* NO_PAGE if it is empty. */
uint32_t block_table_last(const struct block_table *table);

#endif
