/* thread_slice.c: sched_setattr, for which the C library has no function.
 *
 * WHY     With a worker on every core, the loop waits for a turn each time a token is to be sent; a
 *         client then sees a gap of some milliseconds that no step has made.
 * HOW     Deadlines decide whose turn it is (EEVDF), and a short slice is an early deadline.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/thread_slice.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 100000 };

void thread_slice_shorten(void)
{
    struct sched_attr attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0)
        return;
    attr.sched_runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0); /* a refusal costs speed only */
}
