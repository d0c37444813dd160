/* scheduler_batch.c: admission by free pages, the rows of a step, preemption, and the end of every
 * append.
 *
 * WHY     Pages are what runs out. The oldest request must always be able to go on, so age decides
 *         who keeps them.
 * HOW     The oldest waiting request is admitted if pages for all it has to compute can be had now.
 *         Each running request gets rows for this step, decode rows always, prompt rows under the
 *         budget; when pages run out the youngest running request goes back to the queue and its
 *         pages become cached; it is computed again later, from its tokens.
 * ALWAYS  (1) A request only ever loses its pages to an older one (or to itself).           reserve
 *         (2) Every append opened by scheduler_plan is committed or aborted by scheduler_commit.
 *         (3) A request alone can always run: the engine refuses what the whole pool could not
 *         hold.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_priv.h"

static uint32_t pending_rows(const struct request *r)
{
    return request_n_tokens(r) - sequence_length(r->sequence);
}

/* ---- admission ---- */

static enum status open_sequence(struct scheduler *s, struct request *r, bool may_reuse,
                                 struct cache_move *ret_move)
{
    return sequence_open(s->cache, r->has_salt ? r->salt : NULL,
                         r->has_salt ? sizeof r->salt : 0, r->ids, request_n_tokens(r),
                         may_reuse && !r->prompt_logprobs, &r->sequence, ret_move);
}

/* Notes what must be available in each group before the next try is worth its look-up. */
static void note_lacking(struct scheduler *s, const uint32_t lacking[CACHE_GROUPS_MAX])
{
    for (uint32_t g = 0; g < cache_groups(s->cache); g++)
        s->admission_blocks[g] =
            lacking[g] > 0 ? cache_blocks_available(s->cache, g) + lacking[g] : 0;
}

/* The blocks of each group that r lacks for all its tokens and the next, beyond those that can be
 * had; false if there are none. */
static bool is_lacking(const struct scheduler *s, const struct request *r,
                       uint32_t ret_lacking[CACHE_GROUPS_MAX])
{
    bool any = false;
    for (uint32_t g = 0; g < cache_groups(s->cache); g++) {
        uint32_t needed = sequence_blocks_lacking(r->sequence, g, request_n_tokens(r) + 1);
        uint32_t available = cache_blocks_available(s->cache, g);
        ret_lacking[g] = needed > available ? needed - available : 0;
        any |= ret_lacking[g] > 0;
    }
    return any;
}

static void copy_head(struct scheduler *s, const struct cache_move *move)
{
    for (uint32_t g = 0; move->n_tokens > 0 && g < cache_groups(s->cache); g++)
        decoder_copy_page(s->decoder, s->pool, g, move->from_page[g], move->to_page[g],
                          move->n_tokens);
}

/* Opens r's sequence. CACHE_FULL: pages for all its tokens and the next cannot be had now. FENCED, DRAINING: nor
 * ever. */
static enum status try_open(struct scheduler *s, struct request *r)
{
    uint32_t lacking[CACHE_GROUPS_MAX];
    struct cache_move move;
    enum status status = open_sequence(s, r, true, &move);
    if (status == STATUS_CACHE_FULL &&
        s->n_running == 0) /* a copied head and its source do not fit together */
        status = open_sequence(s, r, false, &move);
    if (status == STATUS_FENCED || status == STATUS_DRAINING)
        return status;
    if (status != OK) {
        for (uint32_t g = 0; g < CACHE_GROUPS_MAX; g++)
            lacking[g] = 1;
        note_lacking(s, lacking);
        return STATUS_CACHE_FULL;
    }
    if (is_lacking(s, r, lacking) && s->n_running > 0) {
        sequence_close(&r->sequence, true);
        note_lacking(s, lacking);
        return STATUS_CACHE_FULL;
    }
    copy_head(s, &move);
    sequence_moved(r->sequence);
    return OK;
}

/* Whether every group has what the last try lacked. */
static bool is_worth_a_try(const struct scheduler *s)
{
    for (uint32_t g = 0; g < cache_groups(s->cache); g++)
        if (cache_blocks_available(s->cache, g) < s->admission_blocks[g])
            return false;
    return true;
}

static void start_running(struct scheduler *s, struct request *r)
{
    bool is_first = r->times.started_ns == 0;
    request_set_state(r, REQUEST_RUNNING);
    s->running[s->n_running++] = (struct running){.request = r};
    if (!is_first)
        return;
    r->times.started_ns = s->now_ns;
    r->cached_tokens = sequence_reused(r->sequence);
}

void scheduler_admit(struct scheduler *s)
{
    while (s->waiting_head != NULL && s->n_running < s->limits.running_max) {
        struct request *r = s->waiting_head;
        if (s->n_running > 0 && !is_worth_a_try(s))
            return;
        enum status status = try_open(s, r);
        if (status == STATUS_CACHE_FULL)
            return;
        s->waiting_head = r->next;
        if (s->waiting_head == NULL)
            s->waiting_tail = NULL;
        r->next = NULL;
        scheduler_count_waiting(s, r, -1);
        if (status == OK)
            start_running(s, r);
        else
            scheduler_end(s, r, FINISH_ERROR, status);
    }
}

/* ---- rows ---- */

static void preempt(struct scheduler *s, uint32_t index)
{
    struct request *r = s->running[index].request;
    sequence_close(&r->sequence, true);
    scheduler_remove_running(s, index);
    scheduler_wait(s, r, true);
    s->stats.preemptions++;
}

/* Opens an append of n rows for running[index], taking pages from the youngest until it succeeds.
 * False if it was itself the youngest and went back to the queue. Younger ones have no open append
 * yet: rows are planned in order of age. */
static bool reserve(struct scheduler *s, uint32_t index, uint32_t n)
{
    while (append_open(s->running[index].request->sequence, n) != OK) {
        uint32_t youngest = s->n_running - 1;
        preempt(s, youngest);
        if (youngest == index)
            return false;
    }
    return true;
}

static void add_rows(struct step_rows *rows, struct running *run, uint32_t n)
{
    struct request *r = run->request;
    run->n_rows = n;
    run->row_first = rows->n_rows;
    run->first_position = sequence_length(r->sequence);
    memcpy(rows->ids + rows->n_rows, r->ids + run->first_position, n * sizeof *rows->ids);
    rows->n_asked[rows->n_sequences++] = scheduler_rows_asked(run);
    rows->n_rows += n;
}

_Static_assert(sizeof(struct page_span) == sizeof(struct page_run) &&
                   offsetof(struct page_span, n_pages) == offsetof(struct page_run, n_pages),
               "cache and kernels describe a run of pages alike");

struct attention_sequence *scheduler_sequences(const struct scheduler *s, uint32_t group,
                                               struct attention_sequence *at)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct running *run = &s->running[i];
        if (run->n_rows == 0)
            continue;
        *at = (struct attention_sequence){.first_position = run->first_position,
                                          .n_rows = run->n_rows,
                                          .row_first = run->row_first,
                                          .pool = s->pool};
        const struct page_span *spans =
            sequence_spans(run->request->sequence, group, &at->first_page, &at->n_runs);
        at->runs = (const struct page_run *)(const void *)spans;
        at++;
    }
    return at;
}

uint32_t scheduler_decoding(const struct scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        n += pending_rows(s->running[i].request) == 1;
    return n;
}

uint64_t scheduler_oldest_prompt_ns(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (pending_rows(s->running[i].request) > 1)
            return s->running[i].request->times.submitted_ns;
    return UINT64_MAX;
}

/* Rows that r gets: its one decode row, or as many prompt rows as there is room for. */
static uint32_t rows_for(const struct request *r, const struct prompt_room *room,
                         const struct pace *pace)
{
    uint32_t pending = pending_rows(r);
    if (pending == 1)
        return 1;
    uint32_t most = pending < room->rows ? pending : room->rows;
    if (most == 0 || room->units <= 0.0)
        return 0;
    return pace_rows(pace, room->units, sequence_length(r->sequence), most);
}

void scheduler_plan(struct scheduler *s, struct step_rows *rows, const struct pace *pace)
{
    uint32_t n_before = rows->n_rows;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct running *run = &s->running[i];
        bool is_decode = pending_rows(run->request) == 1;
        uint32_t n = rows_for(run->request, &rows->room, pace);
        run->n_rows = 0;
        if (n == 0 || !reserve(s, i, n))
            continue;
        add_rows(rows, run, n);
        if (is_decode) {
            rows->made_of.decode_rows++;
            continue;
        }
        double units = n * pace_row_units(pace, run->first_position + n / 2);
        rows->made_of.prefill_rows += n;
        rows->made_of.prefill_units += units;
        rows->room.rows -= n;
        rows->room.units -= units;
    }
    s->stats.steps += rows->n_rows > n_before;
    s->stats.step_rows += rows->n_rows - n_before;
}

bool scheduler_skip(struct scheduler *s, enum status error)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        s->running[i].n_rows = 0;
        s->running[i].status = error;
    }
    return s->n_running > 0;
}

/* ---- commit ---- */

static void count_rows(struct scheduler *s, struct running *run)
{
    struct request *r = run->request;
    uint32_t end = run->first_position + run->n_rows;
    uint32_t prompt_end = end < r->n_ids ? end : r->n_ids;
    if (prompt_end > run->first_position)
        s->stats.prefill_tokens += prompt_end - run->first_position;
    if (run->first_position < r->computed_rows) {
        uint32_t again = end < r->computed_rows ? end : r->computed_rows;
        s->stats.recomputed_tokens += again - run->first_position;
    }
    if (end > r->computed_rows)
        r->computed_rows = end;
}

/* The step went on without run's rows. */
static void take_back(struct scheduler *s, struct running *run)
{
    append_abort(run->request->sequence);
    s->stats.shed_rows += run->n_rows;
    run->n_rows = 0;
}

void scheduler_commit(struct scheduler *s, const uint32_t *ids, enum status status, bool has_shed)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct running *run = &s->running[i];
        if (run->n_rows == 0)
            continue;
        run->status = status;
        if (status == OK && has_shed && scheduler_rows_asked(run) == 0) {
            take_back(s, run);
        } else if (status == OK) {
            append_commit(run->request->sequence, ids + run->row_first, run->n_rows);
            count_rows(s, run);
        } else {
            append_abort(run->request->sequence);
        }
    }
}
