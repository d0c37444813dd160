/* decoder_asked.c: which rows the last layer, and the rest of a step that is late, is worked through for.
 *
 * WHY     Of a prompt's rows only the last one's logits are asked for, most often; what the others
 *         leave behind is their K and V, so a layer's worth of work can be left out.
 * HOW     Rows are independent of each other, so leaving some out changes no bit of the rest. The
 *         rows that go on form a few runs, each a stretch of a product's rows; the last layer's
 *         attention has a schedule of its own for them. A step that was held up while streams wait for it may drop the
 *         rows of prompts from any layer on, in the same way: they are computed again in a later step.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

/* Joins the rows that are asked for into runs; false if those are all rows, or too many runs, each
 * of which reads the last layer's weights again. */
static bool find_asked(const struct decoder *d, struct row_set *ret_asked)
{
    const struct decoder_batch *b = d->batch;
    uint32_t n_rows = 0;
    *ret_asked = (struct row_set){0};
    if (b->n_asked == NULL || b->n_rows == 1)
        return false;
    for (uint32_t i = 0; i < b->n_sequences; i++) {
        const struct attention_sequence *s = &b->sequences[i];
        uint32_t end = s->row_first + s->n_rows, first = end - b->n_asked[i];
        ASSERT(b->n_asked[i] <= s->n_rows);
        n_rows += end - first;
        if (first == end)
            continue;
        struct span *last = &ret_asked->runs[ret_asked->n_runs - (ret_asked->n_runs > 0)];
        if (ret_asked->n_runs > 0 && last->end == first) {
            last->end = end;
            continue;
        }
        if (ret_asked->n_runs == ROW_RUNS_MAX)
            return false;
        ret_asked->runs[ret_asked->n_runs++] = (struct span){first, end};
    }
    return n_rows < b->n_rows;
}

/* A layer's attention over pools of the plan's type, for the last rows of each sequence. */
static void schedule_asked(struct decoder *d, const struct layer_plan *plan)
{
    const struct decoder_batch *b = d->batch;
    const struct attention_sequence *from = b->sequences + (size_t)plan->group * b->n_sequences;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_sequences; i++) {
        uint32_t skipped = from[i].n_rows - b->n_asked[i];
        if (b->n_asked[i] == 0 || decoder_pool_type(d, from[i].pool) != plan->type)
            continue;
        d->typed_sequences[n] = from[i];
        d->typed_sequences[n].first_position += skipped;
        d->typed_sequences[n].row_first += skipped;
        d->typed_sequences[n++].n_rows -= skipped;
    }
    attention_schedule(plan->asked, d->typed_sequences, n);
}

/* Rows of a sequence without its others give nothing: their K and V are missing. */
static bool may_shed(const struct decoder *d)
{
    const struct decoder_batch *b = d->batch;
    if (b->is_late == NULL || d->is_asked_for_all || d->asked.n_runs == 0)
        return false;
    for (uint32_t i = 0; i < b->n_sequences; i++)
        if (b->n_asked[i] > 0 && b->n_asked[i] < b->sequences[i].n_rows)
            return false;
    return true;
}

void decoder_ask(struct decoder *d)
{
    d->is_asked_for_all = !find_asked(d, &d->asked);
    if (d->is_asked_for_all)
        d->asked = d->all;
    d->may_shed = may_shed(d);
    const struct decoder_layer *last = &d->layers[d->model->graph->n_layers - 1];
    for (uint32_t type = 0; !d->is_asked_for_all && type < KV_TYPE_COUNT; type++)
        if ((d->types_used >> type & 1) != 0)
            schedule_asked(d, last->plans[type]);
}

void decoder_consider_shedding(struct decoder *d, uint32_t n_done)
{
    if (!d->may_shed || d->has_shed || n_done == d->model->graph->n_layers)
        return;
    if (!d->batch->is_late(d->batch->late_user, n_done))
        return;
    d->has_shed = true;
    for (uint32_t i = 0; i < d->n_plans; i++)
        if ((d->types_used >> d->plans[i].type & 1) != 0)
            schedule_asked(d, &d->plans[i]);
}

bool decoder_is_asked(const struct decoder *d, uint32_t row)
{
    for (uint32_t i = 0; i < d->asked.n_runs; i++)
        if (row >= d->asked.runs[i].first && row < d->asked.runs[i].end)
            return true;
    return false;
}

bool decoder_has_shed(const struct decoder *d)
{
    return d->has_shed;
}
