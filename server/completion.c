/* completion.c: a completion's life between its connection and its request.
 *
 * WHY     Client, worker and engine end at different times; the completion outlives whichever ends first.
 * HOW
 *      completion_answer --small body--> prepared --completion_submit--> with the engine --done, answered--> freed
 *              '--- large: uv_queue_work ---^            '--refused: answered, freed          '--client left: cancelled, done, freed
 *
 * ALWAYS  (1) A client that leaves is told to the engine at once.                            on_leave
 *         (2) A request that the engine has is freed only after it is done.                  free_if_over
 *         (3) A completion is freed by free_if_over alone, and never while it is busy.
 * THREAD  loop, but for prepare_on_worker
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion.h"

#include <inttypes.h>

#include "config/mem.h"
#include "server/completion_priv.h"
#include "server/log.h"
#include "server/response.h"
#include "server/sse.h"

enum {
    INLINE_BODY_MAX = 16384
}; /* bodies up to this are parsed on the loop: about a millisecond */

static void unlink_completion(struct completion *k)
{
    if (k->previous != NULL)
        k->previous->next = k->next;
    else
        k->service->completions = k->next;
    if (k->next != NULL)
        k->next->previous = k->previous;
}

/* Frees it if nobody has it any more: no client, no worker, no engine. */
static void free_if_over(struct completion *k)
{
    bool is_with_engine = k->is_submitted && !request_is_done(k->request);
    if (k->is_busy || k->connection != NULL || is_with_engine)
        return;
    unlink_completion(k);
    completion_end_choice(k);
    request_free(&k->request);
    stop_match_free(&k->stops);
    token_scores_free(&k->scores);
    completion_request_free(&k->asked);
    token_ids_release(&k->ids);
    byte_buffer_release(&k->body);
    byte_buffer_release(&k->raw);
    byte_buffer_release(&k->text);
    k->magic = 0;
    mem_free(k);
}

/* A worker that has not begun need not begin. */
static void cancel(struct completion *k)
{
    if (k->is_busy && !k->is_submitted)
        (void)uv_cancel((uv_req_t *)&k->work);
    if (k->is_submitted && !request_is_done(k->request))
        engine_cancel(k->service->port, k->request, false);
}

static void on_leave(void *user)
{
    struct completion *k = user;
    ASSERT(k->magic == COMPLETION_MAGIC);
    k->connection = NULL;
    k->service->stats->completions[OUTCOME_CANCELLED]++;
    log_event(LOG_LEVEL_INFO, "left", "%s: the client left", k->id);
    cancel(k);
    free_if_over(k);
}

void completion_fail(struct completion *k, enum status status, const struct why *why)
{
    struct connection *c = k->connection;
    k->connection = NULL;
    cancel(k);
    k->service->stats->completions[!k->is_submitted  ? OUTCOME_REFUSED
                                   : k->is_shut_down ? OUTCOME_CANCELLED
                                                     : OUTCOME_ERROR]++;
    log_event(k->is_submitted ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
              k->is_submitted ? "failed" : "refused", "%s: %s", k->id, status_code(status));
    if (k->is_begun)
        sse_error(c, status, why);
    else
        response_error(c, status, why);
}

static void pump(struct completion *k)
{
    k->is_busy = true;
    if (completion_pump(k))
        k->connection = NULL;
    k->is_busy = false;
    free_if_over(k);
}

static void on_room(void *user)
{
    struct completion *k = user;
    ASSERT(k->magic == COMPLETION_MAGIC);
    pump(k);
}

void completion_on_ready(struct request *request)
{
    struct completion *k = request_user(request);
    ASSERT(k->magic == COMPLETION_MAGIC && k->request == request);
    pump(k);
}

/* Prepared: to the engine, or back to the client with the reason. */
static void go_on(struct completion *k)
{
    if (k->connection != NULL && k->status == OK)
        k->status = completion_submit(k);
    if (k->connection != NULL && k->status != OK)
        completion_fail(k, k->status, &k->why);
    free_if_over(k);
}

static void prepare_on_worker(uv_work_t *work)
{
    completion_prepare(work->data);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct completion *k = work->data;
    ASSERT(k->magic == COMPLETION_MAGIC);
    if (status != 0)
        k->status = STATUS_UNAVAILABLE;
    k->is_busy = false;
    go_on(k);
}

static struct completion *completion_new(struct connection *c)
{
    struct service *service = connection_service(c);
    struct completion *k = mem_zalloc(1, sizeof *k);
    if (k == NULL)
        return NULL;
    k->magic = COMPLETION_MAGIC;
    k->service = service;
    k->connection = c;
    k->created_s = (int64_t)time(NULL);
    k->arrived_ns = connection_request_ns(c);
    k->context = lane_context(service->lane);
    k->work.data = k;
    snprintf(k->id, sizeof k->id, "cmpl-%s", connection_request_id(c));
    byte_buffer_init(&k->raw, COMPLETION_TEXT_MAX);
    byte_buffer_init(&k->text, COMPLETION_TEXT_MAX);
    connection_take_body(c, &k->body);
    k->next = service->completions;
    if (k->next != NULL)
        k->next->previous = k;
    service->completions = k;
    return k;
}

void completion_answer(struct connection *c)
{
    struct completion *k = completion_new(c);
    if (k == NULL) {
        response_error(c, STATUS_NO_MEMORY, NULL);
        return;
    }
    connection_hold(
        c, (struct connection_holder){.user = k, .on_leave = on_leave, .on_room = on_room});
    if (k->body.len <= INLINE_BODY_MAX) {
        completion_prepare(k);
        go_on(k);
        return;
    }
    k->is_busy = true;
    if (uv_queue_work(k->service->uv, &k->work, prepare_on_worker, on_prepared) != 0) {
        k->is_busy = false;
        k->status = STATUS_UNAVAILABLE;
        go_on(k);
    }
}

void completion_cancel_all(struct service *service)
{
    for (struct completion *k = service->completions; k != NULL; k = k->next) {
        k->is_shut_down = true;
        cancel(k);
    }
}
