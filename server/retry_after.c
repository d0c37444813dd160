/* retry_after.c: the queue's length in units of time.
 *
 * WHY     A fixed number makes every refused client come back at the same moment, too early or too late.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/retry_after.h"

enum { LEAST_S = 1, MOST_S = 60 };

unsigned retry_after_rule(uint64_t waiting, uint32_t running_max, double request_mean_s)
{
    double wait_s = (double)waiting / (double)running_max * request_mean_s;
    if (wait_s >= MOST_S)
        return MOST_S;
    return wait_s > LEAST_S ? (unsigned)wait_s : LEAST_S;
}

unsigned retry_after_s(const struct service *service)
{
    struct engine_stats stats;
    engine_stats_copy(service->engine, &stats);
    return retry_after_rule(stats.requests_waiting, service->options.engine_running_max,
                            histogram_mean(&service->stats->request_time));
}
