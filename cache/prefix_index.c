/* Prefix index: finds the longest exact prefix that the pool still holds.
 *
 * WHY     Reuse is exact to the token: not the best full block alone, but the best head among all
 *         children of a parent, tails of running sequences included. A list of children would be as
 *         long as there are different prompts.
 * HOW     A treap ordered by (parent key, ids, page); its priorities are fixed, one a page, and
 *         have nothing to do with ids. The entries are threaded in order, too. Ids that share a
 *         prefix stand together, so the best match stands next to where the looked-up ids would.
 *         Keys are compared in all their 32 bytes, and the ids one by one. A tail that grows moves
 *         up in the order; it has to be moved in the tree only if it overtakes its neighbour.
 * ALWAYS  (1) Entries ascend strictly by (parent key, ids, page), in the tree and in the thread.
 *             prefix_index_insert
 *         (2) Of two full blocks at most one has a given (parent key, ids).  append_commit
 *         (3) A block's parent is indexed, full, and its key is the block's parent_key.
 *             prefix_index_insert
 *         (4) n_children counts the entries that name it as parent; only 0 lets it go.
 *             prefix_index_remove
 *         (5) A parent's priority in the tree is not below its children's.  prefix_index_insert
 * THREAD  engine
 * NOT     Who holds a block, and eviction: block_store.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/prefix_index.h"

/* What is looked for: where it would stand among the entries. */
struct place {
    const uint8_t *parent_key;
    const uint32_t *ids;
    uint32_t n;
    uint32_t page; /* NO_PAGE: behind all that are equal */
};

/* A fixed, well-mixed number for each page (the finaliser of MurmurHash3, a bijection). */
static uint32_t priority_of(uint32_t page)
{
    uint32_t h = page + 0x9e3779b9u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

void prefix_index_init(struct prefix_index *index, struct block *blocks, uint32_t n_blocks)
{
    *index = (struct prefix_index){.blocks = blocks, .n_blocks = n_blocks, .root = NO_PAGE};
    for (uint32_t i = 0; i < n_blocks; i++)
        blocks[i].priority = priority_of(i);
}

static uint32_t common_ids(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* Below 0: the place is in front of the entry. */
static int compare(const struct prefix_index *index, const struct place *place, uint32_t page)
{
    const struct block *entry = &index->blocks[page];
    int order = memcmp(place->parent_key, entry->parent_key, SHA256_BYTES);
    if (order != 0)
        return order;
    uint32_t least = place->n < entry->n_tokens ? place->n : entry->n_tokens;
    uint32_t common = common_ids(place->ids, entry->ids, least);
    if (common < least)
        return place->ids[common] < entry->ids[common] ? -1 : 1;
    if (place->n != entry->n_tokens)
        return place->n < entry->n_tokens ? -1 : 1;
    return place->page < page ? -1 : place->page > page;
}

static struct place place_of(const struct prefix_index *index, uint32_t page)
{
    const struct block *block = &index->blocks[page];
    return (struct place){block->parent_key, block->ids, block->n_tokens, page};
}

/* The entries on either side of a place; NO_PAGE at the ends. */
static void find_neighbours(const struct prefix_index *index, const struct place *place,
                            uint32_t *ret_before, uint32_t *ret_after)
{
    *ret_before = *ret_after = NO_PAGE;
    for (uint32_t at = index->root; at != NO_PAGE;) {
        if (compare(index, place, at) < 0) {
            *ret_after = at;
            at = index->blocks[at].left;
        } else {
            *ret_before = at;
            at = index->blocks[at].right;
        }
    }
}

/* Leading tokens that an entry shares with the place; 0 under another parent. */
static uint32_t common_with(const struct prefix_index *index, const struct place *place,
                            uint32_t page)
{
    if (page == NO_PAGE)
        return 0;
    const struct block *entry = &index->blocks[page];
    if (memcmp(place->parent_key, entry->parent_key, SHA256_BYTES) != 0)
        return 0;
    return common_ids(place->ids, entry->ids,
                      place->n < entry->n_tokens ? place->n : entry->n_tokens);
}

uint32_t prefix_index_find(const struct prefix_index *index, const uint8_t parent_key[SHA256_BYTES],
                           const uint32_t *ids, uint32_t n, uint32_t *ret_common)
{
    ASSERT(n >= 1 && n <= CACHE_PAGE_TOKENS);
    struct place place = {parent_key, ids, n, NO_PAGE};
    uint32_t before, after;
    find_neighbours(index, &place, &before, &after);
    uint32_t common_before = common_with(index, &place, before);
    uint32_t common_after = common_with(index, &place, after);
    *ret_common = common_before >= common_after ? common_before : common_after;
    if (*ret_common == 0)
        return NO_PAGE;
    return common_before >= common_after ? before : after;
}

/* Descends to the link from which a node of this priority hangs; before and after follow the turns.
 * */
static uint32_t *tree_hang(struct prefix_index *index, const struct place *place, uint32_t priority,
                           uint32_t *before, uint32_t *after)
{
    struct block *blocks = index->blocks;
    uint32_t *link = &index->root;
    while (*link != NO_PAGE && blocks[*link].priority >= priority) {
        if (compare(index, place, *link) < 0) {
            *after = *link;
            link = &blocks[*link].left;
        } else {
            *before = *link;
            link = &blocks[*link].right;
        }
    }
    return link;
}

/* Hangs the node where its priority belongs; what was there is split around it. Notes its
 * neighbours. */
static void tree_insert(struct prefix_index *index, uint32_t page)
{
    struct block *blocks = index->blocks, *node = &blocks[page];
    struct place place = place_of(index, page);
    uint32_t before = NO_PAGE, after = NO_PAGE;
    uint32_t *link = tree_hang(index, &place, node->priority, &before, &after);
    uint32_t *less = &node->left,
             *more = &node->right; /* where the next piece of either side hangs */
    uint32_t at = *link;
    *link = page;
    while (at != NO_PAGE) {
        if (compare(index, &place, at) < 0) {
            after = *more = at;
            more = &blocks[at].left;
            at = *more;
        } else {
            before = *less = at;
            less = &blocks[at].right;
            at = *less;
        }
    }
    *less = *more = NO_PAGE;
    node->before = before;
    node->after = after;
}

static void tree_remove(struct prefix_index *index, uint32_t page)
{
    struct block *blocks = index->blocks;
    struct place place = place_of(index, page);
    uint32_t *link = &index->root;
    while (*link != page) {
        ASSERT(*link != NO_PAGE);
        link = compare(index, &place, *link) < 0 ? &blocks[*link].left : &blocks[*link].right;
    }
    uint32_t left = blocks[page].left, right = blocks[page].right;
    while (left != NO_PAGE && right != NO_PAGE) {
        if (blocks[left].priority >= blocks[right].priority) {
            *link = left;
            link = &blocks[left].right;
            left = *link;
        } else {
            *link = right;
            link = &blocks[right].left;
            right = *link;
        }
    }
    *link = left != NO_PAGE ? left : right;
}

static void thread_insert(struct prefix_index *index, uint32_t page)
{
    struct block *blocks = index->blocks;
    if (blocks[page].before != NO_PAGE)
        blocks[blocks[page].before].after = page;
    if (blocks[page].after != NO_PAGE)
        blocks[blocks[page].after].before = page;
}

static void thread_remove(struct prefix_index *index, uint32_t page)
{
    struct block *blocks = index->blocks;
    if (blocks[page].before != NO_PAGE)
        blocks[blocks[page].before].after = blocks[page].after;
    if (blocks[page].after != NO_PAGE)
        blocks[blocks[page].after].before = blocks[page].before;
}

void prefix_index_insert(struct prefix_index *index, uint32_t page,
                         const uint8_t parent_key[SHA256_BYTES], uint32_t parent)
{
    struct block *block = &index->blocks[page];
    ASSERT(!block->is_indexed && block->n_tokens >= 1 && block->n_tokens <= CACHE_PAGE_TOKENS);
    memcpy(block->parent_key, parent_key, SHA256_BYTES);
    block->parent = parent;
    block->n_children = 0;
    if (parent != NO_PAGE) {
        struct block *above = &index->blocks[parent];
        ASSERT(above->is_indexed && above->n_tokens == CACHE_PAGE_TOKENS);
        above->n_children++;
    }
    tree_insert(index, page);
    thread_insert(index, page);
    block->is_indexed = true;
    index->n_entries++;
}

void prefix_index_remove(struct prefix_index *index, uint32_t page)
{
    struct block *block = &index->blocks[page];
    ASSERT(block->is_indexed && block->n_children == 0);
    tree_remove(index, page);
    thread_remove(index, page);
    if (block->parent != NO_PAGE)
        index->blocks[block->parent].n_children--;
    block->is_indexed = false;
    index->n_entries--;
}

void prefix_index_extend(struct prefix_index *index, uint32_t page, const uint32_t *ids, uint32_t n)
{
    struct block *block = &index->blocks[page];
    uint32_t old = block->n_tokens;
    ASSERT(block->is_indexed && n < CACHE_PAGE_TOKENS && old + n < CACHE_PAGE_TOKENS);
    memcpy(block->ids + old, ids, n * sizeof *ids);
    block->n_tokens = old + n;
    struct place place = place_of(index, page);
    if (block->after == NO_PAGE || compare(index, &place, block->after) < 0)
        return;
    block->n_tokens = old; /* the tree is searched in the order in which it stands */
    tree_remove(index, page);
    thread_remove(index, page);
    block->n_tokens = old + n;
    tree_insert(index, page);
    thread_insert(index, page);
}

uint32_t prefix_index_child(const struct prefix_index *index, uint32_t page)
{
    const struct block *block = &index->blocks[page];
    struct place place = {block->key, NULL, 0, 0}; /* in front of all children */
    uint32_t before, after;
    find_neighbours(index, &place, &before, &after);
    ASSERT(after != NO_PAGE && index->blocks[after].parent == page);
    return after;
}

/* True if the tokens of page `whole` begin with all of page `part`'s, under the same parent. */
static bool begins_with(const struct prefix_index *index, uint32_t whole, uint32_t part)
{
    if (whole == NO_PAGE || part == NO_PAGE)
        return false;
    struct place place = place_of(index, part);
    return common_with(index, &place, whole) == index->blocks[part].n_tokens;
}

bool prefix_index_is_covered(const struct prefix_index *index, uint32_t page)
{
    /* Longer ones stand directly behind; an equal one stands on either side. */
    const struct block *block = &index->blocks[page];
    return begins_with(index, block->after, page) || begins_with(index, block->before, page);
}

uint32_t prefix_index_covered_before(const struct prefix_index *index, uint32_t page)
{
    uint32_t before = index->blocks[page].before;
    return begins_with(index, page, before) ? before : NO_PAGE;
}

/* What is wrong with one entry, given the one before it in order. */
static const char *check_entry(const struct prefix_index *index, uint32_t page, uint32_t before)
{
    const struct block *blocks = index->blocks, *block = &blocks[page];
    if (!block->is_indexed || block->before != before)
        return "prefix_index 1: the thread names indexed blocks and their neighbours";
    struct place place = place_of(index, page);
    if (before != NO_PAGE && compare(index, &place, before) <= 0)
        return "prefix_index 1: entries ascend strictly";
    if (before != NO_PAGE && block->n_tokens == CACHE_PAGE_TOKENS &&
        common_with(index, &place, before) == CACHE_PAGE_TOKENS)
        return "prefix_index 2: at most one full block has a parent and ids";
    uint32_t at = index->root;
    while (at != page && at != NO_PAGE) {
        uint32_t next = compare(index, &place, at) < 0 ? blocks[at].left : blocks[at].right;
        if (next != NO_PAGE && blocks[next].priority > blocks[at].priority)
            return "prefix_index 5: priorities do not rise downwards";
        at = next;
    }
    if (at != page)
        return "prefix_index 1: the tree finds every entry";
    if (block->parent == NO_PAGE)
        return NULL;
    const struct block *parent = &blocks[block->parent];
    if (!parent->is_indexed || parent->n_tokens != CACHE_PAGE_TOKENS ||
        memcmp(parent->key, block->parent_key, SHA256_BYTES) != 0)
        return "prefix_index 3: a parent is indexed, full and of that key";
    return NULL;
}

static uint32_t count_children(const struct prefix_index *index, uint32_t parent)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < index->n_blocks; i++)
        n += index->blocks[i].is_indexed && index->blocks[i].parent == parent;
    return n;
}

const char *prefix_index_check(const struct prefix_index *index)
{
    const struct block *blocks = index->blocks;
    uint32_t first = index->root, n = 0, n_indexed = 0;
    while (first != NO_PAGE && blocks[first].left != NO_PAGE)
        first = blocks[first].left;
    for (uint32_t page = first, before = NO_PAGE; page != NO_PAGE;
         before = page, page = blocks[page].after, n++) {
        const char *wrong = check_entry(index, page, before);
        if (wrong != NULL)
            return wrong;
    }
    for (uint32_t i = 0; i < index->n_blocks; i++) {
        n_indexed += blocks[i].is_indexed;
        if (blocks[i].is_indexed && blocks[i].n_children != count_children(index, i))
            return "prefix_index 4: n_children counts the children";
    }
    if (n != index->n_entries || n != n_indexed)
        return "prefix_index 1: n_entries counts the indexed blocks";
    return NULL;
}
