/* Block store: the life of a block from free to used to cached and back.
 *
 * WHY     What was computed once should be found as long as its memory is not needed, and memory that
 *         is needed must be had at once: so cached blocks count as available, and the least
 *         recently used goes first.
 * HOW     Cached blocks stand in a list by the time they were let go of. Tables let go of their
 *         last block first, so a block joins behind its children: the oldest is always a leaf of
 *         its chain. Evictions come in batches of up to one extent, since an evicted chain is
 *         usually one run, and pages taken one by one from a run lie one behind the other.
 * ALWAYS  (1) free + used + cached = all.  block_let_go, block_hold
 *         (2) Cached: indexed, no refs, no pins. Used: refs or pins. Free: neither, nor indexed.
 *             block_let_go
 *         (3) In the list a block stands behind all its children, for all of them are cached:
 *             whoever holds a block holds its parents. So every cached block can be evicted, in
 *             this order.  sequence_close
 *             Blocks of a group with a window have no parents here: they are let go of one by one,
 *             so each can be evicted whatever became of those in front of it.
 *         (4) n_shared counts the blocks with more than one ref.  block_store_ref
 *         (5) A free page is poisoned in sanitized builds, a used or cached one is not.
 *             block_store_take
 * OWNS    The records and the free list.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/block_store.h"

#include "config/mem.h"

/* Of a small pool only this part goes at once. */
enum { EVICT_SHARE = 16 };

enum status block_store_init(struct block_store *store, uint32_t n_blocks,
                             const struct pool_memory *memory)
{
    *store = (struct block_store){
        .n_blocks = n_blocks, .memory = memory, .oldest = NO_PAGE, .newest = NO_PAGE};
    uint32_t batch = n_blocks / EVICT_SHARE;
    store->evict_batch = batch < 1 ? 1 : batch > PAGE_EXTENT ? PAGE_EXTENT : batch;
    size_t bytes;
    if (__builtin_mul_overflow(sizeof *store->blocks, (size_t)n_blocks, &bytes))
        return STATUS_NO_MEMORY;
    store->blocks = mem_aligned(bytes);
    if (store->blocks == NULL)
        return STATUS_NO_MEMORY;
    prefix_index_init(&store->index, store->blocks, n_blocks);
    return page_pool_new(n_blocks, &store->pages);
}

void block_store_release(struct block_store *store)
{
    page_pool_free(&store->pages);
    mem_free(store->blocks);
    store->blocks = NULL;
}

static void list_append(struct block_store *store, uint32_t page)
{
    struct block *block = &store->blocks[page];
    block->older = store->newest;
    block->newer = NO_PAGE;
    if (store->newest != NO_PAGE)
        store->blocks[store->newest].newer = page;
    else
        store->oldest = page;
    store->newest = page;
    block->is_cached = true;
    store->n_cached++;
}

static void list_remove(struct block_store *store, uint32_t page)
{
    struct block *block = &store->blocks[page];
    if (block->older != NO_PAGE)
        store->blocks[block->older].newer = block->newer;
    else
        store->oldest = block->newer;
    if (block->newer != NO_PAGE)
        store->blocks[block->newer].older = block->older;
    else
        store->newest = block->older;
    block->is_cached = false;
    store->n_cached--;
}

static void give_page(struct block_store *store, uint32_t page)
{
    if (store->memory != NULL)
        pool_memory_poison(store->memory, page);
    page_pool_give(store->pages, page);
}

/* Somebody is about to hold the block. */
static void block_hold(struct block_store *store, uint32_t page)
{
    struct block *block = &store->blocks[page];
    if (block->refs + block->pins > 0)
        return;
    ASSERT(block->is_cached);
    list_remove(store, page);
    store->n_used++;
}

/* Somebody has let go of it. */
static void block_let_go(struct block_store *store, uint32_t page)
{
    struct block *block = &store->blocks[page];
    if (block->refs + block->pins > 0)
        return;
    store->n_used--;
    if (block->is_indexed)
        list_append(store, page);
    else
        give_page(store, page);
}

uint32_t block_store_free(const struct block_store *store)
{
    uint32_t n_free = page_pool_free_pages(store->pages);
    return n_free > store->n_spare ? n_free - store->n_spare : 0;
}

bool block_store_can_reserve(const struct block_store *store, uint32_t n)
{
    uint32_t n_free = block_store_free(store);
    return n_free >= n || n - n_free <= store->n_cached;
}

bool block_store_reserve(struct block_store *store, uint32_t n)
{
    uint32_t n_free = block_store_free(store);
    if (n_free >= n)
        return true;
    if (!block_store_can_reserve(store, n))
        return false;
    uint32_t goal = n > store->evict_batch ? n : store->evict_batch;
    for (; n_free < goal && store->oldest != NO_PAGE; n_free++) {
        block_store_forget(store, store->oldest);
        store->n_evicted++;
    }
    return true;
}

uint32_t block_store_take(struct block_store *store, uint32_t after)
{
    uint32_t page = page_pool_take(store->pages, after);
    ASSERT(page != NO_PAGE);
    struct block *block = &store->blocks[page];
    ASSERT(block->refs + block->pins == 0 && !block->is_indexed);
    block->refs = 1;
    block->n_tokens = 0;
    block->serial = ++store->n_taken;
    store->n_used++;
    if (store->memory != NULL)
        pool_memory_unpoison(store->memory, page);
    return page;
}

void block_store_ref(struct block_store *store, uint32_t page)
{
    block_hold(store, page);
    if (++store->blocks[page].refs == 2)
        store->n_shared++;
}

void block_store_unref(struct block_store *store, uint32_t page)
{
    ASSERT(store->blocks[page].refs > 0);
    if (--store->blocks[page].refs == 1)
        store->n_shared--;
    block_let_go(store, page);
}

void block_store_pin(struct block_store *store, uint32_t page)
{
    block_hold(store, page);
    store->blocks[page].pins++;
}

void block_store_unpin(struct block_store *store, uint32_t page)
{
    ASSERT(store->blocks[page].pins > 0);
    store->blocks[page].pins--;
    block_let_go(store, page);
}

void block_store_forget(struct block_store *store, uint32_t page)
{
    prefix_index_remove(&store->index, page);
    if (store->blocks[page].is_cached) {
        list_remove(store, page);
        give_page(store, page);
    }
}

void block_store_forget_tree(struct block_store *store, uint32_t page)
{
    for (uint32_t at = page;;) {
        if (store->blocks[at].n_children > 0) {
            at = prefix_index_child(&store->index, at);
            continue;
        }
        uint32_t parent = store->blocks[at].parent;
        block_store_forget(store, at);
        if (at == page)
            return;
        at = parent;
    }
}

void block_store_forget_covered(struct block_store *store, uint32_t page)
{
    for (;;) {
        uint32_t before = prefix_index_covered_before(&store->index, page);
        if (before == NO_PAGE || !store->blocks[before].is_cached)
            return;
        block_store_forget(store, before);
    }
}

void block_store_purge(struct block_store *store)
{
    while (store->oldest != NO_PAGE)
        block_store_forget(store, store->oldest);
}

/* What is wrong with one block by itself. */
static const char *check_block(const struct block_store *store, uint32_t page)
{
    const struct block *block = &store->blocks[page];
    bool is_held = block->refs + block->pins > 0;
    bool is_free = page_pool_is_free(store->pages, page);
    if (is_free ? is_held || block->is_indexed || block->is_cached : !is_held && !block->is_cached)
        return "block_store 2: a free block is held by none, another is used or cached";
    if (block->is_cached && (is_held || !block->is_indexed))
        return "block_store 2: a cached block is indexed and held by none";
    return NULL;
}

/* Walks the list from new to old: a parent must be met before its children, so a child met first is
 * wrong. */
static const char *check_list(const struct block_store *store)
{
    uint32_t n = 0, newer = NO_PAGE;
    for (uint32_t page = store->newest; page != NO_PAGE;
         newer = page, page = store->blocks[page].older, n++) {
        const struct block *block = &store->blocks[page];
        if (!block->is_cached || block->newer != newer || n > store->n_blocks)
            return "block_store 3: the list names cached blocks";
        for (uint32_t older = block->older; older != NO_PAGE; older = store->blocks[older].older)
            if (block->parent == older)
                return "block_store 3: a block stands behind its cached children";
    }
    return n == store->n_cached ? NULL : "block_store 1: n_cached counts the cached blocks";
}

const char *block_store_check(const struct block_store *store)
{
    uint32_t n_used = 0, n_shared = 0;
    for (uint32_t page = 0; page < store->n_blocks; page++) {
        const struct block *block = &store->blocks[page];
        const char *wrong = check_block(store, page);
        if (wrong != NULL)
            return wrong;
        n_used += block->refs + block->pins > 0;
        n_shared += block->refs > 1;
        if (block->is_indexed && block->refs > 0 && block->parent != NO_PAGE &&
            store->blocks[block->parent].refs < 1)
            return "block_store 3: whoever holds a block holds its parents";
    }
    if (n_used != store->n_used ||
        n_used + store->n_cached + page_pool_free_pages(store->pages) != store->n_blocks)
        return "block_store 1: free + used + cached = all";
    if (n_shared != store->n_shared)
        return "block_store 4: n_shared counts the shared blocks";
    const char *wrong = check_list(store);
    if (wrong == NULL && n_used + store->n_cached > store->n_blocks - store->n_spare)
        wrong = "more blocks are held than the quota has";
    wrong = wrong != NULL ? wrong : page_pool_check(store->pages);
    return wrong != NULL ? wrong : prefix_index_check(&store->index);
}
