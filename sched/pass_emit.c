/* pass_emit.c: from a step's rows to outputs: logits of the rows that any scheduler wants, sampled
 * and scored on the workers.
 *
 * WHY     Only rows whose next token is asked for need logits, and a vocabulary's worth of them is
 *         large: they are computed PASS_LOGIT_ROWS at a time, of all schedulers together since the
 *         output table is the largest of the weights, and used up at once.
 * HOW     The workers take rows of logits each; what they find is given to the schedulers in order
 *         by the engine thread.
 * THREAD  engine; make_outputs on its workers
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/logprobs.h"
#include "sched/pass_priv.h"

enum status pass_emit_init(struct pass *p)
{
    p->logit_rows = mem_zalloc(PASS_LOGIT_ROWS, sizeof *p->logit_rows);
    p->outputs = mem_zalloc(PASS_LOGIT_ROWS, sizeof *p->outputs);
    p->output_status = mem_zalloc(PASS_LOGIT_ROWS, sizeof *p->output_status);
    p->samplers = mem_zalloc(p->n_threads, sizeof *p->samplers);
    if (p->logit_rows == NULL || p->outputs == NULL || p->output_status == NULL ||
        p->samplers == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t t = 0; t < p->n_threads; t++)
        TRY(sampler_new(p->model->graph->vocab, &p->samplers[t]));
    return OK;
}

void pass_emit_release(struct pass *p)
{
    for (uint32_t t = 0; p->samplers != NULL && t < p->n_threads; t++)
        sampler_free(&p->samplers[t]);
    mem_free(p->samplers);
    mem_free(p->output_status);
    mem_free(p->outputs);
    mem_free(p->logit_rows);
}

struct emit_job {
    struct pass *pass;
    const float *logits;
    const struct wanted_row *wanted;
    uint32_t n;
};

static enum status make_output(struct pass *p, uint32_t tid, const float *logits,
                               const struct wanted_row *w, struct token_output *ret_output)
{
    const struct request *r = scheduler_request(w->scheduler, w->running);
    const struct vector_kernels *vector = &p->kernels->vector;
    ret_output->is_prompt = w->is_prompt;
    ret_output->has_logprob = false;
    ret_output->n_top = 0;
    if (w->is_prompt)
        ret_output->id = r->ids[w->token];
    else
        TRY(sampler_pick(p->samplers[tid], logits, &r->sampling, 0, w->token - r->n_ids, vector,
                         &ret_output->id));
    if (r->logprobs < 0)
        return OK;
    return logprobs_fill(logits, p->model->graph->vocab, (uint32_t)r->logprobs, vector, ret_output);
}

static void make_outputs(void *arg, uint32_t tid)
{
    struct emit_job *job = arg;
    struct pass *p = job->pass;
    uint32_t first, end;
    workers_share(job->n, 1, tid, p->n_threads, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const float *logits = job->logits + (size_t)i * p->model->graph->vocab;
        p->output_status[i] = make_output(p, tid, logits, &job->wanted[i], &p->outputs[i]);
    }
}

static void emit_wanted(struct pass *p)
{
    for (uint32_t at = 0; at < p->wanted.n; at += PASS_LOGIT_ROWS) {
        uint32_t left = p->wanted.n - at;
        struct emit_job job = {.pass = p,
                               .wanted = p->wanted.rows + at,
                               .n = left < PASS_LOGIT_ROWS ? left : PASS_LOGIT_ROWS};
        for (uint32_t i = 0; i < job.n; i++)
            p->logit_rows[i] = job.wanted[i].row;
        job.logits = decoder_logits(p->decoder, p->logit_rows, job.n);
        workers_run(p->workers, make_outputs, &job);
        for (uint32_t i = 0; i < job.n; i++)
            scheduler_take(job.wanted[i].scheduler, &job.wanted[i], &p->outputs[i],
                           p->output_status[i]);
    }
}

void pass_deliver(struct pass *p, uint64_t now_ns)
{
    p->wanted.n = 0;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        scheduler_want(p->schedulers[i], now_ns, &p->wanted);
    emit_wanted(p);
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        scheduler_settle(p->schedulers[i]);
}
