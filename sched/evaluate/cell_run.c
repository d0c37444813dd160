/* cell_run.c: one cell of the matrix, on both sides at once.
 *
 * HOW     First each side computes the prefix that the cell's requests share, unmeasured. Then the side
 *         requests go in; once each has its first token, probes come one after another; a side request that
 *         ends meanwhile is followed by another, so that the load stays. After the last probe the side
 *         requests are stopped.
 * ALWAYS  (1) A cell fails by itself if a request in it failed, was refused for its size or preempted, or
 *         if less than its active requests ever ran at once.                        cell_run
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_run.h"

#include <inttypes.h>
#include <stdarg.h>

#include "config/mem.h"
#include "sched/lane.h"

/* How often a cell is run, with ever longer answers, until all its requests are there at once. */
enum { ATTEMPTS = 4 };

/* When a request began or ceased to run. */
struct edge {
    uint64_t at_ns;
    int32_t step;
};

struct cell_side {
    enum side side;
    struct flight *flights; /* [n_side + 1]: the last is the probe */
    uint32_t n_probes_done, serial;
    struct edge *edges; /* two a request that ended */
    uint32_t n_edges, edges_room;
    uint64_t preemptions;
    bool is_over;
};

struct cell {
    struct evaluation_run *run;
    uint32_t index, repetition;
    bool is_measured;
    struct cell_shape shape;
    struct cell_side sides[SIDE_COUNT];
};

static void PRINTF_LIKE(2, 3) fail(struct cell *cell, const char *format, ...)
{
    struct evaluation_run *run = cell->run;
    struct cell_failure failure = {.cell = cell->index};
    va_list args;
    if (run->has_failed[cell->index])
        return; /* what came first brought on the rest */
    va_start(args, format);
    vsnprintf(failure.why, sizeof failure.why, format, args);
    va_end(args);
    run->has_failed[cell->index] = true;
    snprintf(run->progress.cell_why, sizeof run->progress.cell_why, "%s", failure.why);
    if (run->result.n_failures < CELL_FAILURES_MAX)
        run->result.failures[run->result.n_failures++] = failure;
}

/* True if the request did not go in because of what it asks: the cell is beyond the lane. */
static bool is_beyond(enum status s)
{
    return s == STATUS_CONTEXT_LENGTH || s == STATUS_CACHE_TOO_SMALL;
}

static enum status submit(struct cell *cell, struct cell_side *side, struct flight *flight,
                          uint32_t n_prefix, uint32_t n_query, uint32_t n_answer,
                          struct why *ret_why)
{
    uint32_t n = n_prefix + n_query;
    struct cell_request request = {cell->repetition, cell->index, side->serial++};
    struct flight_terms terms = {.n_ids = n, .max_tokens = n_answer};
    struct why why = {0};
    terms.ids = mem_alloc(n * sizeof *terms.ids);
    if (terms.ids == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "",
                       "no memory for a request of %" PRIu32 " tokens", n);
    evaluation_plan_tokens(cell->run->plan, request, n_prefix, n_query, terms.ids);
    enum status s = evaluation_run_submit(cell->run, side->side, &terms, flight, &why);
    mem_free(terms.ids);
    if (is_beyond(s)) {
        fail(cell, "%s", why.text);
        return OK;
    }
    if (s != OK)
        return why_set(ret_why, s, why.field, "%s", why.text);
    return OK;
}

/* ---- what ran at once ---- */

static enum status add_edges(struct cell_side *side, const struct flight *flight,
                             struct why *ret_why)
{
    if (side->n_edges + 2 > side->edges_room) {
        uint32_t room = side->edges_room * 2 + 64;
        struct edge *edges = mem_realloc(side->edges, room * sizeof *edges);
        if (edges == NULL)
            return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a cell's requests");
        side->edges = edges;
        side->edges_room = room;
    }
    if (flight->n_generated == 0)
        return OK;
    side->edges[side->n_edges++] = (struct edge){flight->times.started_ns, 1};
    side->edges[side->n_edges++] = (struct edge){flight->times.last_output_ns, -1};
    return OK;
}

/* Ends before beginnings of the same moment. */
static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->step - y->step;
}

static uint32_t most_at_once(const struct cell_side *side)
{
    int32_t n = 0, most = 0;
    if (side->n_edges > 0)
        qsort(side->edges, side->n_edges, sizeof *side->edges, compare_edges);
    for (uint32_t i = 0; i < side->n_edges; i++) {
        n += side->edges[i].step;
        most = n > most ? n : most;
    }
    return (uint32_t)most;
}

static uint64_t preemptions(const struct cell *cell, enum side side)
{
    struct engine_stats stats;
    lane_stats_copy(cell->run->lanes[side], &stats);
    return stats.preemptions;
}

/* ---- one side's course ---- */

/* A done flight's result; nothing if it is not. */
static enum status take(struct cell *cell, struct cell_side *side, struct flight *flight,
                        bool *ret_was_done, struct why *ret_why)
{
    *ret_was_done = flight->is_done;
    if (!flight->is_done)
        return OK;
    TRY(evaluation_run_note(cell->run, side->side, flight, cell->is_measured, ret_why));
    TRY(add_edges(side, flight, ret_why));
    if (flight->reason == FINISH_ERROR)
        fail(cell, "a request of the %s failed: %s",
             side->side == SIDE_CANDIDATE ? "candidate" : "baseline", status_text(flight->error));
    *flight = (struct flight){0};
    return OK;
}

static bool is_probing(const struct cell *cell, const struct cell_side *side)
{
    return side->n_probes_done < cell->shape.n_probes;
}

/* Takes those that are done, and sends others in their place while probes are to come. ret_are_in: each
 * has its first token. */
static enum status turn_sides(struct cell *cell, struct cell_side *side, bool *ret_are_in,
                              uint32_t *ret_n_flying, struct why *ret_why)
{
    const struct cell_shape *shape = &cell->shape;
    *ret_are_in = true;
    *ret_n_flying = 0;
    for (uint32_t i = 0; i < shape->n_side; i++) {
        struct flight *flight = &side->flights[i];
        bool was_done = false;
        TRY(take(cell, side, flight, &was_done, ret_why));
        if (was_done && is_probing(cell, side) && !cell->run->has_failed[cell->index])
            TRY(submit(cell, side, flight, shape->side_prefix, 1, shape->side_answer, ret_why));
        *ret_are_in &= flight->n_generated > 0;
        *ret_n_flying += flight->request != NULL;
    }
    return OK;
}

static enum status turn(struct cell *cell, struct cell_side *side, struct why *ret_why)
{
    const struct cell_shape *shape = &cell->shape;
    struct flight *probe = &side->flights[shape->n_side];
    bool are_in, was_done = false;
    uint32_t n_flying;
    TRY(turn_sides(cell, side, &are_in, &n_flying, ret_why));
    TRY(take(cell, side, probe, &was_done, ret_why));
    side->n_probes_done += was_done;
    if (is_probing(cell, side)) {
        if (probe->request == NULL && (are_in || was_done))
            TRY(submit(cell, side, probe, shape->probe_prefix, shape->query, shape->probe_answer,
                       ret_why));
        return OK;
    }
    for (uint32_t i = 0; was_done && i < shape->n_side; i++)
        flights_end(cell->run->flights, &side->flights[i], true);
    side->is_over = n_flying == 0;
    return OK;
}

/* ---- the cell ---- */

/* Computes the longest prefix on both sides; later ones are parts of it. */
static enum status prime(struct cell *cell, struct why *ret_why)
{
    const struct cell_shape *shape = &cell->shape;
    uint32_t n =
        shape->side_prefix > shape->probe_prefix ? shape->side_prefix : shape->probe_prefix;
    n = n > 0 ? n : 1;
    for (int i = 0; i < SIDE_COUNT; i++) {
        TRY(submit(cell, &cell->sides[i], cell->sides[i].flights, n, 0, 1, ret_why));
        cell->sides[i].serial = 0;
    }
    for (int i = 0; i < SIDE_COUNT && !cell->run->has_failed[cell->index]; i++) {
        struct flight *flight = cell->sides[i].flights;
        while (!flight->is_done)
            TRY(evaluation_run_wait(cell->run, ret_why));
        if (flight->reason == FINISH_ERROR)
            fail(cell, "the context could not be computed: %s", status_text(flight->error));
        *flight = (struct flight){0};
    }
    return OK;
}

static enum status course(struct cell *cell, struct why *ret_why)
{
    const struct cell_shape *shape = &cell->shape;
    const bool *has_failed = &cell->run->has_failed[cell->index];
    TRY(prime(cell, ret_why));
    for (uint32_t i = 0; i < shape->n_side; i++)
        for (int s = 0; s < SIDE_COUNT && !*has_failed; s++)
            TRY(submit(cell, &cell->sides[s], &cell->sides[s].flights[i], shape->side_prefix, 1,
                       shape->side_answer, ret_why));
    while (!*has_failed) {
        for (int s = 0; s < SIDE_COUNT; s++)
            TRY(turn(cell, &cell->sides[s], ret_why));
        if (cell->sides[SIDE_BASELINE].is_over && cell->sides[SIDE_CANDIDATE].is_over)
            break;
        TRY(evaluation_run_wait(cell->run, ret_why));
    }
    return OK;
}

/* True if all ran at once, and in the pages that there are. */
static bool check_load(struct cell *cell, bool is_last)
{
    struct cell_side *side = &cell->sides[SIDE_CANDIDATE];
    struct evaluation_cell of = evaluation_matrix_cell(&cell->run->plan->matrix, cell->index);
    uint64_t n_preempted = preemptions(cell, SIDE_CANDIDATE) - side->preemptions;
    uint32_t most = most_at_once(side);
    if (n_preempted > 0)
        fail(cell, "%" PRIu64 " requests were preempted: the page pool does not hold this cell",
             n_preempted);
    else if (most < of.active_requests && is_last)
        fail(cell, "%" PRIu32 " of %" PRIu32 " requests ran at once", most, of.active_requests);
    return n_preempted == 0 && most >= of.active_requests;
}

static bool make_sides(struct cell *cell)
{
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct cell_side *side = &cell->sides[i];
        side->side = (enum side)i;
        side->preemptions = preemptions(cell, side->side);
        side->flights = mem_zalloc((size_t)cell->shape.n_side + 1, sizeof *side->flights);
        if (side->flights == NULL)
            return false;
    }
    return true;
}

static void release_sides(struct cell *cell)
{
    for (int i = 0; i < SIDE_COUNT; i++) {
        if (cell->sides[i].flights != NULL)
            evaluation_run_land(cell->run, cell->sides[i].flights, cell->shape.n_side + 1);
        mem_free(cell->sides[i].flights);
        mem_free(cell->sides[i].edges);
    }
    memset(cell->sides, 0, sizeof cell->sides);
}

enum status cell_run(struct evaluation_run *run, uint32_t index, uint32_t repetition,
                     bool is_measured, struct why *ret_why)
{
    struct cell cell = {
        .run = run, .index = index, .repetition = repetition, .is_measured = is_measured};
    struct evaluation_cell of = evaluation_matrix_cell(&run->plan->matrix, index);
    bool is_loaded = false;
    cell.shape = cell_shape_of(of);
    if (!is_measured && cell.shape.n_probes > 1)
        cell.shape.n_probes = 1;
    if (!cell.shape.fits)
        fail(&cell, "query and answer do not fit in the context");
    for (int i = 0; i < ATTEMPTS && !is_loaded && !run->has_failed[index]; i++) {
        enum status s = make_sides(&cell) ? course(&cell, ret_why)
                                          : why_set(ret_why, STATUS_NO_MEMORY, "",
                                                    "no memory for a cell's requests");
        if (s == OK && !run->has_failed[index])
            is_loaded = check_load(&cell, i + 1 == ATTEMPTS);
        release_sides(&cell);
        TRY(s);
        cell_shape_stretch(&cell.shape, of);
    }
    return OK;
}
