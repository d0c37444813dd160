/* cell_shape.c: the requests of one cell.
 *
 * WHY     A cell promises three things at once: a position deep in a context, so many requests that run,
 *         and a query of so many rows among them. Each must really have happened.
 * HOW     All requests of a cell share one token stream as their prefix, which is computed once and then
 *         found in the cache: the cell measures what its query does at that depth, not how the depth
 *         came about. The longest prefix serves all.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_order.h"

#include "config/mem.h"
#include "sched/philox.h"

/* ANSWER_*: tokens of a probe's answer, and most of a side request's; PROBES_*: fewer say nothing of a tail. */
enum { ANSWER = 16, ANSWER_LEAST = 2, SIDE_ANSWER_MAX = 512, PROBES_LEAST = 4, PROBES_MOST = 16 };

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct cell_shape cell_shape_of(struct evaluation_cell cell)
{
    struct cell_shape shape = {.query = cell.query_length};
    if (cell.context < (uint64_t)cell.query_length + ANSWER_LEAST)
        return shape;
    shape.fits = true;
    bool is_decode = cell.query_length == 1;
    uint32_t side_most = is_decode ? ANSWER : lesser(SIDE_ANSWER_MAX, cell.context / 2);
    shape.n_side = is_decode ? cell.active_requests : cell.active_requests - 1;
    shape.side_answer = lesser(side_most, cell.context - 1);
    shape.side_prefix = cell.context - 1 - shape.side_answer;
    if (is_decode)
        return shape;
    shape.n_probes = lesser(PROBES_MOST, cell.active_requests / 4);
    if (shape.n_probes < PROBES_LEAST)
        shape.n_probes = PROBES_LEAST;
    shape.probe_answer = lesser(ANSWER, cell.context - cell.query_length);
    shape.probe_prefix = cell.context - cell.query_length - shape.probe_answer;
    return shape;
}

uint32_t cell_shape_requests(const struct cell_shape *shape)
{
    return shape->fits ? shape->n_side + shape->n_probes : 0;
}

void cell_shape_stretch(struct cell_shape *shape, struct evaluation_cell cell)
{
    uint32_t most = cell.context / 2;
    if (shape->side_answer >= most)
        return;
    shape->side_answer = lesser(2 * shape->side_answer, most);
    shape->side_prefix = cell.context - 1 - shape->side_answer;
}

/* Token `at` of a stream; {0, 0, 0} is the one that prefixes begin with. */
static uint32_t token_at(const struct evaluation_plan *plan, const uint32_t stream[3], uint32_t at)
{
    struct philox_block block = {{at, stream[0], stream[1], stream[2]}};
    return philox(block, plan->seed).word[0] % plan->vocab;
}

enum status evaluation_plan_stream(struct evaluation_plan *plan)
{
    const uint32_t shared[3] = {0, 0, 0};
    uint32_t n = plan->matrix.contexts.values[plan->matrix.contexts.n - 1];
    plan->stream = mem_alloc(n * sizeof *plan->stream);
    for (uint32_t i = 0; plan->stream != NULL && i < n; i++)
        plan->stream[i] = token_at(plan, shared, i);
    return plan->stream != NULL ? OK : STATUS_NO_MEMORY;
}

void evaluation_plan_tokens(const struct evaluation_plan *plan, struct cell_request request,
                            uint32_t n_prefix, uint32_t n_query, uint32_t *ret_ids)
{
    const uint32_t own[3] = {request.repetition + 1, request.cell, request.serial};
    memcpy(ret_ids, plan->stream, n_prefix * sizeof *ret_ids);
    for (uint32_t i = 0; i < n_query; i++)
        ret_ids[n_prefix + i] = token_at(plan, own, i);
}
