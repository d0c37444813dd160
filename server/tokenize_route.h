/* tokenize_route.h: POST /tokenize and POST /detokenize. Loop thread; large bodies are worked on elsewhere. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKENIZE_ROUTE_H
#define FOLDKV_SERVER_TOKENIZE_ROUTE_H

#include "server/connection.h"

void tokenize_answer(struct connection *c);
void detokenize_answer(struct connection *c);

#endif
