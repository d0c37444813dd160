/* registry_thread.h: the one thread that owns the registry, and how others ask it to do things.
 *
 * A port is one other thread's pair of bounded queues: jobs go in, the same jobs come back done, so an fsync never
 * stalls whoever asked. Open journals are carried out between jobs; after each job and each step the projection is
 * published. A job that has much to do does a piece at a time (JOB_AGAIN), so that a rollback need not wait for the
 * copy of a checkpoint. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REGISTRY_THREAD_H
#define FOLDKV_SCHED_REGISTRY_THREAD_H

#include "sched/release/journal.h"
#include "sched/release/projection.h"

struct registry_thread;
struct registry_port;

enum job_turn { JOB_DONE, JOB_AGAIN };
/* Embedded in whatever the asker keeps; lives from registry_port_submit until registry_port_next gives it back. */
struct registry_job {
    /* On the registry thread; sets status and why. */
    enum job_turn (*run)(struct registry *registry, struct registry_job *job);
    enum status status;
    struct why why;
    void *user;
};

struct registry_thread_options {
    const char *dir; /* NULL: in memory */
    const struct journal_effects
        *effects; /* a loan until registry_thread_free; called on the registry thread */
    /* On the registry thread, after whatever may have changed rows and before its asker hears of it; NULL: nothing. */
    void (*on_rows)(void *user, struct registry *registry);
    /* On the registry thread, when the projection changed; must not block. */
    void (*on_projection)(void *user, const struct projection *projection);
    /* On the registry thread, every tick_ms and not while a job runs; NULL: never. True: it may have changed
     * something, which is projected. */
    bool (*on_tick)(void *user, struct registry *registry);
    uint32_t tick_ms;
    void *user;
    uint32_t queue_max; /* jobs of one port */
};

enum { REGISTRY_PORTS_MAX = 4 };

/* Opens the registry and, unless nothing can be written, the object store, of which it removes what no generation names;
 * carries an open journal out as far as it goes (an effect that needs time gets it, up to recovery_ms) and publishes the
 * first projection: all before it returns, so before any listener opens. Failures as registry_open. */
enum status registry_thread_new(const struct registry_thread_options *options, uint32_t recovery_ms,
                                struct registry_thread **ret_thread, struct why *ret_why) MUST_USE;
/* Ends the thread after the jobs that were submitted; closes the registry. Ports are gone. Takes NULL. */
void registry_thread_free(struct registry_thread **thread);

/* on_wake is called on the registry thread when a job has come back. Before anything is submitted; at most
 * REGISTRY_PORTS_MAX. NO_MEMORY. */
enum status registry_port_new(struct registry_thread *thread, void (*on_wake)(void *user),
                              void *user, struct registry_port **ret_port) MUST_USE;
/* QUEUE_FULL leaves the job with the caller. The port's thread. */
enum status registry_port_submit(struct registry_port *port, struct registry_job *job) MUST_USE;
/* The next job that is done, or NULL. The port's thread. */
struct registry_job *registry_port_next(struct registry_port *port);
/* Has open journals looked at now: an effect that was pending may be done. Any thread. */
void registry_thread_nudge(struct registry_thread *thread);
/* False from the moment in which a write of the registry failed. Any thread. */
bool registry_thread_is_writable(const struct registry_thread *thread);

#endif
