/* workers.h: a fixed pool that runs one function on every thread, with a barrier inside.
 *
 * The calling thread is member 0; the pool makes n - 1 more. Workers run kernels only and decide nothing. They spin briefly
 * between runs and sleep when there is nothing to do. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_WORKERS_H
#define FOLDKV_KERNELS_WORKERS_H

#include "config/why.h"

struct workers;

typedef void workers_fn(void *arg, uint32_t tid);

/* n 1..256 threads in all. NO_MEMORY, or UNAVAILABLE if a thread could not be made (those made are ended first). */
enum status workers_new(uint32_t n, struct workers **ret_workers, struct why *ret_why) MUST_USE;
void workers_free(struct workers **workers);
uint32_t workers_count(const struct workers *workers);
/* A member on every processor that the process may use: while they work, no other thread has one to itself. */
bool workers_take_all(const struct workers *workers);
/* Runs fn(arg, tid) on every member and returns when all are done. Only from the thread that made the pool, or from one other
 * thread that has taken it over for good. Allocates nothing. */
void workers_run(struct workers *workers, workers_fn *fn, void *arg);
/* Inside a run: waits until every member is here. */
void workers_barrier(struct workers *workers);
/* The share [*first, *end) of n items for member tid of n_threads, in multiples of grain; contiguous and nearly equal. */
void workers_share(uint32_t n, uint32_t grain, uint32_t tid, uint32_t n_threads, uint32_t *ret_first,
                   uint32_t *ret_end);

#endif
