/* tokenize_request.h: the bodies of POST /tokenize and POST /detokenize, checked. Any thread; one
 * at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKENIZE_REQUEST_H
#define FOLDKV_SERVER_TOKENIZE_REQUEST_H

#include "server/tokenizer.h"

struct json_t;

/* The slices point into the body, which the request keeps. */
struct tokenize_request {
    struct slice model; /* bytes NULL if absent */
    struct slice prompt;
    struct tokenizer_mode mode;
    struct json_t *body;
};

struct detokenize_request {
    struct slice model;
    uint32_t *tokens; /* owned; NULL if there is none; not yet compared with a vocabulary */
    uint32_t n_tokens;
    bool has_tokens; /* the field was there */
    struct json_t *body;
};

/* BAD_REQUEST with the field at fault; NO_MEMORY. */
enum status tokenize_request_parse(struct slice body, struct tokenize_request **ret_request,
                                   struct why *ret_why) MUST_USE;
void tokenize_request_free(struct tokenize_request **request);
enum status detokenize_request_parse(struct slice body, struct detokenize_request **ret_request,
                                     struct why *ret_why) MUST_USE;
void detokenize_request_free(struct detokenize_request **request);

#endif
