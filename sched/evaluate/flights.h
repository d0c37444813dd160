/* flights.h: requests that a thread of the program itself sends through the engine, and what came of each.
 *
 * Over a port of its own. A flight is its owner's memory and stays where it is from flights_submit until
 * is_done; flights_wait brings it up to date. One thread, but for flights_ring. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_FLIGHTS_H
#define FOLDKV_SCHED_FLIGHTS_H

#include "config/why.h"
#include "sched/request.h"

struct engine;
struct flights;
struct lane;

struct flight {
    struct request *request; /* NULL: not in the engine */
    uint32_t n_generated;
    uint32_t n_scored; /* of the tokens that were to be scored */
    uint64_t unats;    /* their negative log-probabilities, micro-nats */
    uint32_t score_from, n_prompt_seen;

    bool is_done; /* the rest holds then */
    enum finish_reason reason;
    enum status error;
    uint32_t n_prompt, cached_tokens;
    struct request_times times;
};

/* What a token costs that has no finite score, or was never scored. */
#define FLIGHT_WORST_UNATS ((uint64_t)1000000000)

struct flight_terms {
    struct lane *lane;
    uint32_t *ids; /* mem_alloc'd; taken in any case */
    uint32_t n_ids;
    uint32_t max_tokens; /* ends of generation are passed over */
    uint32_t n_scored;   /* the prompt's last tokens are scored; 0: none */
};

/* Takes a port of the engine. As engine_port_new. */
enum status flights_new(struct engine *engine, struct flights **ret_flights,
                        struct why *ret_why) MUST_USE;
/* None may be in the air (asserted). Takes NULL. */
void flights_free(struct flights **flights);

/* As engine_submit; the flight is set anew. */
enum status flights_submit(struct flights *flights, const struct flight_terms *terms,
                           struct flight *flight, struct why *ret_why) MUST_USE;
/* Ends it within a step: as if a stop string had matched, or as cancelled. A done one stays so. */
void flights_end(struct flights *flights, struct flight *flight, bool is_stop);
/* Returns once something came, somebody rang, or after timeout_ns. */
void flights_wait(struct flights *flights, uint64_t timeout_ns);
/* Any thread. */
void flights_ring(struct flights *flights);
uint32_t flights_count(const struct flights *flights);

/* How long the first token and each further one took on the lane's own clock; 0: there was none. */
uint64_t flight_ttft_ns(const struct flight *flight);
uint64_t flight_tpot_ns(const struct flight *flight);

#endif
