/* retry_after.h: how long a client that was refused should wait. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_RETRY_AFTER_H
#define FOLDKV_SERVER_RETRY_AFTER_H

#include "server/service.h"

/* Seconds, 1 to 60. */
unsigned retry_after_s(const struct service *service);
/* The rule itself: what waits, in batches of running_max, each taking the mean time of a request. */
unsigned retry_after_rule(uint64_t waiting, uint32_t running_max, double request_mean_s);

#endif
