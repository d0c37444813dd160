/* engine_port.h: one other thread's way into the engine: requests go in by one bounded queue and come
 * back by another.
 *
 * The functions of a port are its own thread's. It collects until there is no more: where workers
 * take every processor the engine lets it, for a millisecond at most, before it takes the next step.
 * Port 0 is the loop's, evaluators and tests bring their own. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ENGINE_PORT_H
#define FOLDKV_SCHED_ENGINE_PORT_H

#include "config/why.h"
#include "sched/request.h"

struct engine;
struct engine_port;
struct lane;

enum { ENGINE_PORTS_MAX = 4 };

/* on_wake comes from the engine's threads when requests have news; it must not block
 * (uv_async_send, doorbell_ring). UNAVAILABLE if there are ENGINE_PORTS_MAX, NO_MEMORY. Any thread. */
enum status engine_port_new(struct engine *engine, void (*on_wake)(void *user), void *user,
                            struct engine_port **ret_port, struct why *ret_why) MUST_USE;
/* Before engine_free, and with no request of it alive (asserted): every one was collected as done.
 * Afterwards on_wake comes no more. Takes NULL. */
void engine_port_free(struct engine_port **port);

/* Takes the request (NULL afterwards) if OK; it stays with this lane to its last token. LANE_CLOSED,
 * FENCED, QUEUE_FULL, CONTEXT_LENGTH, CACHE_TOO_SMALL or DRAINING leave it with the caller. */
enum status engine_submit(struct engine_port *port, struct lane *lane, struct request **request,
                          struct why *ret_why) MUST_USE;
/* Asks the engine to stop it; it ends up done as FINISH_CANCELLED within a step, unless it ended by
 * itself first. FINISH_STOP if is_stop (a stop string matched). */
void engine_cancel(struct engine_port *port, struct request *request, bool is_stop);
/* The next request with news (outputs or done), each at most once a wake-up; NULL if there is none. */
struct request *engine_next_ready(struct engine_port *port);
/* Accepted and not yet collected as done; any thread. */
uint32_t engine_port_active(const struct engine_port *port);

#endif
