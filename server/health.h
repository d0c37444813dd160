/* health.h: the probes of an orchestrator; none waits for the engine. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_HEALTH_H
#define FOLDKV_SERVER_HEALTH_H

#include "server/connection.h"

/* 200 if the loop turns (it answers) and the engine has made progress lately or is idle; else 503. */
void health_livez(struct connection *c);
/* 200 if the model is loaded and the server is not draining; else 503. With ?verbose the checks one by one. */
void health_readyz(struct connection *c);
/* 200 once the model is loaded, also while draining. */
void health_startupz(struct connection *c);

#endif
