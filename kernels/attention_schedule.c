/* attention_schedule.c: cuts a step's query rows into tiles and deals their chunks to the threads.
 *
 * HOW     Tiles stand group by group and, within a group, sequence by sequence: with head-major
 *         memory that is the order of the addresses. A tile's chunks are its items, but for those
 *         behind the windows of all its rows, which nobody is given. Each thread
 *         gets one stretch of the list of all items, cut where the running cost comes nearest to an
 *         equal share; a cut may fall inside a tile, never inside a chunk.
 * ALWAYS  (1) The cuts rise, from the first item to the end.  deal
 *         (2) Only the first tile of a share can have been begun by another thread, so a thread
 *             needs partials for one tile at most.  deal
 * NOT     Addresses: they differ from layer to layer by the layer's base alone, so one schedule
 *         serves all layers.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <string.h>

#include "kernels/attention_priv.h"

/* What a token costs a tile, in rows' arithmetic: that of its rows and of one more, or the time that the token takes to
 * come from memory, behind which few rows' arithmetic hides. A tile itself, gathering and finishing included, weighs as
 * much as so many tokens. */
enum { TOKEN_ROWS_LEAST = 5, TILE_WEIGHT_TOKENS = 16 };

static uint64_t tile_token_cost(const struct attention_tile *tile)
{
    uint64_t rows = (uint64_t)tile->n_rows + 1;
    return rows > TOKEN_ROWS_LEAST ? rows : TOKEN_ROWS_LEAST;
}

static uint64_t tile_cost(const struct attention_tile *tile)
{
    uint64_t tokens = tile->n_tokens - tile->token_first;
    return (tokens + TILE_WEIGHT_TOKENS) * tile_token_cost(tile);
}

static void check_sequence(const struct attention_plan *plan, const struct attention_sequence *s)
{
    ASSERT(s->pool < ATTEND_POOLS_MAX);
    ASSERT(s->n_rows <= plan->rows_max && s->row_first <= plan->rows_max - s->n_rows);
    ASSERT(s->n_rows <= plan->context_max && s->first_position <= plan->context_max - s->n_rows);
    ASSERT(s->first_page <= attention_token_first(plan, s->first_position) / PAGE_TOKENS);
    uint64_t pages = s->first_page;
    uint64_t needed = ((uint64_t)s->first_position + s->n_rows + PAGE_TOKENS - 1) / PAGE_TOKENS;
    for (uint32_t i = 0; i < s->n_runs && pages < needed; i++) {
        ASSERT(s->runs[i].n_pages > 0);
        pages += s->runs[i].n_pages;
    }
    ASSERT(pages >= needed);
}

static struct page_cursor cursor_at(const struct attention_sequence *s, uint32_t page)
{
    struct page_cursor at = {0, page - s->first_page};
    while (at.page >= s->runs[at.run].n_pages)
        at.page -= s->runs[at.run++].n_pages;
    return at;
}

/* Cuts the pairs of one group and one sequence evenly into as few tiles as hold them. */
static void add_tiles(struct attention_plan *plan, uint32_t group, uint32_t sequence)
{
    const struct attention_sequence *s = &plan->sequences[sequence];
    uint32_t n_heads = plan->groups[group].n_heads;
    uint64_t pairs = (uint64_t)s->n_rows * n_heads;
    uint64_t n = (pairs + ATTEND_ROWS_MAX - 1) / ATTEND_ROWS_MAX;
    ASSERT(n <= plan->tiles_max - plan->n_tiles);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = pairs * i / n;
        uint64_t end = pairs * (i + 1) / n;
        uint32_t n_tokens = s->first_position + (uint32_t)((end - 1) / n_heads) + 1;
        uint32_t token_first =
            attention_token_first(plan, s->first_position + (uint32_t)(first / n_heads));
        plan->tiles[plan->n_tiles++] = (struct attention_tile){
            .sequence = sequence,
            .pair_first = (uint32_t)first,
            .token_first = token_first,
            .n_tokens = n_tokens,
            .chunk_first = token_first / ATTEND_CHUNK,
            .n_chunks = (n_tokens + ATTEND_CHUNK - 1) / ATTEND_CHUNK,
            .at = cursor_at(s, token_first / PAGE_TOKENS),
            .group = (uint16_t)group,
            .n_rows = (uint16_t)(end - first),
        };
    }
}

/* The item boundary nearest to offset cost units into the tile; it may be the end of the tile. */
static struct attention_cut cut_in(const struct attention_plan *plan, uint32_t t, uint64_t offset)
{
    const struct attention_tile *tile = &plan->tiles[t];
    uint64_t chunk_cost = ATTEND_CHUNK * tile_token_cost(tile);
    uint64_t chunk =
        (tile->token_first * tile_token_cost(tile) + offset + chunk_cost / 2) / chunk_cost;
    if (chunk >= tile->n_chunks)
        return (struct attention_cut){.tile = t + 1};
    struct attention_cut cut = {.tile = t};
    if (chunk > tile->chunk_first) {
        cut.chunk = (uint32_t)chunk;
        cut.at = cursor_at(&plan->sequences[tile->sequence],
                           (uint32_t)chunk * (ATTEND_CHUNK / PAGE_TOKENS));
    }
    return cut;
}

static void deal(struct attention_plan *plan)
{
    uint64_t total = 0;
    for (uint32_t t = 0; t < plan->n_tiles; t++)
        total += tile_cost(&plan->tiles[t]);
    uint32_t t = 0;
    uint64_t before = 0; /* cost of the tiles before t */
    plan->cuts[0] = (struct attention_cut){0};
    for (uint32_t i = 1; i < plan->n_threads; i++) {
        uint64_t target =
            total / plan->n_threads * i + total % plan->n_threads * i / plan->n_threads;
        while (t < plan->n_tiles && before + tile_cost(&plan->tiles[t]) <= target)
            before += tile_cost(&plan->tiles[t++]);
        plan->cuts[i] = t < plan->n_tiles ? cut_in(plan, t, target - before)
                                          : (struct attention_cut){.tile = t};
    }
    plan->cuts[plan->n_threads] = (struct attention_cut){.tile = plan->n_tiles};
}

/* Units that a single row sees, each K/V head once. */
static void count_units(struct attention_plan *plan, const struct attention_sequence *s)
{
    if (s->n_rows != 1)
        return;
    uint32_t first = attention_token_first(plan, s->first_position) / ATTEND_UNIT;
    plan->units[s->pool] +=
        (uint64_t)(s->first_position / ATTEND_UNIT + 1 - first) * plan->n_kv_heads;
}

void attention_schedule(struct attention_plan *plan, const struct attention_sequence *sequences,
                        uint32_t n_sequences)
{
    ASSERT(n_sequences <= plan->sequences_max);
    uint64_t rows = 0;
    plan->pools_used = 0;
    memset(plan->units, 0, sizeof plan->units);
    for (uint32_t i = 0; i < n_sequences; i++) {
        check_sequence(plan, &sequences[i]);
        plan->sequences[i] = sequences[i];
        count_units(plan, &sequences[i]);
        rows += sequences[i].n_rows;
        plan->pools_used |= sequences[i].n_rows > 0 ? 1u << sequences[i].pool : 0;
    }
    ASSERT(rows <= plan->rows_max);
    plan->n_tiles = 0;
    for (uint32_t group = 0; group < plan->n_groups; group++)
        for (uint32_t i = 0; i < n_sequences; i++)
            if (sequences[i].n_rows > 0)
                add_tiles(plan, group, i);
    deal(plan);
}
