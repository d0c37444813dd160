/* scheduler.c: the scheduler's life, its two lists, and ends.
 *
 * HOW     Waiting requests are a list in order of age, preempted ones before younger ones; running
 *         ones an array, oldest first. The step is the pass's (pass.c).
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

static enum status take_arrays(struct scheduler *s)
{
    s->running = mem_zalloc(s->limits.running_max, sizeof *s->running);
    s->stop_ids = mem_zalloc(s->limits.n_stop_ids, sizeof *s->stop_ids);
    if (s->running == NULL || s->stop_ids == NULL)
        return STATUS_NO_MEMORY;
    if (s->limits.n_stop_ids > 0)
        memcpy(s->stop_ids, s->limits.stop_ids, s->limits.n_stop_ids * sizeof *s->stop_ids);
    s->limits.stop_ids = s->stop_ids;
    return OK;
}

enum status scheduler_new(const struct model *model, struct cache *cache,
                          const struct scheduler_limits *limits, scheduler_news_fn *on_news,
                          void *user, struct scheduler **ret_scheduler)
{
    ASSERT(limits->running_max > 0);
    *ret_scheduler = NULL;
    struct scheduler *s = mem_zalloc(1, sizeof *s);
    if (s == NULL)
        return STATUS_NO_MEMORY;
    s->model = model;
    s->cache = cache;
    s->limits = *limits;
    s->on_news = on_news;
    s->user = user;
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
    ASSERT(s->decoder == NULL);
    scheduler_cancel_all(s);
    mem_free(s->running);
    mem_free(s->stop_ids);
    mem_free(s);
    *scheduler = NULL;
}

void scheduler_enter(struct scheduler *s, struct decoder *decoder, uint32_t pool)
{
    ASSERT(s->decoder == NULL);
    s->decoder = decoder;
    s->pool = pool;
}

void scheduler_leave(struct scheduler *s)
{
    s->decoder = NULL;
}

void scheduler_set_lag(struct scheduler *s, uint64_t lag_ns)
{
    s->lag_ns = lag_ns;
}

uint32_t scheduler_active(const struct scheduler *s)
{
    return s->n_running + (uint32_t)s->stats.requests_waiting;
}

uint32_t scheduler_running_max(const struct scheduler *s)
{
    return s->limits.running_max;
}

const struct model *scheduler_model(const struct scheduler *s)
{
    return s->model;
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
    request->own_submitted_ns = now_ns - s->lag_ns;
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

/* One of those there are, out of its list; NULL: there is none. */
static struct request *take_any(struct scheduler *s)
{
    struct request *r = s->waiting_head;
    if (r != NULL) {
        remove_waiting(s, NULL, r);
    } else if (s->n_running > 0) {
        r = s->running[s->n_running - 1].request;
        scheduler_remove_running(s, s->n_running - 1);
    }
    return r;
}

void scheduler_cancel_all(struct scheduler *s)
{
    for (struct request *r; (r = take_any(s)) != NULL;)
        scheduler_end(s, r, FINISH_CANCELLED, OK);
}

void scheduler_fail_all(struct scheduler *s, enum status error, enum status silent_error)
{
    for (struct request *r; (r = take_any(s)) != NULL;)
        scheduler_end(s, r, FINISH_ERROR, request_n_outputs(r) > 0 ? error : silent_error);
}

void scheduler_fail_waiting(struct scheduler *s, enum status error)
{
    struct request *before = NULL;
    for (struct request *r = s->waiting_head, *next; r != NULL; r = next) {
        next = r->next;
        if (r->times.started_ns == 0) {
            remove_waiting(s, before, r);
            scheduler_end(s, r, FINISH_ERROR, error);
        } else {
            before = r;
        }
    }
}

void scheduler_begin(struct scheduler *s, uint64_t now_ns)
{
    s->now_ns = now_ns;
    end_asked(s);
    scheduler_admit(s);
}
