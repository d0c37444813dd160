/* tokenize_reply.h: the answers of POST /tokenize and POST /detokenize as JSON text: mem_alloc'd,
 * NUL-terminated. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKENIZE_REPLY_H
#define FOLDKV_SERVER_TOKENIZE_REPLY_H

#include "config/status.h"

/* {"tokens":[...],"count":n,"max_model_len":context}. NO_MEMORY. */
enum status tokenize_reply(const uint32_t *ids, size_t n_ids, uint32_t context, char **ret_json,
                           size_t *ret_len) MUST_USE;
/* {"prompt":text}; bytes that are not UTF-8 become U+FFFD. NO_MEMORY. */
enum status detokenize_reply(struct slice text, char **ret_json, size_t *ret_len) MUST_USE;

#endif
