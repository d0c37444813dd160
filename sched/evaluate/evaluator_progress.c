/* evaluator_progress.c: what a person sees of a run. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluator.h"

static const char *stage_name(enum evaluator_stage stage)
{
    static const char *const names[] = {"idle", "quality", "matrix", "warming", "ended"};
    ASSERT(stage < ARRAY_LEN(names));
    return names[stage];
}

static void write_gates(const struct evaluator_progress *progress, struct canonical_json *json)
{
    canonical_open_array(json, "gates");
    for (int i = 0; progress->has_gates && i < GATE_COUNT; i++) {
        canonical_open_object(json, NULL);
        canonical_text(json, "figures", progress->gates[i].text);
        canonical_text(json, "gate", gate_rows[i].key);
        canonical_text(json, "verdict", gate_verdict_name(progress->gates[i].verdict));
        canonical_close_object(json);
    }
    canonical_close_array(json);
}

void evaluator_progress_write(const struct evaluator_progress *progress, const char *key,
                              struct canonical_json *json)
{
    canonical_open_object(json, key);
    canonical_open_object(json, "cell");
    canonical_integer(json, "active_requests", progress->cell.active_requests);
    canonical_integer(json, "context", progress->cell.context);
    canonical_integer(json, "query_length", progress->cell.query_length);
    canonical_close_object(json);
    canonical_integer(json, "cells", progress->n_cells);
    canonical_integer(json, "cells_failed", progress->n_cells_failed);
    canonical_text(json, "cells_failed_why", progress->cell_why);
    write_gates(progress, json);
    canonical_integer(json, "repetition", progress->repetition);
    canonical_integer(json, "repetitions_max", progress->repetitions_max);
    canonical_integer(json, "requests_done", (int64_t)progress->n_done);
    canonical_integer(json, "requests_most", (int64_t)progress->n_most);
    canonical_text(json, "stage", stage_name(progress->stage));
    canonical_close_object(json);
}
