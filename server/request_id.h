/* request_id.h: the x-request-id of a request: the client's own if it is well-formed, else one of ours. Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_REQUEST_ID_H
#define FOLDKV_SERVER_REQUEST_ID_H

#include "server/http_parse.h"

enum { REQUEST_ID_BYTES = 129 };

/* seed makes ids of two runs differ; *n_ids counts those made. */
void request_id_choose(const struct http_head *head, uint64_t seed, uint64_t *n_ids,
                       char ret_id[REQUEST_ID_BYTES]);

#endif
