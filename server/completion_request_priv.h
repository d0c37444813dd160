/* completion_request_priv.h: the table of a completion request's fields. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMPLETION_REQUEST_PRIV_H
#define FOLDKV_SERVER_COMPLETION_REQUEST_PRIV_H

#include "server/completion_request.h"
#include "server/json_fields.h"

/* Reads the fields of the body's object into the request, which has its defaults. */
enum status completion_request_read(json_t *object, struct completion_request *request,
                                    struct why *ret_why) MUST_USE;

#endif
