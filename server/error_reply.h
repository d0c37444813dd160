/* error_reply.h: {"error":{message,type,param,code}} into a fixed buffer, so that it can be said
 * when memory has run out. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ERROR_REPLY_H
#define FOLDKV_SERVER_ERROR_REPLY_H

#include "config/why.h"

enum { ERROR_REPLY_BYTES = 2048 };

/* Writes the body and returns its length without the NUL. why NULL or without a text: the status's
 * own sentence; its field is the param, null if empty. s must not be OK. The HTTP code is
 * status_http(s). */
size_t error_reply(enum status s, const struct why *why, char ret_json[ERROR_REPLY_BYTES]);

#endif
