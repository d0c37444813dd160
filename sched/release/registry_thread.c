/* registry_thread.c: the registry's thread, its ports and its loop.
 *
 * WHY     A commit waits for the disk; steps and connections must not.
 * HOW     Each port is two rings with one producer and one consumer (request_queue.h; it passes addresses and never
 *         looks into them). The loop takes a job from each port in turn, runs it or a piece of it, carries an open
 *         journal on, publishes the projection if it changed, and sleeps at a doorbell when there is nothing to
 *         do. An open journal with a pending effect is looked at again every JOURNAL_NS.
 * ALWAYS  (1) A job that was accepted comes back exactly once.                      registry_port_submit
 *         (2) The registry is touched by this thread alone, after registry_thread_new.
 * OWNS    The registry, the ports.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry_thread.h"

#include <pthread.h>
#include <stdatomic.h>

#include "config/mem.h"
#include "sched/doorbell.h"
#include "sched/release/object_store.h"
#include "sched/release/object_sweep.h"
#include "sched/request_queue.h"

#define JOURNAL_NS 5000000u
#define IDLE_NS 500000000u
enum { US_A_MS = 1000, PROBE_US = 500000 };

struct registry_port {
    struct registry_thread *owner;
    struct request_queue *asked, *done;
    struct registry_job *running; /* one that said JOB_AGAIN */
    void (*on_wake)(void *user);
    void *user;
    uint32_t queue_max;
    uint32_t n_out; /* the port's thread: submitted and not yet given back */
};

struct registry_thread {
    struct registry *registry;
    struct registry_thread_options options;
    struct projection projection;
    struct doorbell bell;
    bool has_bell, has_thread;
    bool has_store; /* the object store was opened: it is not while nothing can be written */
    pthread_t thread;
    atomic_bool is_stopping;
    atomic_bool is_writable;
    atomic_bool is_nudged;
    int64_t probe_due_us;
    atomic_uint n_ports;
    struct registry_port ports[REGISTRY_PORTS_MAX];
};

static int64_t now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- registry thread ---- */

static enum status open_store(struct registry_thread *t, struct why *ret_why)
{
    if (t->has_store || t->options.dir == NULL || registry_fault(t->registry) != NULL)
        return OK;
    TRY(object_store_open(t->options.dir, ret_why));
    t->has_store = true;
    struct why unheard; /* what stays costs room alone, and goes another time */
    enum status s = object_sweep(t->registry, t->options.dir, NULL, 0, &unheard);
    (void)s;
    return OK;
}

static void publish(struct registry_thread *t)
{
    struct projection p;
    struct why why;
    memset(&p, 0, sizeof p);
    if (t->options.on_rows != NULL)
        t->options.on_rows(t->options.user, t->registry);
    bool is_writable = registry_fault(t->registry) == NULL;
    if (atomic_exchange(&t->is_writable, is_writable) != is_writable && is_writable) {
        atomic_store(&t->is_nudged, true); /* a journal that was left open goes on */
        enum status unheard = open_store(t, &why); /* who needs the store hears what is wrong with it */
        (void)unheard;
    }
    if (projection_read(t->registry, &p, &why) != OK) {
        p = t->projection; /* what cannot be read stays as it was, without a candidate */
        p.is_candidate_admitted = p.is_writable = false;
    }
    if (memcmp(&p, &t->projection, sizeof p) == 0)
        return;
    t->projection = p;
    if (t->options.on_projection != NULL)
        t->options.on_projection(t->options.user, &p);
}

/* A registry that takes no writes is asked now and then whether it takes them again. */
static void probe(struct registry_thread *t)
{
    int64_t now = now_us(CLOCK_MONOTONIC);
    if (atomic_load(&t->is_writable) || now < t->probe_due_us)
        return;
    t->probe_due_us = now + PROBE_US;
    registry_probe(t->registry);
    publish(t);
}

/* True if a journal waits for an effect. */
static bool carry_on(struct registry_thread *t)
{
    enum journal_progress progress = JOURNAL_NONE;
    struct why why;
    if (!atomic_load(&t->is_writable))
        return false;
    enum status s =
        journal_advance(t->registry, t->options.effects, now_us(CLOCK_REALTIME), &progress, &why);
    return s == OK && progress == JOURNAL_PENDING;
}

static bool serve(struct registry_thread *t, struct registry_port *port)
{
    struct registry_job *job = port->running;
    if (job == NULL)
        job = (struct registry_job *)request_queue_pop(port->asked);
    if (job == NULL)
        return false;
    port->running = job->run(t->registry, job) == JOB_AGAIN ? job : NULL;
    publish(t); /* before the asker hears: who is told of a change sees it */
    if (port->running != NULL)
        return true;
    bool is_queued = request_queue_try_push(port->done, (struct request *)job);
    ASSERT(is_queued); /* no more jobs are out than it has room for */
    if (port->on_wake != NULL)
        port->on_wake(port->user);
    return true;
}

/* How long it may sleep: until the next tick. */
static uint64_t tick(struct registry_thread *t, int64_t *due_us, bool *ret_has_ticked)
{
    *ret_has_ticked = false;
    if (t->options.on_tick == NULL)
        return IDLE_NS;
    int64_t now = now_us(CLOCK_MONOTONIC);
    if (now >= *due_us) {
        *ret_has_ticked = t->options.on_tick(t->options.user, t->registry);
        *due_us = now + (int64_t)t->options.tick_ms * US_A_MS;
    }
    return (uint64_t)(*due_us - now) * 1000;
}

static void *run(void *user)
{
    struct registry_thread *t = user;
    struct why why;
    int64_t due_us = 0;
    bool is_pending = true;
    (void)pthread_setname_np(pthread_self(), "registry");
    for (;;) {
        bool is_due, is_busy = false, is_stopping = atomic_load(&t->is_stopping);
        uint64_t idle_ns = tick(t, &due_us, &is_due);
        uint32_t n = atomic_load(&t->n_ports);
        for (uint32_t i = 0; i < n; i++)
            is_busy |= serve(t, &t->ports[i]);
        is_due |= is_busy || is_pending || atomic_exchange(&t->is_nudged, false) ||
                  !atomic_load(&t->is_writable);
        if (is_due) { /* an idle daemon reads no rows */
            is_pending = carry_on(t);
            publish(t);
        }
        if (is_busy)
            continue;
        if (is_stopping)
            break;
        probe(t);
        if (!is_pending && registry_checkpoint(t->registry, &why) != OK)
            publish(t);
        doorbell_wait(&t->bell, is_pending ? JOURNAL_NS : idle_ns);
    }
    registry_close(&t->registry); /* here: closing writes too */
    return NULL;
}

/* ---- making and ending ---- */

static enum status recover(struct registry_thread *t, uint32_t recovery_ms, struct why *ret_why)
{
    int64_t until = now_us(CLOCK_MONOTONIC) + (int64_t)recovery_ms * US_A_MS;
    TRY(open_store(t, ret_why));
    publish(t);
    while (carry_on(t) && now_us(CLOCK_MONOTONIC) < until)
        doorbell_wait(&t->bell, JOURNAL_NS);
    publish(t);
    return OK;
}

enum status registry_thread_new(const struct registry_thread_options *options, uint32_t recovery_ms,
                                struct registry_thread **ret_thread, struct why *ret_why)
{
    *ret_thread = NULL;
    struct registry_thread *t = mem_zalloc(1, sizeof *t);
    if (t == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for the registry");
    t->options = *options;
    enum status s = registry_open(options->dir, &t->registry, ret_why);
    if (s == OK && doorbell_init(&t->bell) != OK)
        s = why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for the registry's thread");
    else if (s == OK)
        t->has_bell = true;
    if (s == OK)
        s = recover(t, recovery_ms, ret_why);
    if (s == OK && pthread_create(&t->thread, NULL, run, t) != 0)
        s = why_set(ret_why, STATUS_NO_MEMORY, "registry",
                    "the registry's thread cannot be started");
    else if (s == OK)
        t->has_thread = true;
    if (s != OK)
        registry_thread_free(&t);
    *ret_thread = t;
    return s;
}

void registry_thread_free(struct registry_thread **thread)
{
    struct registry_thread *t = *thread;
    if (t == NULL)
        return;
    if (t->has_thread) {
        atomic_store(&t->is_stopping, true);
        doorbell_ring(&t->bell);
        pthread_join(t->thread, NULL);
    }
    for (uint32_t i = 0; i < atomic_load(&t->n_ports); i++) {
        request_queue_free(&t->ports[i].asked);
        request_queue_free(&t->ports[i].done);
    }
    if (t->has_bell)
        doorbell_release(&t->bell);
    registry_close(&t->registry);
    mem_free(t);
    *thread = NULL;
}

/* ---- other threads ---- */

enum status registry_port_new(struct registry_thread *thread, void (*on_wake)(void *user),
                              void *user, struct registry_port **ret_port)
{
    uint32_t n = atomic_load(&thread->n_ports);
    ASSERT(n < REGISTRY_PORTS_MAX);
    struct registry_port *port = &thread->ports[n];
    *port = (struct registry_port){
        .owner = thread, .on_wake = on_wake, .user = user, .queue_max = thread->options.queue_max};
    if (request_queue_new(port->queue_max, &port->asked) != OK)
        return STATUS_NO_MEMORY;
    if (request_queue_new(port->queue_max, &port->done) != OK) {
        request_queue_free(&port->asked);
        return STATUS_NO_MEMORY;
    }
    atomic_store(&thread->n_ports, n + 1);
    *ret_port = port;
    return OK;
}

enum status registry_port_submit(struct registry_port *port, struct registry_job *job)
{
    if (port->n_out >= port->queue_max ||
        !request_queue_try_push(port->asked, (struct request *)job))
        return STATUS_QUEUE_FULL;
    port->n_out++;
    doorbell_ring(&port->owner->bell);
    return OK;
}

struct registry_job *registry_port_next(struct registry_port *port)
{
    struct registry_job *job = (struct registry_job *)request_queue_pop(port->done);
    port->n_out -= job != NULL;
    return job;
}

void registry_thread_nudge(struct registry_thread *thread)
{
    atomic_store(&thread->is_nudged, true);
    doorbell_ring(&thread->bell);
}

bool registry_thread_is_writable(const struct registry_thread *thread)
{
    return atomic_load(&thread->is_writable);
}
