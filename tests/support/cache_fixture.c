/* Cache fixture: what the cache's unit tests need again and again. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_fixture.h"

enum { PAGE_BYTES = 64 };

struct cache *cache_fixture_new(uint32_t n_blocks, uint32_t n_sequences, uint32_t context)
{
    struct cache *cache;
    struct cache_shape shape = {.n_groups = 1,
                                .groups = {{1, 1, PAGE_BYTES, 0}},
                                .pool_bytes = (size_t)n_blocks * PAGE_BYTES,
                                .context_max = context,
                                .sequences_max = n_sequences};
    enum status status = cache_new(&shape, &cache, NULL);
    ASSERT(status == OK);
    return cache;
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

uint32_t cache_fixture_page(const struct sequence *sequence, uint32_t i)
{
    uint32_t first_page, n_spans;
    const struct page_span *spans = sequence_spans(sequence, 0, &first_page, &n_spans);
    for (uint32_t k = 0; k < n_spans; i -= spans[k].n_pages, k++)
        if (i < spans[k].n_pages)
            return spans[k].first_page + i;
    return NO_PAGE;
}
