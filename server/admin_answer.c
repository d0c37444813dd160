/* admin_answer.c: one admin request as a call of the release side, and its answer as HTTP.
 *
 * WHY     A client may leave, or repeat itself on another connection, while its call is carried out: the call is not undone by the first
 *         and not done twice by the second.
 * HOW     A job lives from its question to on_done, whatever becomes of its connection. While it lives, another request with its
 *         idempotency key hears that, or that the key was for something else; later ones are the release side's to answer.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_priv.h"

#include <inttypes.h>

#include "config/mem.h"
#include "server/admin_path.h"
#include "server/admin_terms.h"
#include "server/log.h"
#include "server/response.h"

enum { HEADERS_BYTES = 256 };

static void job_free(struct admin_job *job)
{
    ASSERT(job->magic == ADMIN_JOB_MAGIC);
    if (job->previous != NULL)
        job->previous->next = job->next;
    else if (job->admin->first == job)
        job->admin->first = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    record_release(&job->call.body);
    mem_free(job->call.text);
    job->magic = 0;
    mem_free(job);
}

static void job_link(struct admin_job *job)
{
    job->next = job->admin->first;
    if (job->next != NULL)
        job->next->previous = job;
    job->admin->first = job;
}

/* ---- the answer ---- */

/* Where the audit goes on: its numbers have no gaps. */
static size_t print_next(const struct admin_call *call, char *ret_text, size_t room)
{
    int64_t n = 0;
    for (const char *line = call->text; line != NULL && (line = strchr(line, '\n')) != NULL; line++)
        n++;
    if (n < call->limit)
        return 0;
    return (size_t)snprintf(ret_text, room,
                            "Link: </admin/v1/audit?after=%" PRId64 "&limit=%" PRId64
                            ">; rel=\"next\"\r\n",
                            call->after + n, call->limit);
}

static void print_headers(const struct admin_call *call, char ret_text[HEADERS_BYTES])
{
    size_t n = (size_t)snprintf(ret_text, HEADERS_BYTES, "Cache-Control: no-store\r\n");
    if (call->epoch >= 0)
        n += (size_t)snprintf(ret_text + n, HEADERS_BYTES - n, "ETag: \"%" PRId64 "\"\r\n",
                              call->epoch);
    if (call->is_repeat)
        n += (size_t)snprintf(ret_text + n, HEADERS_BYTES - n, "Idempotent-Replayed: true\r\n");
    if (call->op == ADMIN_AUDIT_LIST && call->status == OK)
        n += print_next(call, ret_text + n, HEADERS_BYTES - n);
    ASSERT(n < HEADERS_BYTES);
}

static void reply(struct connection *c, const struct admin_call *call)
{
    static const int codes[] = {[ADMIN_RESULT_OK] = HTTP_STATUS_OK,
                                [ADMIN_RESULT_CREATED] = HTTP_STATUS_CREATED,
                                [ADMIN_RESULT_ACCEPTED] = HTTP_STATUS_ACCEPTED};
    const char *text = call->text != NULL ? call->text : "{}";
    char headers[HEADERS_BYTES];
    print_headers(call, headers);
    if (call->status != OK)
        response_error_detailed(c, call->status, &call->why, headers, call->text);
    else
        response_headed(c, codes[call->result],
                        call->op == ADMIN_AUDIT_LIST ? "application/jsonl" : "application/json",
                        headers, text, strlen(text));
}

static void on_done(void *user, struct admin_call *call)
{
    struct admin_job *job = user;
    struct connection *c = job->connection;
    ASSERT(job->magic == ADMIN_JOB_MAGIC && call == &job->call);
    if (admin_route(call->op)->epoch != ADMIN_EPOCH_NONE)
        log_event(LOG_LEVEL_INFO, "admin", "%s%s%s%s by %s: %s", admin_route(call->op)->key,
                  call->subject[0] != '\0' ? " " : "", call->subject,
                  call->is_dry_run ? " (dry run)" : "", call->who,
                  call->status == OK ? "done" : call->why.text);
    job->connection = NULL;
    if (c != NULL)
        reply(c, call);
    job_free(job);
}

static void on_leave(void *user)
{
    struct admin_job *job = user;
    ASSERT(job->magic == ADMIN_JOB_MAGIC);
    job->connection = NULL;
}

/* ---- the question ---- */

static enum status read_body(struct admin_job *job, struct slice bytes, struct why *ret_why)
{
    size_t spaces = 0;
    while (spaces < bytes.len && strchr(" \t\r\n", bytes.bytes[spaces]) != NULL)
        spaces++;
    if (spaces == bytes.len)
        return OK;
    enum status s = record_read_loose(bytes.bytes, bytes.len, &job->call.body, ret_why);
    return s == STATUS_BAD_FILE ? STATUS_BAD_REQUEST : s;
}

/* Of op, subject and body as sent: what must be the same for a call to be the same. */
static enum status hash_payload(struct admin_call *call, struct slice bytes)
{
    const char *key = admin_route(call->op)->key;
    uint8_t hash[SHA256_BYTES];
    struct sha256 *sha = NULL;
    TRY(sha256_new(&sha));
    sha256_start(sha);
    sha256_part(sha, 'o', key, strlen(key));
    sha256_part(sha, 's', call->subject, strlen(call->subject));
    sha256_part(sha, 'b', bytes.bytes, bytes.len);
    sha256_finish(sha, hash);
    sha256_free(&sha);
    sha256_hex(hash, call->payload_hash);
    return OK;
}

static enum status check_in_flight(const struct admin_job *job, struct why *ret_why)
{
    for (const struct admin_job *other = job->admin->first; other != NULL; other = other->next) {
        if (job->call.idempotency_key[0] == '\0' ||
            strcmp(job->call.idempotency_key, other->call.idempotency_key) != 0)
            continue;
        bool is_same = strcmp(job->call.payload_hash, other->call.payload_hash) == 0;
        return is_same ? why_set(ret_why, STATUS_KEY_IN_FLIGHT, "Idempotency-Key", "%s",
                                 status_text(STATUS_KEY_IN_FLIGHT))
                       : why_set(ret_why, STATUS_KEY_REUSED, "Idempotency-Key", "%s",
                                 status_text(STATUS_KEY_REUSED));
    }
    return OK;
}

static enum status prepare(struct admin_job *job, struct slice bytes, struct why *ret_why)
{
    const struct http_head *head = connection_head(job->connection);
    struct admin_call *call = &job->call;
    struct admin_caller caller;
    TRY(admin_caller_find(job->connection, &caller, ret_why));
    TRY(admin_path_find(head->method, head->path, &call->op, call->subject, ret_why));
    snprintf(call->who, sizeof call->who, "%s", caller.who);
    call->role = caller.role;
    TRY(admin_terms_read(head, call, ret_why));
    TRY(read_body(job, bytes, ret_why));
    TRY(hash_payload(call, bytes));
    return check_in_flight(job, ret_why);
}

void admin_answer(struct connection *c)
{
    struct service *service = connection_service(c);
    struct admin_job *job = mem_zalloc(1, sizeof *job);
    struct byte_buffer body;
    struct why why = {0};
    if (job == NULL) {
        response_error(c, STATUS_NO_MEMORY, NULL);
        return;
    }
    job->magic = ADMIN_JOB_MAGIC;
    job->admin = service->admin;
    job->connection = c;
    connection_take_body(c, &body);
    enum status s =
        prepare(job, (struct slice){body.bytes != NULL ? body.bytes : "", body.len}, &why);
    byte_buffer_release(&body);
    job->call.epoch = -1;
    job->call.on_done = on_done;
    job->call.user = job;
    if (s == OK) {
        connection_hold(c, (struct connection_holder){.user = job, .on_leave = on_leave});
        job_link(job);
        s = job->admin->side.ask(job->admin->side.user, &job->call);
    }
    if (s != OK) {
        job_free(job);
        response_error(c, s, &why);
    }
}
