/* gguf_names.c: sorted names, for keys and for tensors.
 *
 * WHY     A hash table can be filled with names that collide; a sorted list of pointers cannot, and
 *         shows duplicates as neighbours.
 * HOW     Heap sort: no memory, and never worse than n log n. The length is compared first since it
 *         decides most often.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_priv.h"

static int compare(const struct slice *a, const struct slice *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->len);
}

static void swap(const struct slice **a, const struct slice **b)
{
    const struct slice *kept = *a;
    *a = *b;
    *b = kept;
}

/* Lets names[root] sink until the heap of count names is one again. */
static void sink(const struct slice **names, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count && compare(names[child], names[child + 1]) < 0)
            child++;
        if (compare(names[root], names[child]) >= 0)
            return;
        swap(&names[root], &names[child]);
        root = child;
    }
}

void gguf_names_sort(const struct slice **names, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sink(names, root, count);
    for (size_t end = count; end-- > 1;) {
        swap(&names[0], &names[end]);
        sink(names, 0, end);
    }
}

const struct slice *gguf_names_twice(const struct slice *const *sorted, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (compare(sorted[i - 1], sorted[i]) == 0)
            return sorted[i];
    }
    return NULL;
}

const struct slice *gguf_names_find(const struct slice *const *sorted, size_t count,
                                    struct slice name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&name, sorted[middle]);
        if (order == 0)
            return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
