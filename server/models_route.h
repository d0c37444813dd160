/* models_route.h: GET /v1/models and GET /v1/models/{id}. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_MODELS_ROUTE_H
#define FOLDKV_SERVER_MODELS_ROUTE_H

#include "server/connection.h"

void models_answer(struct connection *c);
void models_answer_one(struct connection *c);
/* %41 becomes A, in place; false if a '%' is not followed by two hex digits or gives a NUL. */
bool models_decode_path(char *text);

#endif
