/* scheduler.c: the scheduler's life, its two lists, and the step as a list of its phases.
 *
 * HOW     Waiting requests are a list in order of age, preempted ones before younger ones; running
 *         ones an array, oldest first. A step:
 *             end what was cancelled -> admit -> plan rows -> decoder -> commit     scheduler_step
 *             logits -> sample and score -> push -> ends
 *             scheduler_deliver (scheduler_emit.c)
 * ALWAYS  (1) A request is in exactly one of the lists from scheduler_submit to scheduler_end.
 *         (2) Age decides: no request waits for a younger one's pages (scheduler_batch.c), so there
 *         is always progress.
 *         (3) admitted = finished + aborted + failed + running + waiting.
 *         scheduler_end
 * OWNS    Its arrays. Requests belong to it between submit and end.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_priv.h"

#include "config/mem.h"

uint32_t scheduler_rows_max(const struct scheduler_limits *limits)
{
    return limits->prefill_chunk + limits->running_max;
}

static enum status take_arrays(struct scheduler *s)
{
    uint32_t rows = scheduler_rows_max(&s->limits);
    s->running = mem_zalloc(s->limits.running_max, sizeof *s->running);
    s->sequences = mem_zalloc((size_t)s->limits.running_max * cache_groups(s->parts.cache),
                              sizeof *s->sequences);
    s->row_ids = mem_zalloc(rows, sizeof *s->row_ids);
    s->n_asked = mem_zalloc(s->limits.running_max, sizeof *s->n_asked);
    s->wanted = mem_zalloc(rows, sizeof *s->wanted);
    s->logit_rows = mem_zalloc(SCHEDULER_LOGIT_ROWS, sizeof *s->logit_rows);
    s->outputs = mem_zalloc(SCHEDULER_LOGIT_ROWS, sizeof *s->outputs);
    s->output_status = mem_zalloc(SCHEDULER_LOGIT_ROWS, sizeof *s->output_status);
    s->stop_ids = mem_zalloc(s->limits.n_stop_ids, sizeof *s->stop_ids);
    s->samplers = mem_zalloc(s->n_threads, sizeof *s->samplers);
    bool all = s->running && s->sequences && s->row_ids && s->n_asked && s->wanted &&
               s->logit_rows && s->outputs && s->output_status && s->stop_ids && s->samplers;
    if (!all)
        return STATUS_NO_MEMORY;
    for (uint32_t t = 0; t < s->n_threads; t++)
        TRY(sampler_new(s->parts.model->graph->vocab, &s->samplers[t]));
    if (s->limits.n_stop_ids > 0)
        memcpy(s->stop_ids, s->limits.stop_ids, s->limits.n_stop_ids * sizeof *s->stop_ids);
    s->limits.stop_ids = s->stop_ids;
    return OK;
}

/* How many times faster quantised products are than attention in f32, with all that is neither counted to the products: what
 * weighs the two in a row's cost. Too large, and prompts are held back the more the longer they are. */
enum { PRODUCT_SPEED = 3 };

/* The context at which attention costs a row as much as its products do. */
static double doubling_tokens(const struct graph *g)
{
    double products = 0.0, attention_a_token = 0.0;
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        double heads = (double)(l->n_query_heads + l->n_k_heads) * l->d_qk +
                       (double)(l->n_query_heads + l->n_v_heads) * l->d_v;
        products += g->hidden * (heads + 3.0 * g->ffn);
        attention_a_token += (double)l->n_query_heads * (l->d_qk + l->d_v);
    }
    return products / attention_a_token / PRODUCT_SPEED;
}

enum status scheduler_new(const struct scheduler_parts *parts,
                          const struct scheduler_limits *limits, scheduler_news_fn *on_news,
                          void *user, struct scheduler **ret_scheduler)
{
    ASSERT(limits->running_max > 0 && limits->prefill_chunk > 0);
    *ret_scheduler = NULL;
    struct scheduler *s = mem_zalloc(1, sizeof *s);
    if (s == NULL)
        return STATUS_NO_MEMORY;
    s->parts = *parts;
    s->limits = *limits;
    s->on_news = on_news;
    s->user = user;
    s->n_threads = workers_count(parts->workers);
    pace_init(&s->pace, doubling_tokens(parts->model->graph));
    enum status status = take_arrays(s);
    if (status != OK)
        scheduler_free(&s);
    *ret_scheduler = s;
    return status;
}

void scheduler_free(struct scheduler **scheduler)
{
    struct scheduler *s = *scheduler;
    if (s == NULL)
        return;
    scheduler_cancel_all(s);
    for (uint32_t t = 0; s->samplers != NULL && t < s->n_threads; t++)
        sampler_free(&s->samplers[t]);
    void *const arrays[] = {s->running, s->sequences, s->row_ids,  s->wanted,        s->logit_rows,
                            s->outputs, s->stop_ids,  s->samplers, s->output_status, s->n_asked};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        mem_free(arrays[i]);
    mem_free(s);
    *scheduler = NULL;
}

/* ---- the lists ---- */

/* The oldest waiting request, or what runs, has changed: admission is worth a try. */
static void retry_admission(struct scheduler *s)
{
    memset(s->admission_blocks, 0, sizeof s->admission_blocks);
}

void scheduler_count_waiting(struct scheduler *s, const struct request *request, int sign)
{
    s->stats.requests_waiting += (uint64_t)(int64_t)sign;
    s->stats.waiting_tokens += (uint64_t)((int64_t)sign * request->n_ids);
    retry_admission(s);
}

void scheduler_wait(struct scheduler *s, struct request *request, bool is_preempted)
{
    request_set_state(request, REQUEST_WAITING);
    request->next = NULL;
    scheduler_count_waiting(s, request, 1);
    if (is_preempted) { /* the youngest running one is older than every waiting one */
        request->next = s->waiting_head;
        s->waiting_head = request;
    } else if (s->waiting_tail != NULL) {
        s->waiting_tail->next = request;
    } else {
        s->waiting_head = request;
    }
    if (request->next == NULL)
        s->waiting_tail = request;
}

void scheduler_submit(struct scheduler *s, struct request *request, uint64_t now_ns)
{
    request->times.submitted_ns = now_ns;
    s->stats.requests_admitted++;
    s->stats.prompt_tokens += request->n_ids;
    scheduler_wait(s, request, false);
}

void scheduler_remove_running(struct scheduler *s, uint32_t index)
{
    ASSERT(index < s->n_running);
    memmove(&s->running[index], &s->running[index + 1],
            (s->n_running - index - 1) * sizeof *s->running);
    s->n_running--;
    retry_admission(s);
}

/* Takes request, whose predecessor is before (NULL: it is the head), out of the waiting list. */
static void remove_waiting(struct scheduler *s, struct request *before, struct request *request)
{
    if (before != NULL)
        before->next = request->next;
    else
        s->waiting_head = request->next;
    if (s->waiting_tail == request)
        s->waiting_tail = before;
    scheduler_count_waiting(s, request, -1);
}

/* ---- ends ---- */

void scheduler_announce(struct scheduler *s, struct request *request)
{
    if (request_announce(request))
        s->on_news(s->user, request);
}

static uint64_t *outcome_counter(struct scheduler *s, enum finish_reason reason)
{
    switch (reason) {
    case FINISH_STOP:
    case FINISH_LENGTH:
        return &s->stats.requests_finished;
    case FINISH_CANCELLED:
        return &s->stats.requests_aborted;
    case FINISH_ERROR:
        return &s->stats.requests_failed;
    case FINISH_NONE:
        break;
    }
    ASSERT(!"an end has a reason");
    return NULL;
}

/* The request is in no list any more. What it computed stays findable unless its numbers are not to
 * be trusted. */
void scheduler_end(struct scheduler *s, struct request *request, enum finish_reason reason,
                   enum status error)
{
    if (request->sequence != NULL)
        sequence_close(&request->sequence, error != STATUS_NUMERIC);
    if (error == STATUS_NUMERIC)
        s->stats.numeric_errors++;
    ++*outcome_counter(s, reason);
    request->times.done_ns = s->now_ns;
    if (request_finish(request, reason, error))
        s->on_news(s->user, request);
}

/* What the client asked for, as an end. */
static enum finish_reason asked_end(struct request *request)
{
    return request_asked(request) == REQUEST_STOP ? FINISH_STOP : FINISH_CANCELLED;
}

static void end_asked(struct scheduler *s)
{
    for (uint32_t i = s->n_running; i-- > 0;) {
        struct request *r = s->running[i].request;
        if (request_asked(r) != REQUEST_KEEP) {
            scheduler_remove_running(s, i);
            scheduler_end(s, r, asked_end(r), OK);
        }
    }
    struct request *before = NULL;
    for (struct request *r = s->waiting_head, *next; r != NULL; r = next) {
        next = r->next;
        if (request_asked(r) != REQUEST_KEEP) {
            remove_waiting(s, before, r);
            scheduler_end(s, r, asked_end(r), OK);
        } else {
            before = r;
        }
    }
}

void scheduler_cancel_all(struct scheduler *s)
{
    while (s->n_running > 0) {
        struct request *r = s->running[s->n_running - 1].request;
        scheduler_remove_running(s, s->n_running - 1);
        scheduler_end(s, r, FINISH_CANCELLED, OK);
    }
    while (s->waiting_head != NULL) {
        struct request *r = s->waiting_head;
        remove_waiting(s, NULL, r);
        scheduler_end(s, r, FINISH_CANCELLED, OK);
    }
}

/* ---- the step ---- */

bool scheduler_step(struct scheduler *s, uint64_t now_ns)
{
    s->now_ns = now_ns;
    end_asked(s);
    scheduler_admit(s);
    scheduler_plan_rows(s);
    if (s->n_rows == 0)
        return false;
    struct decoder_batch batch = {.n_rows = s->n_rows,
                                  .n_sequences = s->n_sequences,
                                  .ids = s->row_ids,
                                  .sequences = s->sequences,
                                  .n_asked = s->n_asked};
    enum status status = decoder_step(s->parts.decoder, &batch);
    scheduler_commit(s, status == OK);
    for (uint32_t i = 0; i < s->n_running; i++)
        s->running[i].status = status;
    s->stats.steps++;
    s->stats.step_rows += s->n_rows;
    return true;
}

void scheduler_observe(struct scheduler *s, uint64_t elapsed_ns)
{
    pace_observe(&s->pace, s->last_step, elapsed_ns);
}

uint32_t scheduler_active(const struct scheduler *s)
{
    return s->n_running + (uint32_t)s->stats.requests_waiting;
}
