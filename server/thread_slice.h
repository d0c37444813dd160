/* thread_slice.h: how long a thread wants the processor at a time.
 *
 * Any thread, for itself. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_THREAD_SLICE_H
#define FOLDKV_SERVER_THREAD_SLICE_H

/* Asks the scheduler for turns of 0.1 ms instead of some milliseconds: a thread that works in short
 * bursts is then let in at once by those that compute without end, and no later for it over a
 * second. Linux 6.12 and newer; elsewhere nothing changes. */
void thread_slice_shorten(void);

#endif
