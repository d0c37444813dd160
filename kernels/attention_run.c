/* attention_run.c: one thread's share of one layer: addresses, query rows, chunks in order,
 * merging.
 *
 * HOW     Items come one ahead of their work, so that the kernel can prefetch the first steps of
 *         the next item, whichever tile or sequence it belongs to. A tile begun by this thread runs
 *         from its first chunk and merges each chunk into the state; finished, it goes to out. The first
 *         tile of a share may have been begun by another thread: then its chunks are kept apart,
 *         and attention_merge joins them to that thread's state in ascending order, which is the
 *         only order there is.
 * ALWAYS  (1) Nothing is read or written under a plan that does not serve the cache.  attention_run
 *         (2) A row takes part only in chunks in which it sees a token, and its state begins as
 *             the first of them: merging an empty partial would turn -0 into 0.  run_item,
 *             merge_row, merge_cut_row
 *         (3) Each element of out is written by one thread.  finish_row
 * THREAD  every worker, each with its own tid; the schedule and the plan are only read
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <string.h>

#include "kernels/attention_priv.h"

enum { AHEAD = 2 * ATTEND_STEP_UNITS };

/* A chunk of a tile, with the addresses of its units and, behind them, of the step that follows.
 * Units before unit_first lie behind the window of every row, and maybe in no page. */
struct item {
    const struct attention_tile *tile;
    uint32_t chunk;
    uint32_t n_tokens;
    uint32_t unit_first;
    uint32_t n_units;
    const void *k[ATTEND_CHUNK_UNITS + AHEAD];
    const void *v[ATTEND_CHUNK_UNITS + AHEAD];
};

/* Where a thread is in its share. */
struct walk {
    const struct attention_plan *plan;
    const struct kv_layer *layers; /* [pools] */
    uint64_t *issued; /* [pools], units, of this thread */
    struct attention_cut next;
    struct attention_cut end;
};

/* The tile that is worked on. */
struct work {
    const struct attention_plan *plan;
    struct attention_space space;
    const float *q; /* of the layer */
    float *out;
    bool is_begun_here;   /* from the tile's first chunk */
    uint32_t chunk_first; /* of this tile, on this thread */
    uint32_t token_first[ATTEND_ROWS_MAX];
    uint32_t token_end[ATTEND_ROWS_MAX]; /* each row sees token_first..token_end-1 */
    size_t head_row[ATTEND_ROWS_MAX];  /* row * n_query_heads + head */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Addresses of the item's units; moves the cursor past its pages. */
static void address_units(struct walk *w, struct item *item)
{
    const struct attention_sequence *s = &w->plan->sequences[item->tile->sequence];
    const struct attention_group *group = &w->plan->groups[item->tile->group];
    const struct kv_layer *layer = &w->layers[s->pool];
    const char *k_head = layer->base + group->k_head * layer->head_stride;
    const char *v_head = layer->base + group->v_head * layer->head_stride + layer->v_offset;
    struct page_cursor at = w->next.at;
    for (uint32_t u = item->unit_first; u < item->n_units;) {
        size_t offset = (size_t)(s->runs[at.run].first_page + at.page) * layer->page_stride +
                        u % PAGE_UNITS * layer->unit_stride;
        uint32_t page_end = (u / PAGE_UNITS + 1) * PAGE_UNITS;
        for (uint32_t end = least(page_end, item->n_units); u < end; u++) {
            item->k[u] = k_head + offset;
            item->v[u] = v_head + offset;
            offset += layer->unit_stride;
        }
        if (++at.page == s->runs[at.run].n_pages)
            at = (struct page_cursor){at.run + 1, 0};
    }
    w->next.at = at;
    for (uint32_t u = 0; u < item->unit_first; u++) {
        item->k[u] = item->k[item->unit_first];
        item->v[u] = item->v[item->unit_first];
    }
}

/* The next item of the share; false at its end. */
static bool walk_next(struct walk *w, struct item *item)
{
    if (w->next.tile == w->end.tile && w->next.chunk == w->end.chunk)
        return false;
    const struct attention_tile *tile = &w->plan->tiles[w->next.tile];
    if (w->next.chunk == 0) {
        w->next.chunk = tile->chunk_first;
        w->next.at = tile->at;
    }
    item->tile = tile;
    item->chunk = w->next.chunk;
    item->n_tokens = least(tile->n_tokens - item->chunk * ATTEND_CHUNK, ATTEND_CHUNK);
    item->unit_first = item->chunk == tile->chunk_first
                           ? tile->token_first % ATTEND_CHUNK / ATTEND_UNIT
                           : 0;
    item->n_units = (item->n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
    address_units(w, item);
    const struct attention_sequence *s = &w->plan->sequences[tile->sequence];
    if (s->n_rows == 1)
        w->issued[s->pool] += item->n_units - item->unit_first;
    if (++w->next.chunk == tile->n_chunks)
        w->next = (struct attention_cut){.tile = w->next.tile + 1};
    return true;
}

/* Puts the first units of what comes next behind the item's own. */
static void look_ahead(struct item *item, const struct item *next)
{
    for (uint32_t i = 0; i < AHEAD; i++) {
        uint32_t u = least(next->unit_first + i, next->n_units - 1);
        item->k[item->n_units + i] = next->k[u];
        item->v[item->n_units + i] = next->v[u];
    }
}

/* Sixteen at a time, as wide as every head is a multiple of: so that the compiler uses vectors. */
static void scale_row(const float *restrict from, uint32_t n, float by, float *restrict to)
{
    for (uint32_t i = 0; i < n; i += ATTEND_UNIT)
        for (uint32_t k = 0; k < ATTEND_UNIT; k++)
            to[i + k] = from[i + k] * by;
}

/* Gathers and scales the query rows of a tile. */
static void begin_tile(struct work *work, const struct item *item)
{
    const struct attention_plan *plan = work->plan;
    const struct attention_tile *tile = item->tile;
    const struct attention_group *group = &plan->groups[tile->group];
    const struct attention_sequence *s = &plan->sequences[tile->sequence];
    uint32_t row = tile->pair_first / group->n_heads;
    uint32_t head = tile->pair_first % group->n_heads;
    work->is_begun_here = item->chunk == tile->chunk_first;
    work->chunk_first = item->chunk;
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        work->token_first[r] = attention_token_first(plan, s->first_position + row);
        work->token_end[r] = s->first_position + row + 1;
        work->head_row[r] =
            (size_t)(s->row_first + row) * plan->n_query_heads + plan->heads[group->first + head];
        const float *from = work->q + work->head_row[r] * plan->d_qk;
        float *to = work->space.q + r * ATTEND_Q_STRIDE;
        scale_row(from, plan->d_qk, plan->scale, to);
        if (++head == group->n_heads) {
            head = 0;
            row++;
        }
    }
}

/* Joins the partial of a chunk to row r's state, which is that partial if the row saw no token
 * before it. */
static void merge_row(const struct attention_plan *plan, const struct attention_partial *into,
                      const struct attention_partial *from, uint32_t r, bool is_first)
{
    size_t j = (size_t)r * plan->d_v;
    if (is_first) {
        into->m[r] = from->m[r];
        into->l[r] = from->l[r];
        memcpy(into->acc + j, from->acc + j, plan->d_v * sizeof *into->acc);
        return;
    }
    plan->merge(plan->d_v, into->m + r, into->l + r, into->acc + j, from->m[r], from->l[r],
                from->acc + j);
}

static void finish_row(const struct attention_plan *plan, const struct attention_partial *state,
                       uint32_t r, size_t head_row, float *out)
{
    plan->finish(plan->d_v, state->l[r], state->acc + (size_t)r * plan->d_v,
                 out + head_row * plan->d_v);
}

/* Where the item's result goes. */
static struct attention_partial partial_for(const struct work *work, const struct item *item)
{
    if (!work->is_begun_here)
        return attention_partial_in(work->space.partials +
                                    (item->chunk - work->chunk_first) *
                                        attention_partial_floats(work->plan));
    return item->chunk == item->tile->chunk_first ? work->space.state : work->space.chunk;
}

static void run_item(struct work *work, const struct item *item)
{
    const struct attention_plan *plan = work->plan;
    const struct attention_tile *tile = item->tile;
    uint16_t row_tokens[ATTEND_ROWS_MAX], row_first[ATTEND_ROWS_MAX];
    uint32_t t0 = item->chunk * ATTEND_CHUNK;
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        uint32_t first = work->token_first[r] <= t0 ? 0 : work->token_first[r] - t0;
        bool sees = work->token_end[r] > t0 && first < ATTEND_CHUNK;
        row_first[r] = (uint16_t)(sees ? first : 0);
        row_tokens[r] = (uint16_t)(sees ? least(work->token_end[r] - t0, ATTEND_CHUNK) : 0);
    }
    struct attention_partial to = partial_for(work, item);
    plan->chunk(&(struct attend_tile){
        .n_rows = tile->n_rows,
        .d_qk = plan->d_qk,
        .d_v = plan->d_v,
        .q = work->space.q,
        .n_tokens = item->n_tokens,
        .row_tokens = row_tokens,
        .row_first = row_first,
        .k_units = item->k,
        .v_units = item->v,
        .k_ahead = item->k + ATTEND_STEP_UNITS,
        .v_ahead = item->v + ATTEND_STEP_UNITS,
        .k_far = item->k + AHEAD,
        .v_far = item->v + AHEAD,
        .m = to.m,
        .l = to.l,
        .acc = to.acc,
    });
    if (!work->is_begun_here)
        return;
    for (uint32_t r = 0; r < tile->n_rows && item->chunk > tile->chunk_first; r++)
        if (row_tokens[r] > 0)
            merge_row(plan, &work->space.state, &to, r,
                      item->chunk == work->token_first[r] / ATTEND_CHUNK);
    for (uint32_t r = 0; r < tile->n_rows && item->chunk + 1 == tile->n_chunks; r++)
        finish_row(plan, &work->space.state, r, work->head_row[r], work->out);
}

static void run_share(struct walk *walk, struct work *work)
{
    struct item items[2];
    const struct attention_tile *tile = NULL;
    struct item *item = &items[0];
    struct item *next = &items[1];
    bool has_item = walk_next(walk, item);
    while (has_item) {
        bool has_next = walk_next(walk, next);
        look_ahead(item, has_next ? next : item);
        if (item->tile != tile)
            begin_tile(work, item);
        tile = item->tile;
        run_item(work, item);
        struct item *done = item;
        item = next;
        next = done;
        has_item = has_next;
    }
}

/* Whether every pool that the step uses is one that the plan was made to serve. */
static bool is_current(const struct attention_plan *plan, const struct kv_layer *layers)
{
    for (uint32_t pool = 0; plan->pools_used >> pool != 0; pool++) {
        if ((plan->pools_used >> pool & 1) == 0)
            continue;
        const struct kv_layer *layer = &layers[pool];
        if (!attention_plan_admits(plan, pool, layer->generation))
            return false;
        ASSERT(layer->d_qk == plan->d_qk && layer->d_v == plan->d_v && layer->type == plan->type);
        ASSERT(layer->n_heads == plan->n_kv_heads);
    }
    return true;
}

enum status attention_run(const struct attention_plan *plan, uint32_t tid,
                          const struct kv_layer *layers, const uint8_t architecture_hash[32],
                          const float *q, float *out)
{
    if (memcmp(plan->architecture_hash, architecture_hash, sizeof plan->architecture_hash) != 0 ||
        !is_current(plan, layers))
        return STATUS_STALE_PLAN;
    ASSERT(tid < plan->n_threads);
    struct walk walk = {plan, layers, plan->counts[tid].issued, plan->cuts[tid],
                        plan->cuts[tid + 1]};
    struct work work = {.plan = plan, .space = attention_space_of(plan, tid), .q = q, .out = out};
    run_share(&walk, &work);
    for (uint32_t pool = 0; tid == 0 && pool < ATTEND_POOLS_MAX; pool++)
        plan->counts[0].logical[pool] += plan->units[pool];
    return OK;
}

/* Joins the chunks of row r of a cut tile to the state of the thread that began it. Threads first..
 * hold the rest. */
static void merge_cut_row(const struct attention_plan *plan, uint32_t first, uint32_t r, float *out)
{
    const struct attention_tile *tile = &plan->tiles[plan->cuts[first].tile];
    const struct attention_group *group = &plan->groups[tile->group];
    const struct attention_sequence *s = &plan->sequences[tile->sequence];
    uint32_t pair = tile->pair_first + r;
    uint32_t row = pair / group->n_heads;
    uint32_t token_end = s->first_position + row + 1;
    uint32_t chunk_first = attention_token_first(plan, s->first_position + row) / ATTEND_CHUNK;
    struct attention_partial state = attention_space_of(plan, first - 1).state;
    uint32_t tid = first;
    for (uint32_t chunk = plan->cuts[first].chunk;
         chunk < tile->n_chunks && chunk * ATTEND_CHUNK < token_end; chunk++) {
        if (chunk < chunk_first)
            continue;
        while (plan->cuts[tid + 1].tile == plan->cuts[first].tile &&
               chunk >= plan->cuts[tid + 1].chunk)
            tid++;
        struct attention_partial partial =
            attention_partial_at(plan, tid, chunk - plan->cuts[tid].chunk);
        merge_row(plan, &state, &partial, r, chunk == chunk_first);
    }
    size_t head_row = (size_t)(s->row_first + row) * plan->n_query_heads +
                      plan->heads[group->first + pair % group->n_heads];
    finish_row(plan, &state, r, head_row, out);
}

/* True if a tile was cut first at the beginning of thread i's share. */
static bool is_first_cut(const struct attention_plan *plan, uint32_t i)
{
    const struct attention_cut *cut = &plan->cuts[i];
    return cut->chunk > 0 && !(cut[-1].tile == cut->tile && cut[-1].chunk > 0);
}

bool attention_is_cut(const struct attention_plan *plan)
{
    for (uint32_t i = 1; i < plan->n_threads; i++)
        if (is_first_cut(plan, i))
            return true;
    return false;
}

void attention_merge(const struct attention_plan *plan, uint32_t tid, float *out)
{
    uint32_t turn = 0;
    for (uint32_t i = 1; i < plan->n_threads; i++)
        if (is_first_cut(plan, i))
            for (uint32_t r = 0; r < plan->tiles[plan->cuts[i].tile].n_rows; r++)
                if (turn++ % plan->n_threads == tid)
                    merge_cut_row(plan, i, r, out);
}
