/* completion_route.c: which generation a completion goes to, and what its arm hears of its end.
 *
 * WHY     A candidate that will not have a request is the candidate's fault, not the client's: before the first byte the
 *         request goes to stable, and the candidate is charged.
 * HOW     A choice is made before the request is, because the generation's context bounds it; it is held to the
 *         completion's end.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_priv.h"

#include "server/log.h"
#include "server/release_stats.h"

static struct slice text_slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static struct arm_session session_of(const struct completion *k)
{
    const struct http_head *head = connection_head(k->connection);
    struct arm_session session = {.user = k->asked->user,
                                  .prompt_cache_key = k->asked->prompt_cache_key,
                                  .connection = text_slice(connection_serial(k->connection))};
    if (head->session_id.has && !head->session_id.is_long)
        session.session_id = text_slice(head->session_id.text);
    return session;
}

static void tell(struct completion *k)
{
    bool is_arm_told = strcmp(k->service->options.release_arm_header, "on") == 0;
    if (k->connection != NULL)
        connection_set_generation(k->connection, k->choice.id,
                                  is_arm_told ? arm_name(k->choice.arm) : NULL);
}

enum status completion_choose(struct completion *k)
{
    struct arm_session session = session_of(k);
    struct slice model = {0};
    uint64_t context = (uint64_t)k->ids.count + k->asked->max_tokens;
    uint32_t chunk = k->service->options.engine_prefill_chunk; /* the most rows of one step */
    const struct evaluation_cell cell = {
        .context = context < k->context ? (uint32_t)context : k->context,
        .query_length = k->ids.count < chunk ? (uint32_t)k->ids.count : chunk};
    if (service_is_pin(k->service, k->asked->model))
        model = k->asked->model;
    TRY(releases_choose(k->service->releases, &session, model, cell, &k->choice, &k->why));
    k->has_choice = true;
    tell(k);
    return OK;
}

enum status completion_hand_over(struct completion *k, struct request **request)
{
    for (;;) {
        enum status s = engine_submit(k->service->port, k->choice.lane, request, &k->why);
        if (s == OK || s == STATUS_DRAINING ||
            !releases_fall_back(k->service->releases, &k->choice, s))
            return s;
        tell(k);
    }
}

bool completion_go_elsewhere(struct completion *k)
{
    struct request *again = NULL, *mine;
    if (request_finish_reason(k->request) != FINISH_ERROR ||
        request_error(k->request) != STATUS_LANE_CLOSED || k->is_begun || k->n_generated > 0)
        return false;
    if (!releases_fall_back(k->service->releases, &k->choice, STATUS_LANE_CLOSED) ||
        request_again(k->request, &again) != OK)
        return false;
    tell(k);
    mine = again;
    if (completion_hand_over(k, &mine) != OK) {
        request_free(&mine);
        return false;
    }
    log_event(LOG_LEVEL_DEBUG, "elsewhere", "%s: generation %s", k->id, k->choice.id);
    request_free(&k->request);
    k->request = again;
    return true;
}

void completion_end_choice(struct completion *k)
{
    if (!k->has_choice)
        return;
    k->has_choice = false;
    bool is_done = k->is_submitted && request_is_done(k->request);
    enum finish_reason reason = is_done ? request_finish_reason(k->request) : FINISH_CANCELLED;
    bool is_counted = reason != FINISH_CANCELLED, is_error = reason == FINISH_ERROR;
    struct request_times times = {0};
    if (is_counted)
        times = request_times(k->request);
    releases_end(k->service->releases, &k->choice, is_counted, is_error, times.ttft_own_ns,
                 times.tpot_own_ns);
    if (is_counted)
        release_stats_end(k->service->release_stats, k->choice.id, k->choice.arm, is_error,
                          times.ttft_own_ns, times.tpot_own_ns);
}
