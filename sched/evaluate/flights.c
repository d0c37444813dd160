/* flights.c: requests of the program's own threads.
 *
 * WHY     An evaluation must measure what clients get, so its requests go the way that theirs go.
 * HOW     The port's wake rings a doorbell; each request carries its flight as its user, and what it
 *         brings is added up as it comes, so that nobody keeps outputs.
 * ALWAYS  (1) A request is freed the moment it is seen done.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/flights.h"

#include <math.h>

#include "config/mem.h"
#include "sched/doorbell.h"
#include "sched/engine_port.h"

struct flights {
    struct engine_port *port;
    struct doorbell bell;
    uint32_t n_flying;
};

static void on_wake(void *user)
{
    flights_ring(user);
}

enum status flights_new(struct engine *engine, struct flights **ret_flights, struct why *ret_why)
{
    *ret_flights = NULL;
    struct flights *flights = mem_zalloc(1, sizeof *flights);
    if (flights == NULL || doorbell_init(&flights->bell) != OK) {
        mem_free(flights);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for an engine port's doorbell");
    }
    enum status s = engine_port_new(engine, on_wake, flights, &flights->port, ret_why);
    if (s != OK)
        flights_free(&flights);
    *ret_flights = flights;
    return s;
}

void flights_free(struct flights **flights)
{
    if (*flights == NULL)
        return;
    ASSERT((*flights)->n_flying == 0);
    engine_port_free(&(*flights)->port);
    doorbell_release(&(*flights)->bell);
    mem_free(*flights);
    *flights = NULL;
}

enum status flights_submit(struct flights *flights, const struct flight_terms *terms,
                           struct flight *flight, struct why *ret_why)
{
    struct request_params params = {.ids = terms->ids,
                                    .n_ids = terms->n_ids,
                                    .max_tokens = terms->max_tokens,
                                    .sampling = {.top_p = 1.0f},
                                    .logprobs = terms->n_scored > 0 ? 0 : -1,
                                    .prompt_logprobs = terms->n_scored > 0,
                                    .ignore_eos = true};
    struct request *request = NULL;
    *flight = (struct flight){.score_from = terms->n_ids - terms->n_scored};
    enum status s = request_new(&params, flight, &request);
    if (s != OK) {
        mem_free(params.ids);
        return why_set(ret_why, s, "", "no memory for a request of %u tokens", terms->n_ids);
    }
    struct request *handle = request;
    s = engine_submit(flights->port, terms->lane, &request, ret_why);
    if (s != OK) {
        request_free(&request);
        return s;
    }
    flight->request = handle;
    flights->n_flying++;
    return OK;
}

void flights_end(struct flights *flights, struct flight *flight, bool is_stop)
{
    if (flight->request != NULL)
        engine_cancel(flights->port, flight->request, is_stop);
}

static void take_score(struct flight *flight, const struct token_output *output)
{
    if (flight->n_prompt_seen++ < flight->score_from)
        return;
    double nats = output->has_logprob ? -(double)output->logprob : NAN;
    double most = (double)FLIGHT_WORST_UNATS / 1e6;
    flight->unats += nats >= 0 && nats < most ? (uint64_t)llround(nats * 1e6) : FLIGHT_WORST_UNATS;
    flight->n_scored++;
}

static void take_news(struct flights *flights, struct request *request)
{
    struct flight *flight = request_user(request);
    struct token_output output;
    while (request_next(request, &output)) {
        if (output.is_prompt)
            take_score(flight, &output);
        else
            flight->n_generated++;
    }
    if (!request_is_done(request))
        return;
    flight->reason = request_finish_reason(request);
    flight->error = request_error(request);
    flight->n_prompt = request_prompt_tokens(request);
    flight->cached_tokens = request_cached_tokens(request);
    flight->times = request_times(request);
    flight->is_done = true;
    flight->request = NULL;
    flights->n_flying--;
    request_free(&request);
}

void flights_wait(struct flights *flights, uint64_t timeout_ns)
{
    bool has_any = false;
    for (int turn = 0; turn < 2 && !has_any; turn++) {
        for (struct request *r; (r = engine_next_ready(flights->port)) != NULL; has_any = true)
            take_news(flights, r);
        if (!has_any && turn == 0)
            doorbell_wait(&flights->bell, timeout_ns);
    }
}

void flights_ring(struct flights *flights)
{
    doorbell_ring(&flights->bell);
}

uint32_t flights_count(const struct flights *flights)
{
    return flights->n_flying;
}

uint64_t flight_ttft_ns(const struct flight *flight)
{
    return flight->n_generated > 0 ? flight->times.ttft_own_ns : 0;
}

uint64_t flight_tpot_ns(const struct flight *flight)
{
    return flight->n_generated > 1 ? flight->times.tpot_own_ns : 0;
}
