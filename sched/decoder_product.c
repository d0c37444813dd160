/* decoder_product.c: products of the rows of a step, and how workers share what they make.
 *
 * ALWAYS  (1) An output is one worker's, whole.  decoder_product
 * THREAD  engine and its workers, inside workers_run
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

struct span decoder_share(const struct decoder *d, uint32_t n, uint32_t grain, uint32_t tid)
{
    struct span s;
    workers_share(n, grain, tid, workers_count(d->workers), &s.first, &s.end);
    return s;
}

struct span decoder_share_run(const struct decoder *d, const struct span *run, uint32_t tid)
{
    struct span s = decoder_share(d, run->end - run->first, 1, tid);
    return (struct span){run->first + s.first, run->first + s.end};
}

struct span decoder_panel_share(const struct decoder *d, const struct packed_matrix *m,
                                uint32_t tid)
{
    return decoder_share(d, packed_panels(m->n_rows), 2, tid);
}

struct span decoder_panel_columns(const struct packed_matrix *m, struct span panels)
{
    uint32_t first = panels.first * PANEL_ROWS, end = panels.end * PANEL_ROWS;
    return (struct span){first < m->n_rows ? first : m->n_rows, end < m->n_rows ? end : m->n_rows};
}

struct activations decoder_activations(const struct act_rows *act, const float *values)
{
    return (struct activations){.n_columns = act->n_columns,
                                .values = values,
                                .quants = act->quants,
                                .scale = act->scale,
                                .scaled_sum = act->scaled_sum,
                                .sum = act->sum};
}

void decoder_quantise(const struct decoder *d, const struct act_rows *act, const float *x,
                      uint32_t r, uint32_t first, uint32_t end)
{
    size_t column = (size_t)r * act->n_columns + first;
    size_t block = column / ACT_BLOCK;
    d->kernels->quantise(x + column, end - first, act->quants + column, act->scale + block,
                         act->scaled_sum + block, act->sum + block);
}

void decoder_product(const struct decoder *d, const struct packed_matrix *m,
                     const struct activations *x, const struct row_set *rows, struct span panels,
                     float *out)
{
    for (uint32_t i = 0; i < rows->n_runs; i++)
        d->kernels->matmul[m->type](m, x, rows->runs[i].first, rows->runs[i].end, panels.first,
                                    panels.end, out, m->n_rows);
}
