/* request_queue.h: a bounded queue of request pointers from one thread to one other.
 *
 * Loop to engine (submissions) and engine to loop (requests with news). It never waits and never
 * allocates after request_queue_new; how the other side is woken is its user's business. It holds
 * pointers and owns none. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REQUEST_QUEUE_H
#define FOLDKV_SCHED_REQUEST_QUEUE_H

#include "config/status.h"

struct request;
struct request_queue;

/* Room for at least capacity (1 .. 2^24) requests. NO_MEMORY. */
enum status request_queue_new(uint32_t capacity, struct request_queue **ret_queue) MUST_USE;
/* When neither thread uses it any more. Takes NULL. */
void request_queue_free(struct request_queue **queue);
/* False if it is full. What the caller wrote before is seen by whoever takes it. The one producing
 * thread. */
bool request_queue_try_push(struct request_queue *queue, struct request *request) MUST_USE;
/* The oldest, or NULL if there is none. The one consuming thread. */
struct request *request_queue_pop(struct request_queue *queue);

#endif
