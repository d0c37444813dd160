/* Cache fixture: what the cache's unit tests need again and again. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

enum { PAGE_BYTES = 64 };

struct cache *cache_fixture_windows(const uint32_t *windows, uint32_t n_groups, uint32_t n_blocks,
                                    uint32_t n_sequences, uint32_t context, uint32_t append_max)
{
    struct cache *cache;
    struct cache_shape shape = {.n_groups = n_groups,
                                .pool_bytes = (size_t)n_blocks * PAGE_BYTES * n_groups,
                                .context_max = context,
                                .append_max = append_max,
                                .sequences_max = n_sequences};
    for (uint32_t g = 0; g < n_groups; g++)
        shape.groups[g] = (struct cache_group_shape){1, 1, PAGE_BYTES, windows[g]};
    enum status status = cache_new(&shape, &cache, NULL);
    ASSERT(status == OK);
    return cache;
}

struct cache *cache_fixture_new(uint32_t n_blocks, uint32_t n_sequences, uint32_t context)
{
    static const uint32_t none = 0;
    return cache_fixture_windows(&none, 1, n_blocks, n_sequences, context, 0);
}

void cache_fixture_ids(uint32_t *ids, uint32_t n, uint32_t from)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = from + i;
}

struct sequence *cache_fixture_open(struct cache *cache, const uint32_t *ids, uint32_t n,
                                    struct cache_move *ret_move)
{
    struct sequence *sequence;
    struct cache_move move;
    enum status status = sequence_open(cache, NULL, 0, ids, n, true, &sequence, &move);
    ASSERT(status == OK);
    sequence_moved(sequence);
    if (ret_move != NULL)
        *ret_move = move;
    return sequence;
}

void cache_fixture_append(struct sequence *sequence, const uint32_t *ids, uint32_t n)
{
    enum status status = append_open(sequence, n);
    ASSERT(status == OK);
    append_commit(sequence, ids, n);
}

struct sequence *cache_fixture_run(struct cache *cache, const uint32_t *ids, uint32_t n)
{
    struct sequence *sequence = cache_fixture_open(cache, ids, n, NULL);
    uint32_t done = sequence_length(sequence);
    cache_fixture_append(sequence, ids + done, n - done);
    return sequence;
}

uint32_t cache_fixture_findable(struct cache *cache, const uint32_t *ids, uint32_t n)
{
    struct sequence *sequence = cache_fixture_open(cache, ids, n, NULL);
    uint32_t found = sequence_reused(sequence);
    sequence_close(&sequence, true);
    return found;
}

uint32_t cache_fixture_group_page(const struct sequence *sequence, uint32_t group, uint32_t i)
{
    uint32_t first_page, n_spans;
    const struct page_span *spans = sequence_spans(sequence, group, &first_page, &n_spans);
    if (i < first_page)
        return NO_PAGE;
    i -= first_page;
    for (uint32_t k = 0; k < n_spans; i -= spans[k].n_pages, k++)
        if (i < spans[k].n_pages)
            return spans[k].first_page + i;
    return NO_PAGE;
}

uint32_t cache_fixture_page(const struct sequence *sequence, uint32_t i)
{
    return cache_fixture_group_page(sequence, 0, i);
}
