/* request_queue.c: a ring with one producer and one consumer.
 *
 * HOW     head counts what was taken, tail what was put; both only grow and wrap at 2^32, the slot
 *         is the count modulo a power of two. Each side releases its own count after the slot and
 *         acquires the other's before it.
 * ALWAYS  (1) head <= tail <= head + size, as counts.          request_queue_try_push,
 *         request_queue_pop
 * THREAD  one producer, one consumer
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/request_queue.h"

#include <stdatomic.h>

#include "config/mem.h"

enum { CAPACITY_MAX = 1 << 24 };

struct request_queue {
    uint32_t mask;
    _Alignas(64) _Atomic uint32_t head; /* the consumer's */
    _Alignas(64) _Atomic uint32_t tail; /* the producer's */
    _Alignas(64) struct request *slots[];
};

enum status request_queue_new(uint32_t capacity, struct request_queue **ret_queue)
{
    ASSERT(capacity >= 1 && capacity <= CAPACITY_MAX);
    uint32_t size = 1;
    while (size < capacity)
        size *= 2;
    struct request_queue *queue = mem_aligned(sizeof *queue + size * sizeof queue->slots[0]);
    if (queue == NULL)
        return STATUS_NO_MEMORY;
    queue->mask = size - 1;
    *ret_queue = queue;
    return OK;
}

void request_queue_free(struct request_queue **queue)
{
    mem_free(*queue);
    *queue = NULL;
}

bool request_queue_try_push(struct request_queue *queue, struct request *request)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    if (tail - head > queue->mask)
        return false;
    queue->slots[tail & queue->mask] = request;
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
    return true;
}

struct request *request_queue_pop(struct request_queue *queue)
{
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    if (head == tail)
        return NULL;
    struct request *request = queue->slots[head & queue->mask];
    atomic_store_explicit(&queue->head, head + 1, memory_order_release);
    return request;
}
