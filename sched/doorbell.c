/* doorbell.c: a flag with a condition variable behind it.
 *
 * WHY     An engine that computes must not pay for a lock when a request comes in, and an idle one
 *         must not spin.
 * HOW     The ringer sets the flag; only if the waiter is asleep does it take the lock and signal.
 *         The waiter says under the lock that it will sleep and then looks at the flag once more,
 *         so no ring falls between.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/doorbell.h"

#include <time.h>

enum { NS_A_SECOND = 1000000000 };

enum status doorbell_init(struct doorbell *bell)
{
    pthread_condattr_t attr;
    atomic_init(&bell->is_rung, false);
    bell->is_waiting = false;
    if (pthread_condattr_init(&attr) != 0)
        return STATUS_NO_MEMORY;
    bool ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&bell->rung, &attr) == 0;
    pthread_condattr_destroy(&attr);
    if (!ok)
        return STATUS_NO_MEMORY;
    if (pthread_mutex_init(&bell->lock, NULL) != 0) {
        pthread_cond_destroy(&bell->rung);
        return STATUS_NO_MEMORY;
    }
    return OK;
}

void doorbell_release(struct doorbell *bell)
{
    pthread_cond_destroy(&bell->rung);
    pthread_mutex_destroy(&bell->lock);
}

void doorbell_ring(struct doorbell *bell)
{
    if (atomic_exchange(&bell->is_rung, true))
        return;
    pthread_mutex_lock(&bell->lock);
    if (bell->is_waiting)
        pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

void doorbell_wait(struct doorbell *bell, uint64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(ns / NS_A_SECOND);
    until.tv_nsec = (long)(ns % NS_A_SECOND);
    pthread_mutex_lock(&bell->lock);
    bell->is_waiting = true;
    int timed_out = 0;
    while (!atomic_load(&bell->is_rung) && !timed_out)
        timed_out = pthread_cond_timedwait(&bell->rung, &bell->lock, &until);
    bell->is_waiting = false;
    pthread_mutex_unlock(&bell->lock);
    atomic_store(&bell->is_rung, false);
}
