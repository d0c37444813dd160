/* Block table: which pages hold a sequence, in order.
 *
 * WHY     Kernels walk runs, the books walk pages; both are kept, so neither is built during a
 *         step.
 * ALWAYS  (1) The spans name the same pages in the same order, and no two neighbours could be one.
 *             block_table_push
 *         (2) Runs used up are no more than pages given back, so the runs never need more room than
 *             the pages.  block_table_shift
 * OWNS    nothing: the arrays are lent.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/block_table.h"

void block_table_init(struct block_table *table, uint32_t *pages, struct page_span *spans,
                      uint32_t capacity)
{
    *table = (struct block_table){.pages = pages, .spans = spans, .capacity = capacity};
}

void block_table_reset(struct block_table *table, uint32_t first_page)
{
    table->first_page = table->n_pages = first_page;
    table->first_span = table->n_spans = 0;
}

static void spans_push(struct block_table *table, uint32_t page)
{
    struct page_span *last =
        table->n_spans > table->first_span ? &table->spans[table->n_spans - 1] : NULL;
    if (last != NULL && last->first_page + last->n_pages == page)
        last->n_pages++;
    else
        table->spans[table->n_spans++] = (struct page_span){.first_page = page, .n_pages = 1};
}

static void spans_pop(struct block_table *table)
{
    struct page_span *last = &table->spans[table->n_spans - 1];
    if (--last->n_pages == 0)
        table->n_spans--;
}

void block_table_push(struct block_table *table, uint32_t page)
{
    ASSERT(table->n_pages < table->capacity);
    table->pages[table->n_pages++] = page;
    spans_push(table, page);
}

uint32_t block_table_pop(struct block_table *table)
{
    ASSERT(table->n_pages > table->first_page);
    spans_pop(table);
    return table->pages[--table->n_pages];
}

uint32_t block_table_shift(struct block_table *table)
{
    ASSERT(table->n_pages > table->first_page);
    struct page_span *first = &table->spans[table->first_span];
    first->first_page++;
    if (--first->n_pages == 0)
        table->first_span++;
    return table->pages[table->first_page++];
}

void block_table_replace(struct block_table *table, uint32_t i, uint32_t page)
{
    ASSERT(i >= table->first_page && i < table->n_pages);
    for (uint32_t k = i; k < table->n_pages; k++)
        spans_pop(table);
    table->pages[i] = page;
    for (uint32_t k = i; k < table->n_pages; k++)
        spans_push(table, table->pages[k]);
}

uint32_t block_table_last(const struct block_table *table)
{
    return table->n_pages > table->first_page ? table->pages[table->n_pages - 1] : NO_PAGE;
}
