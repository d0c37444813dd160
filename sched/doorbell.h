/* doorbell.h: how an idle engine is woken: a thread waits until somebody has rung since it last
 * looked.
 *
 * Ringing is cheap and never lost; several rings are one. Any thread may ring; one thread waits. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_DOORBELL_H
#define FOLDKV_SCHED_DOORBELL_H

#include <pthread.h>
#include <stdatomic.h>

#include "config/status.h"

struct doorbell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    atomic_bool is_rung;
    bool is_waiting; /* under lock */
};

enum status doorbell_init(struct doorbell *bell) MUST_USE;
void doorbell_release(struct doorbell *bell);
void doorbell_ring(struct doorbell *bell);
/* Returns once it has been rung since the last return, or after timeout_ns. */
void doorbell_wait(struct doorbell *bell, uint64_t timeout_ns);

#endif
