/* token_scores.h: log-probabilities in the completions API's shape {tokens, token_logprobs,
 * top_logprobs, text_offset}.
 *
 * A token that is not whole UTF-8 is printed as bytes:\xNN..., so keys never collide; the chosen
 * token is always among top_logprobs; text_offset counts the characters that were whole before the
 * token. One thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKEN_SCORES_H
#define FOLDKV_SERVER_TOKEN_SCORES_H

#include "sched/request.h"
#include "server/tokenizer.h"

struct json_t;
struct token_scores;

/* Where the first token stands. */
struct token_scores_start {
    size_t offset;     /* characters before it */
    uint32_t n_silent; /* tokens of which the text has nothing: those that encoding put before it */
    bool is_inside;    /* as in tokenizer_text */
};

/* The tokenizer must outlive it. NO_MEMORY. */
enum status token_scores_new(const struct tokenizer *tokenizer, struct token_scores_start start,
                             struct token_scores **ret_scores) MUST_USE;
void token_scores_free(struct token_scores **scores);
/* One more token. NO_MEMORY, after which only free is allowed. */
enum status token_scores_add(struct token_scores *scores,
                             const struct token_output *output) MUST_USE;
/* The object for the tokens added since the last take, for a reply_choice; with none added its
 * lists are empty. NO_MEMORY. */
enum status token_scores_take(struct token_scores *scores, struct json_t **ret_object) MUST_USE;
/* Tokens added since the last take. */
size_t token_scores_pending(const struct token_scores *scores);

#endif
