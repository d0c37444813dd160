/* merging.c: the least pair first, by a heap over a linked list.
 *
 * HOW     A word's symbols are a linked list; each remembers the rank of its pair with the next one.
 *         A heap holds the places where a pair begins, ordered by (rank, place) in one 64-bit
 *         number. The least is taken; if the pair there still has that rank, the right symbol joins
 *         the left one and the two pairs around it enter the heap. A place whose pair has changed is
 *         passed over when it comes up: removing it earlier would cost more. If another pair of the
 *         same rank has come to stand there, it is that pair's turn as well.
 * ALWAYS  (1) Merges happen in the order (rank, place).                                 merging_run
 *         (2) A word of n symbols takes at most 2n places in the heap: n - 1 at first,
 *             and a merge takes one out and puts at most two in.                        push
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/merging.h"

#include "config/mem.h"

enum { ROOM_MIN = 64 };

void merging_release(struct merging *merging)
{
    mem_free(merging->symbols);
    mem_free(merging->heap);
    *merging = (struct merging){0};
}

/* The contents need not survive, so nothing is copied. */
enum status merging_reserve(struct merging *merging, size_t n)
{
    if (n <= merging->room)
        return OK;
    size_t room = merging->room * 2 > n ? merging->room * 2 : n;
    room = room < ROOM_MIN ? ROOM_MIN : room;
    merging_release(merging);
    merging->symbols = mem_alloc(room * sizeof merging->symbols[0]);
    merging->heap = mem_alloc(room * 2 * sizeof merging->heap[0]);
    if (merging->symbols == NULL || merging->heap == NULL) {
        merging_release(merging);
        return STATUS_NO_MEMORY;
    }
    merging->room = room;
    return OK;
}

static void push(struct merging *merging, uint64_t entry)
{
    ASSERT(merging->heap_count < merging->room * 2);
    uint64_t *heap = merging->heap;
    size_t at = merging->heap_count++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t pop(struct merging *merging)
{
    uint64_t *heap = merging->heap;
    uint64_t least = heap[0], entry = heap[--merging->heap_count];
    size_t n = merging->heap_count, at = 0;
    for (size_t child = 1; child < n; child = at * 2 + 1) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
    return least;
}

/* Learns the pair that begins at symbol `left` and enters it, if it is one. */
static void offer(struct merging *merging, uint32_t left, merging_rank_fn rank_of, const void *user)
{
    if (left == MERGING_NONE)
        return;
    struct merging_symbol *symbol = &merging->symbols[left];
    symbol->rank = symbol->next == MERGING_NONE
                       ? MERGING_NONE
                       : rank_of(user, merging->symbols, left, &symbol->merged);
    if (symbol->rank != MERGING_NONE)
        push(merging, (uint64_t)symbol->rank << 32 | left);
}

/* The right symbol of the pair at `left` becomes part of the left one. */
static void join(struct merging_symbol *symbols, uint32_t left)
{
    uint32_t right = symbols[left].next;
    symbols[left].id = symbols[left].merged;
    symbols[left].next = symbols[right].next;
    symbols[right].rank = MERGING_NONE; /* begins no pair any more */
    if (symbols[right].next != MERGING_NONE)
        symbols[symbols[right].next].previous = left;
}

void merging_run(struct merging *merging, uint32_t n, merging_rank_fn rank_of, const void *user)
{
    struct merging_symbol *symbols = merging->symbols;
    for (uint32_t i = 0; i < n; i++) {
        symbols[i].previous = i - 1; /* NONE for the first */
        symbols[i].next = i + 1 < n ? i + 1 : MERGING_NONE;
    }
    merging->heap_count = 0;
    for (uint32_t i = 0; i < n; i++)
        offer(merging, i, rank_of, user);
    while (merging->heap_count > 0) {
        uint64_t entry = pop(merging);
        uint32_t left = (uint32_t)entry;
        if (symbols[left].rank != entry >> 32)
            continue;
        join(symbols, left);
        offer(merging, symbols[left].previous, rank_of, user);
        offer(merging, left, rank_of, user);
    }
}
