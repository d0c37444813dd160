/* evaluation_cells.c: axes, their product, and the check at admission.
 *
 * WHY     A result holds for what was run. "It worked at 4 Ki" says nothing about 32 Ki.
 * HOW     Cells are few (at most 512), so admission looks at each that passed, twice: for the request as it comes, and for
 *         the same one alone, which tells what can never be from what only cannot be now.
 * ALWAYS  (1) With no passed cell nothing is admitted.                  evaluation_cells_admit
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_cells.h"

#include <inttypes.h>

enum { CONTEXT_MOST = 1 << 24, ACTIVE_MOST = 1 << 16, QUERY_MOST = 1 << 24 };

/* Keys rise, as canonical JSON has them. */
static const struct axis_row {
    const char *key;
    size_t offset;
    uint32_t most;
} axis_rows[] = {
    {"active_requests", offsetof(struct evaluation_matrix, active_requests), ACTIVE_MOST},
    {"contexts", offsetof(struct evaluation_matrix, contexts), CONTEXT_MOST},
    {"query_lengths", offsetof(struct evaluation_matrix, query_lengths), QUERY_MOST},
};

static const struct matrix_axis *axis_of(const struct evaluation_matrix *matrix, size_t i)
{
    return (const struct matrix_axis *)((const char *)matrix + axis_rows[i].offset);
}

static enum status check_axis(const struct matrix_axis *axis, const struct axis_row *row,
                              struct why *ret_why)
{
    char field[64];
    snprintf(field, sizeof field, "matrix.%s", row->key);
    if (axis->n < 1 || axis->n > MATRIX_AXIS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, field,
                       "%s has %" PRIu32 " values: 1 to %d are needed", field, axis->n,
                       MATRIX_AXIS_MAX);
    for (uint32_t i = 0; i < axis->n; i++) {
        uint32_t least = i == 0 ? 1 : axis->values[i - 1] + 1;
        snprintf(field, sizeof field, "matrix.%s[%" PRIu32 "]", row->key, i);
        if (axis->values[i] < least || axis->values[i] > row->most)
            return why_set(ret_why, STATUS_BAD_REQUEST, field,
                           "%s is %" PRIu32 ": values rise, from %" PRIu32 " to %" PRIu32, field,
                           axis->values[i], least, row->most);
    }
    return OK;
}

uint32_t evaluation_matrix_count(const struct evaluation_matrix *matrix)
{
    return matrix->contexts.n * matrix->active_requests.n * matrix->query_lengths.n;
}

enum status evaluation_matrix_check(const struct evaluation_matrix *matrix, struct why *ret_why)
{
    for (size_t i = 0; i < ARRAY_LEN(axis_rows); i++)
        TRY(check_axis(axis_of(matrix, i), &axis_rows[i], ret_why));
    if (evaluation_matrix_count(matrix) > EVALUATION_CELLS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "matrix",
                       "the axes make %" PRIu32 " cells: at most %d are run",
                       evaluation_matrix_count(matrix), EVALUATION_CELLS_MAX);
    return OK;
}

struct evaluation_cell evaluation_matrix_cell(const struct evaluation_matrix *matrix, uint32_t i)
{
    ASSERT(i < evaluation_matrix_count(matrix));
    uint32_t n_queries = matrix->query_lengths.n, n_active = matrix->active_requests.n;
    return (struct evaluation_cell){.query_length = matrix->query_lengths.values[i % n_queries],
                                    .active_requests =
                                        matrix->active_requests.values[i / n_queries % n_active],
                                    .context = matrix->contexts.values[i / n_queries / n_active]};
}

void evaluation_matrix_write(const struct evaluation_matrix *matrix, const char *key,
                             struct canonical_json *json)
{
    canonical_open_object(json, key);
    for (size_t i = 0; i < ARRAY_LEN(axis_rows); i++) {
        const struct matrix_axis *axis = axis_of(matrix, i);
        canonical_open_array(json, axis_rows[i].key);
        for (uint32_t v = 0; v < axis->n; v++)
            canonical_integer(json, NULL, axis->values[v]);
        canonical_close_array(json);
    }
    canonical_close_object(json);
}

enum status evaluation_matrix_read(const struct document_value *value,
                                   struct evaluation_matrix *ret_matrix, struct why *ret_why)
{
    static const char *const keys[] = {"active_requests", "contexts", "query_lengths"};
    struct evaluation_matrix matrix = {0};
    TRY(document_object(value, "matrix", ret_why));
    TRY(document_known(value, "matrix.", keys, ARRAY_LEN(keys), ret_why));
    for (size_t i = 0; i < ARRAY_LEN(axis_rows); i++) {
        struct matrix_axis *axis = (struct matrix_axis *)((char *)&matrix + axis_rows[i].offset);
        const struct document_value *list = document_find(value, axis_rows[i].key);
        char field[64];
        snprintf(field, sizeof field, "matrix.%s", axis_rows[i].key);
        TRY(document_array(list, field, 1, MATRIX_AXIS_MAX, ret_why));
        axis->n = (uint32_t)document_count(list);
        for (uint32_t v = 0; v < axis->n; v++) {
            uint64_t number;
            snprintf(field, sizeof field, "matrix.%s[%" PRIu32 "]", axis_rows[i].key, v);
            TRY(document_number(document_at(list, v), field, 1, axis_rows[i].most, &number,
                                ret_why));
            axis->values[v] = (uint32_t)number;
        }
    }
    TRY(evaluation_matrix_check(&matrix, ret_why));
    *ret_matrix = matrix;
    return OK;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct evaluation_cell evaluation_cells_most(const struct evaluation_cells *cells)
{
    struct evaluation_cell most = {0};
    for (uint32_t i = 0; i < evaluation_matrix_count(&cells->matrix); i++) {
        struct evaluation_cell cell = evaluation_matrix_cell(&cells->matrix, i);
        if (!cells->has_passed[i])
            continue;
        most.context = larger(most.context, cell.context);
        most.active_requests = larger(most.active_requests, cell.active_requests);
        most.query_length = larger(most.query_length, cell.query_length);
    }
    return most;
}

/* The most of active requests and of query length among passed cells that reach the context (and, for
 * the query, the active requests). */
struct reach {
    uint32_t context, active_requests, query_length;
};

static struct reach reach_of(const struct evaluation_cells *cells, struct evaluation_cell request)
{
    struct reach reach = {0};
    for (uint32_t i = 0; i < evaluation_matrix_count(&cells->matrix); i++) {
        struct evaluation_cell cell = evaluation_matrix_cell(&cells->matrix, i);
        if (!cells->has_passed[i])
            continue;
        reach.context = larger(reach.context, cell.context);
        if (cell.context < request.context)
            continue;
        reach.active_requests = larger(reach.active_requests, cell.active_requests);
        if (cell.active_requests >= request.active_requests)
            reach.query_length = larger(reach.query_length, cell.query_length);
    }
    return reach;
}

enum status evaluation_cells_admit(const struct evaluation_cells *cells,
                                   struct evaluation_cell request, struct why *ret_why)
{
    struct evaluation_cell alone = {request.context, 1, request.query_length};
    struct reach ever = reach_of(cells, alone), now = reach_of(cells, request);
    if (request.context > ever.context || ever.context == 0)
        return why_set(ret_why, STATUS_CONTEXT_LENGTH, "context",
                       "context is %" PRIu32 ": this generation was tested up to %" PRIu32,
                       request.context, ever.context);
    if (request.query_length > ever.query_length)
        return why_set(ret_why, STATUS_BAD_REQUEST, "query_length",
                       "query length is %" PRIu32 ": at a context of %" PRIu32
                       " this generation was tested up to %" PRIu32,
                       request.query_length, request.context, ever.query_length);
    if (request.active_requests > now.active_requests)
        return why_set(ret_why, STATUS_UNAVAILABLE, "active_requests",
                       "active requests are %" PRIu32 ": at a context of %" PRIu32
                       " this generation was tested up to %" PRIu32,
                       request.active_requests, request.context, now.active_requests);
    if (request.query_length > now.query_length)
        return why_set(ret_why, STATUS_UNAVAILABLE, "query_length",
                       "query length is %" PRIu32 ": at a context of %" PRIu32 " and %" PRIu32
                       " active requests this generation was tested up to %" PRIu32,
                       request.query_length, request.context, request.active_requests,
                       now.query_length);
    return OK;
}
