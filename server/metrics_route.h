/* metrics_route.h: GET /metrics. Loop thread; answered from counters that the engine publishes. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_METRICS_ROUTE_H
#define FOLDKV_SERVER_METRICS_ROUTE_H

#include "server/connection.h"

void metrics_answer(struct connection *c);

#endif
