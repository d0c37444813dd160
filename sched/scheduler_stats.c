/* scheduler_stats.c: the scheduler's counters and the cache's books, put together for who asks.
 *
 * WHY     What K/V bytes should be (the ledger, from the graph's heads and widths), what pages take
 *         (kernels' layout, scales included) and what was mapped (the allocator) are three sources;
 *         they are told apart, with the difference named, so that each can be checked by the others.
 * ALWAYS  (1) No figure is made from another: kv_expected_bytes is the ledger's times the blocks
 *             counted, kv_resident_bytes the mapping's.  fill_group
 *         (2) resident = expected + scales + rounding.  tests/unit/sched/scheduler_test.c
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_priv.h"

static void fill_group(const struct scheduler *s, uint32_t group, struct group_stats *ret_stats)
{
    const struct graph_group *shape = &s->model->graph->groups[group];
    struct cache_group_books books = cache_group_books(s->cache, group);
    struct ledger_shape layer = model_ledger_shape(s->model, group);
    uint64_t layer_blocks = (uint64_t)books.blocks_total * shape->n_layers;
    *ret_stats = (struct group_stats){
        .heads = shape->n_heads,
        .window = shape->window,
        .layers = shape->n_layers,
        .block_bytes = books.block_bytes,
        .blocks = books.blocks_total,
        .blocks_free = books.blocks_free,
        .blocks_used = books.blocks_used,
        .blocks_cached = books.blocks_cached,
        .blocks_shared = books.blocks_shared,
        .evicted_blocks = books.evicted_blocks,
        .kv_pinned_bytes = books.blocks_used * books.block_bytes,
        .kv_expected_bytes = layer_blocks * ledger_history_bytes(&layer, 1, CACHE_PAGE_TOKENS),
        .kv_scale_bytes = layer_blocks * ledger_scale_bytes(&layer, 1, CACHE_PAGE_TOKENS),
        .kv_rounding_bytes = books.rounding_bytes,
        .kv_resident_bytes = books.resident_bytes,
    };
}

static void fill_groups(const struct scheduler *s, struct engine_stats *ret_stats)
{
    ret_stats->n_groups = cache_groups(s->cache);
    for (uint32_t g = 0; g < ret_stats->n_groups; g++) {
        struct group_stats *group = &ret_stats->groups[g];
        fill_group(s, g, group);
        ret_stats->kv_expected_bytes += group->kv_expected_bytes;
        ret_stats->kv_scale_bytes += group->kv_scale_bytes;
        ret_stats->kv_rounding_bytes += group->kv_rounding_bytes;
        ret_stats->kv_resident_bytes += group->kv_resident_bytes;
    }
}

void scheduler_stats(const struct scheduler *s, struct engine_stats *ret_stats)
{
    struct cache_books books = cache_books(s->cache);
    *ret_stats = s->stats;
    ret_stats->requests_running = s->n_running;
    ret_stats->prefix_lookup_tokens = books.lookup_tokens;
    ret_stats->prefix_hit_tokens = books.hit_tokens;
    ret_stats->prefix_copied_tokens = books.copied_tokens;
    ret_stats->evicted_blocks = books.evicted_blocks;
    ret_stats->blocks = books.blocks_total;
    ret_stats->blocks_free = books.blocks_free;
    ret_stats->blocks_used = books.blocks_used;
    ret_stats->blocks_cached = books.blocks_cached;
    ret_stats->blocks_shared = books.blocks_shared;
    ret_stats->weight_bytes = s->model->weights->bytes;
    fill_groups(s, ret_stats);
}
