/* evaluation_cells.h: the matrix over which a generation is tested, and whether a request lies inside what was tested.
 *
 * A cell is (context, active requests, query length). A generation serves only inside cells that
 * passed: a request is inside if one passed cell is at least as large in every coordinate. Beyond
 * it is refused by name; nothing is inferred from smaller cells. A value; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_CELLS_H
#define FOLDKV_SCHED_EVALUATION_CELLS_H

#include "config/canonical_json.h"
#include "config/document.h"

enum { MATRIX_AXIS_MAX = 16, EVALUATION_CELLS_MAX = 512 };

struct matrix_axis {
    uint32_t n;
    uint32_t values[MATRIX_AXIS_MAX]; /* rise; at least 1 */
};

/* The cells are the product of the axes: n contexts times n requests times n query lengths. */
struct evaluation_matrix {
    struct matrix_axis contexts, active_requests, query_lengths;
};

struct evaluation_cell {
    uint32_t context, active_requests, query_length;
};

/* BAD_REQUEST names the axis and value that is wrong, or the count of cells if there are too many. */
enum status evaluation_matrix_check(const struct evaluation_matrix *matrix,
                                    struct why *ret_why) MUST_USE;
uint32_t evaluation_matrix_count(const struct evaluation_matrix *matrix);
/* Cell i, query lengths quickest, contexts slowest. */
struct evaluation_cell evaluation_matrix_cell(const struct evaluation_matrix *matrix, uint32_t i);
void evaluation_matrix_write(const struct evaluation_matrix *matrix, const char *key,
                             struct canonical_json *json);
enum status evaluation_matrix_read(const struct document_value *value,
                                   struct evaluation_matrix *ret_matrix,
                                   struct why *ret_why) MUST_USE;

/* The matrix and which of its cells passed. */
struct evaluation_cells {
    struct evaluation_matrix matrix;
    bool has_passed[EVALUATION_CELLS_MAX];
};

/* OK, or what is beyond: CONTEXT_LENGTH for a context that no cell reaches and BAD_REQUEST for a query that is too long at it, which
 * the same request would meet again; UNAVAILABLE if it is only that too many requests are active, for this context or for
 * this query at it. ret_why has the coordinate, its value and the most that was tested. */
enum status evaluation_cells_admit(const struct evaluation_cells *cells,
                                   struct evaluation_cell request, struct why *ret_why) MUST_USE;
/* The largest value of each coordinate at which, the others being least, some cell passed; 0 where
 * none did. */
struct evaluation_cell evaluation_cells_most(const struct evaluation_cells *cells);

#endif
