/* completion.h: POST /v1/completions, from the body to the last byte of the answer. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMPLETION_H
#define FOLDKV_SERVER_COMPLETION_H

#include "server/connection.h"

struct completion;

/* The route. */
void completion_answer(struct connection *c);
/* The request has news: what engine_next_ready gave. May free the completion and the request. */
void completion_on_ready(struct request *request);
/* Asks the engine to stop all of them; those with a client end with an error that says that the server shuts down. */
void completion_cancel_all(struct service *service);

#endif
