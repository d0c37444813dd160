/* completion_request.c: a body becomes a request: JSON, fields, and what fields say together; then
 * its prompt becomes tokens.
 *
 * OWNS    The JSON, which slices of the request point into, until completion_request_free.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_request_priv.h"

#include "config/mem.h"
#include "server/json_body.h"

enum { MAX_TOKENS_DEFAULT = 16 };

/* What one field alone cannot tell. */
static enum status check_together(const struct completion_request *request, struct why *ret_why)
{
    if (request->prompt.bytes == NULL && request->prompt_ids == NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                       "prompt: absent; a string or an array of 1 or more token ids is needed");
    if (request->max_tokens == 0 && !request->echo)
        return why_set(ret_why, STATUS_BAD_REQUEST, "max_tokens",
                       "max_tokens: 0 without echo; 1 or more, or echo: true is right");
    if (!request->stream && (request->include_usage || request->continuous_usage))
        return why_set(ret_why, STATUS_BAD_REQUEST, "stream_options",
                       "stream_options: without stream; stream: true is right");
    if (request->continuous_usage && !request->include_usage)
        return why_set(ret_why, STATUS_BAD_REQUEST, "stream_options.continuous_usage_stats",
                       "stream_options.continuous_usage_stats: without include_usage; "
                       "include_usage: true is right");
    return OK;
}

static enum status parse(struct slice body, struct completion_request *request, struct why *ret_why)
{
    struct json_body json;
    TRY(json_body_parse(body, "seed", &json, ret_why));
    request->body = json.root;
    TRY(completion_request_read(json.root, request, ret_why));
    if (json.big.from != json.big.to)
        request->sampling.seed = json.big.value;
    return check_together(request, ret_why);
}

enum status completion_request_parse(struct slice body, struct completion_request **ret_request,
                                     struct why *ret_why)
{
    *ret_request = NULL;
    struct completion_request *request = mem_zalloc(1, sizeof *request);
    if (request == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "the body: %s",
                       status_text(STATUS_NO_MEMORY));
    request->max_tokens = MAX_TOKENS_DEFAULT;
    request->sampling = (struct sampling){.temperature = 1, .top_p = 1};
    request->logprobs = -1;
    enum status s = parse(body, request, ret_why);
    if (s != OK)
        completion_request_free(&request);
    *ret_request = request;
    return s;
}

void completion_request_free(struct completion_request **request)
{
    if (*request == NULL)
        return;
    mem_free((*request)->prompt_ids);
    json_decref((*request)->body);
    mem_free(*request);
    *request = NULL;
}

bool completion_request_scores_prompt(const struct completion_request *request)
{
    return request->echo && request->logprobs >= 0;
}

static enum status copy_ids(const struct completion_request *request, uint32_t n_tokens,
                            struct token_ids *ids, struct why *ret_why)
{
    for (uint32_t i = 0; i < request->n_prompt_ids; i++) {
        uint32_t id = request->prompt_ids[i];
        if (id >= n_tokens)
            return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                           "prompt[%u]: %u is no token; 0 to %u are", i, id, n_tokens - 1);
        if (token_ids_add(ids, id) != OK)
            return why_set(ret_why, STATUS_NO_MEMORY, "prompt", "prompt: %s",
                           status_text(STATUS_NO_MEMORY));
    }
    if (ids->count > ids->limit)
        return why_set(ret_why, STATUS_CONTEXT_LENGTH, "prompt",
                       "prompt: %zu tokens; the context holds %zu", ids->count, ids->limit);
    return OK;
}

enum status completion_request_encode(const struct completion_request *request,
                                      const struct tokenizer *tokenizer, uint32_t context,
                                      struct token_ids *ids, struct why *ret_why)
{
    token_ids_init(ids, context);
    if (request->prompt_ids != NULL)
        return copy_ids(request, vocabulary_count(tokenizer_vocabulary(tokenizer)), ids, ret_why);
    struct tokenizer_mode mode = {.add_special = true, .parse_special = true};
    TRY(tokenizer_encode(tokenizer, request->prompt, mode, ids, ret_why));
    if (ids->count == 0)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt",
                       "prompt: it has no token; 1 or more are needed");
    return OK;
}
