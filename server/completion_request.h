/* completion_request.h: the body of POST /v1/completions, checked field by field.
 *
 * Every top-level field is known or refused by name; a field that is not served is accepted at its
 * neutral value only; null is absence. Any thread; one at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMPLETION_REQUEST_H
#define FOLDKV_SERVER_COMPLETION_REQUEST_H

#include "sched/request.h"
#include "server/stop_match.h"
#include "server/tokenizer.h"

struct json_t;

/* Slices point into the body, which the request keeps; bytes are NULL where the field is absent. */
struct completion_request {
    struct slice model, user, prompt_cache_key, cache_salt;
    struct slice prompt;  /* bytes NULL if the prompt came as ids */
    uint32_t *prompt_ids; /* NULL if it came as text; owned */
    uint32_t n_prompt_ids;
    uint32_t max_tokens;      /* 0 only with echo */
    struct sampling sampling; /* seed is 0 without has_seed */
    bool has_seed;            /* false: the caller picks one */
    int32_t logprobs;         /* -1: none */
    bool echo, stream, ignore_eos;
    bool include_usage;    /* a last chunk with the usage */
    bool continuous_usage; /* usage in every chunk; only with include_usage */
    struct slice stops[STOP_STRINGS_MAX];
    uint32_t n_stops;
    struct json_t *body;
};

/* BAD_REQUEST or UNSUPPORTED_FIELD with ret_why's field set to the field at fault ("" for the body
 * itself); NO_MEMORY. */
enum status completion_request_parse(struct slice body, struct completion_request **ret_request,
                                     struct why *ret_why) MUST_USE;
void completion_request_free(struct completion_request **request);
/* Scores of prompt tokens are wanted. */
bool completion_request_scores_prompt(const struct completion_request *request);
/* The prompt's tokens, 1 to context of them, special tokens recognised and added as the file says.
 * ids must be zeroed; it owns what it gets, also on failure. CONTEXT_LENGTH with both numbers;
 * BAD_REQUEST for ids outside the vocabulary or a prompt without a token; NO_MEMORY. Over 16 KiB of
 * prompt this belongs on a worker thread. */
enum status completion_request_encode(const struct completion_request *request,
                                      const struct tokenizer *tokenizer, uint32_t context,
                                      struct token_ids *ids, struct why *ret_why) MUST_USE;

#endif
