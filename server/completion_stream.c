/* completion_stream.c: outputs of the engine to text, events and answers.
 *
 * HOW     Token bytes become whole characters (text_hold), then text that is surely no stop string (stop_match). A stream gets an
 *         event as soon as there is text or a score; a whole answer is made at the end. While the client does not read, outputs
 *         wait in the request's ring.
 * ALWAYS  (1) Bytes of the prompt are never searched for stop strings.             take_output
 *         (2) After a stop string nothing more of the request is used.             take_output
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_priv.h"

#include <inttypes.h>

#include "config/mem.h"
#include "server/completion_reply.h"
#include "server/log.h"
#include "server/response.h"
#include "server/sse.h"

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 0;
}

static void note_time(struct completion *k)
{
    struct server_stats *stats = k->service->stats;
    uint64_t now = uv_hrtime();
    if (k->first_ns == 0) {
        histogram_add(&stats->time_to_first_token, seconds_between(k->arrived_ns, now));
        k->first_ns = now;
    } else {
        histogram_add(&stats->inter_token, seconds_between(k->last_ns, now));
    }
    k->last_ns = now;
}

static struct reply_usage usage_of(const struct completion *k)
{
    return (struct reply_usage){.prompt_tokens = k->n_prompt,
                                .completion_tokens = k->n_generated,
                                .cached_tokens = request_cached_tokens(k->request)};
}

static struct reply_head head_of(const struct completion *k)
{
    return (struct reply_head){
        .id = k->id, .model = k->service->model_name, .created_s = k->created_s};
}

/* Control tokens that did not end the generation have no text. */
static bool has_text(const struct completion *k, uint32_t id)
{
    return vocabulary_kind(tokenizer_vocabulary(k->service->tokenizer), id) != TOKEN_CONTROL;
}

static enum status take_text(struct completion *k, uint32_t id)
{
    struct slice text = tokenizer_text(k->service->tokenizer, id, &k->is_inside);
    if (!has_text(k, id))
        return OK;
    byte_buffer_clear(&k->raw);
    text_hold_push(&k->hold, text.bytes, text.len, &k->raw);
    if (k->raw.failed)
        return STATUS_NO_MEMORY;
    if (k->raw.len == 0)
        return OK; /* a character that is not whole yet */
    k->is_stopped = stop_match_push(k->stops, (struct slice){k->raw.bytes, k->raw.len}, &k->text);
    return k->text.failed ? STATUS_NO_MEMORY : OK;
}

/* The end: what was held back comes out, unless a stop string is complete. */
static enum status flush_text(struct completion *k)
{
    if (k->is_stopped)
        return OK;
    byte_buffer_clear(&k->raw);
    text_hold_flush(&k->hold, &k->raw);
    if (k->raw.len > 0)
        k->is_stopped =
            stop_match_push(k->stops, (struct slice){k->raw.bytes, k->raw.len}, &k->text);
    if (!k->is_stopped)
        stop_match_flush(k->stops, &k->text);
    return k->raw.failed || k->text.failed ? STATUS_NO_MEMORY : OK;
}

static enum status take_scores(struct completion *k, struct json_t **ret_scores)
{
    *ret_scores = NULL;
    return k->scores != NULL ? token_scores_take(k->scores, ret_scores) : OK;
}

/* One event with the text and scores since the last. */
static enum status send_event(struct completion *k, enum finish_reason reason)
{
    struct reply_choice choice = {.text = {k->text.bytes, k->text.len}, .finish_reason = reason};
    struct reply_head head = head_of(k);
    struct reply_usage usage = usage_of(k);
    char *json;
    size_t len;
    TRY(take_scores(k, &choice.scores));
    TRY(completion_reply_chunk(&head, &choice, k->wish.continuous_usage ? &usage : NULL,
                               k->wish.include_usage, &json, &len));
    if (!k->is_begun)
        sse_begin(k->connection);
    k->is_begun = true;
    sse_event(k->connection, json, len);
    mem_free(json);
    byte_buffer_clear(&k->text);
    return OK;
}

static enum status take_output(struct completion *k, const struct token_output *output)
{
    if (k->connection == NULL || k->is_stopped)
        return OK;
    note_time(k);
    if (k->scores != NULL)
        TRY(token_scores_add(k->scores, output));
    if (output->is_prompt)
        return OK;
    k->n_generated++;
    TRY(take_text(k, output->id));
    if (k->is_stopped)
        engine_cancel(k->service->port, k->request, true);
    bool has_news = k->text.len > 0 || (k->scores != NULL && token_scores_pending(k->scores) > 0);
    return k->wish.stream && has_news && !k->is_stopped ? send_event(k, FINISH_NONE) : OK;
}

static enum status send_last_events(struct completion *k, enum finish_reason reason)
{
    struct reply_head head = head_of(k);
    struct reply_usage usage = usage_of(k);
    char *json;
    size_t len;
    TRY(send_event(k, reason));
    if (k->wish.include_usage) {
        TRY(completion_reply_chunk(&head, NULL, &usage, true, &json, &len));
        sse_event(k->connection, json, len);
        mem_free(json);
    }
    sse_done(k->connection);
    return OK;
}

static enum status send_whole(struct completion *k, enum finish_reason reason)
{
    struct reply_choice choice = {.text = {k->text.bytes, k->text.len}, .finish_reason = reason};
    struct reply_head head = head_of(k);
    struct reply_usage usage = usage_of(k);
    char *json;
    size_t len;
    TRY(take_scores(k, &choice.scores));
    TRY(completion_reply_whole(&head, &choice, &usage, &json, &len));
    response_json(k->connection, json, len);
    mem_free(json);
    return OK;
}

static void note_end(struct completion *k, enum finish_reason reason)
{
    struct server_stats *stats = k->service->stats;
    stats->completions[reason == FINISH_STOP ? OUTCOME_STOP : OUTCOME_LENGTH]++;
    histogram_add(&stats->request_time, seconds_between(k->arrived_ns, k->last_ns));
    struct request_times times = request_times(k->request);
    histogram_add(&stats->queue_time, seconds_between(k->submitted_ns, times.started_ns));
    histogram_add(&stats->prefill_time, seconds_between(times.started_ns, times.first_output_ns));
    histogram_add(&stats->decode_time,
                  seconds_between(times.first_output_ns, times.last_output_ns));
    if (k->n_generated > 1)
        histogram_add(&stats->time_per_output_token,
                      seconds_between(k->first_ns, k->last_ns) / (k->n_generated - 1));
    log_event(LOG_LEVEL_INFO, "completed",
              "%s: %s, prompt %u, cached %u, generated %u, first token %.1f ms, total %.1f ms",
              k->id, reason == FINISH_STOP ? "stop" : "length", k->n_prompt,
              request_cached_tokens(k->request), k->n_generated,
              seconds_between(k->arrived_ns, k->first_ns) * 1e3,
              seconds_between(k->arrived_ns, k->last_ns) * 1e3);
}

/* The request is done and every output taken: the rest of the answer. */
static enum status send_end(struct completion *k)
{
    enum finish_reason reason = request_finish_reason(k->request);
    TRY(flush_text(k));
    if (k->is_stopped)
        reason = FINISH_STOP;
    if (reason == FINISH_ERROR)
        return request_error(k->request);
    if (reason == FINISH_CANCELLED)
        return STATUS_DRAINING; /* its client is still there, so it was the server that ended it */
    TRY(k->wish.stream ? send_last_events(k, reason) : send_whole(k, reason));
    note_end(k, reason);
    return OK;
}

static bool has_room(const struct completion *k)
{
    return k->connection == NULL || !k->wish.stream || connection_has_room(k->connection);
}

/* Takes outputs while there is room. True if the ring is empty. */
static bool take_outputs(struct completion *k)
{
    struct token_output output;
    while (has_room(k)) {
        if (!request_next(k->request, &output))
            return true;
        enum status s = take_output(k, &output);
        if (s != OK && k->connection != NULL)
            completion_fail(k, s, NULL);
    }
    return false;
}

bool completion_pump(struct completion *k)
{
    bool is_empty;
    do {
        is_empty = take_outputs(k);
        if (k->connection != NULL && k->is_begun)
            connection_flush(k->connection);
    } while (!is_empty && has_room(k));
    if (k->connection == NULL || !is_empty || !request_is_done(k->request) ||
        completion_go_elsewhere(k))
        return false;
    enum status s = send_end(k);
    if (s != OK && k->connection != NULL)
        completion_fail(k, s, NULL);
    return s == OK;
}
