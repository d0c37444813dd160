/* lane_collector.c: a lane's figures, and who may read them when.
 *
 * HOW     The engine thread counts in a copy of its own and publishes it under a lock that is held for as
 *         long as copying takes.
 * OWNS    Its figures; all parts are loans.
 * THREAD  engine; lane_collector_copy any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_collector.h"

#include <pthread.h>

#include "config/mem.h"

struct lane_collector {
    struct lane_collector_parts parts;
    struct lane_evidence evidence; /* engine thread */
    pthread_mutex_t lock;
    struct lane_evidence published; /* under lock */
};

static void publish(struct lane_collector *c)
{
    pthread_mutex_lock(&c->lock);
    c->published = c->evidence;
    pthread_mutex_unlock(&c->lock);
}

enum status lane_collector_new(const struct lane_collector_parts *parts,
                               struct lane_collector **ret_collector, struct why *ret_why)
{
    *ret_collector = mem_zalloc(1, sizeof **ret_collector);
    if (*ret_collector == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a lane's evidence");
    (*ret_collector)->parts = *parts;
    pthread_mutex_init(&(*ret_collector)->lock, NULL);
    return OK;
}

void lane_collector_free(struct lane_collector **collector)
{
    if (*collector != NULL)
        pthread_mutex_destroy(&(*collector)->lock);
    mem_free(*collector);
    *collector = NULL;
}

void lane_collector_expect(struct lane_collector *c, const char *const *functions, size_t n)
{
    (void)functions;
    c->evidence.has_plan_receipt = n > 0;
    publish(c);
}

void lane_collector_turn(struct lane_collector *c, uint64_t step_ns)
{
    c->evidence.n_steps++;
    c->evidence.step_ns += step_ns;
    publish(c);
}

void lane_collector_idle(struct lane_collector *c)
{
    publish(c);
}

void lane_collector_copy(struct lane_collector *c, struct lane_evidence *ret_evidence)
{
    pthread_mutex_lock(&c->lock);
    *ret_evidence = c->published;
    pthread_mutex_unlock(&c->lock);
}
