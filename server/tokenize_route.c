/* tokenize_route.c: a body to tokens or to text, on the loop if it is small, on a worker if it is large.
 *
 * HOW     Both routes are one job: bytes in, JSON or a status out; only the function that works differs.
 * OWNS    The job, from the route's call until its answer is written or its client has left and the worker is through.
 * THREAD  loop; the two work functions any
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize_route.h"

#include "config/mem.h"
#include "server/response.h"
#include "server/tokenize_reply.h"
#include "server/tokenize_request.h"

enum { INLINE_BODY_MAX = 16384, TEXT_MAX = 64 << 20, JOB_MAGIC = 0x746f6b65 };

struct job {
    uint32_t magic;
    struct connection *connection; /* NULL once the client has left */
    const struct service *service;
    uint32_t context; /* a worker may outlast the engine */
    enum status (*work)(struct job *job);
    uv_work_t uv_work;
    struct byte_buffer body;
    char *json;
    size_t len;
    enum status status;
    struct why why;
};

static struct slice body_of(const struct job *job)
{
    return (struct slice){job->body.bytes != NULL ? job->body.bytes : "", job->body.len};
}

static enum status tokenize(struct job *job)
{
    struct tokenize_request *asked = NULL;
    struct token_ids ids;
    token_ids_init(&ids, job->body.max); /* a token is at least a byte, so a body bounds them */
    enum status s = tokenize_request_parse(body_of(job), &asked, &job->why);
    if (s == OK)
        s = service_check_model(job->service, asked->model, &job->why);
    if (s == OK)
        s = tokenizer_encode(job->service->tokenizer, asked->prompt, asked->mode, &ids, &job->why);
    if (s == OK)
        s = tokenize_reply(ids.ids, ids.count, job->context, &job->json, &job->len);
    token_ids_release(&ids);
    tokenize_request_free(&asked);
    return s;
}

static enum status detokenize(struct job *job)
{
    struct detokenize_request *asked = NULL;
    struct byte_buffer text;
    byte_buffer_init(&text, TEXT_MAX);
    enum status s = detokenize_request_parse(body_of(job), &asked, &job->why);
    if (s == OK)
        s = service_check_model(job->service, asked->model, &job->why);
    if (s == OK)
        s = tokenizer_decode(job->service->tokenizer, asked->tokens, asked->n_tokens, &text,
                             &job->why);
    if (s == OK)
        s = detokenize_reply((struct slice){text.bytes != NULL ? text.bytes : "", text.len},
                             &job->json, &job->len);
    byte_buffer_release(&text);
    detokenize_request_free(&asked);
    return s;
}

static void job_free(struct job *job)
{
    byte_buffer_release(&job->body);
    mem_free(job->json);
    job->magic = 0;
    mem_free(job);
}

static void finish(struct job *job)
{
    if (job->connection != NULL && job->status == OK)
        response_json(job->connection, job->json, job->len);
    else if (job->connection != NULL)
        response_error(job->connection, job->status, &job->why);
    job_free(job);
}

static void on_leave(void *user)
{
    struct job *job = user;
    ASSERT(job->magic == JOB_MAGIC);
    job->connection = NULL;
    (void)uv_cancel((uv_req_t *)&job->uv_work); /* begun or not, on_worked comes and frees */
}

static void work_on_worker(uv_work_t *work)
{
    struct job *job = work->data;
    job->status = job->work(job);
}

static void on_worked(uv_work_t *work, int status)
{
    struct job *job = work->data;
    ASSERT(job->magic == JOB_MAGIC);
    if (status != 0)
        job->status = STATUS_UNAVAILABLE;
    finish(job);
}

static void answer(struct connection *c, enum status (*work)(struct job *job))
{
    struct job *job = mem_zalloc(1, sizeof *job);
    if (job == NULL) {
        response_error(c, STATUS_NO_MEMORY, NULL);
        return;
    }
    *job = (struct job){
        .magic = JOB_MAGIC, .connection = c, .service = connection_service(c), .work = work};
    job->context = lane_context(job->service->lane);
    job->uv_work.data = job;
    connection_take_body(c, &job->body);
    if (job->body.len <= INLINE_BODY_MAX) {
        job->status = work(job);
        finish(job);
        return;
    }
    connection_hold(c, (struct connection_holder){.user = job, .on_leave = on_leave});
    if (uv_queue_work(job->service->uv, &job->uv_work, work_on_worker, on_worked) != 0) {
        job->status = STATUS_UNAVAILABLE;
        finish(job);
    }
}

void tokenize_answer(struct connection *c)
{
    answer(c, tokenize);
}

void detokenize_answer(struct connection *c)
{
    answer(c, detokenize);
}
