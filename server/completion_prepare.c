/* completion_prepare.c: from the bytes of a body to a request that the engine has accepted.
 *
 * HOW     Parsing and encoding touch nothing but the completion and the read-only tokenizer, so a worker may do them.
 * THREAD  completion_prepare any, completion_submit loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_priv.h"

#include "config/mem.h"
#include "config/sha256.h"

static enum status prepare(struct completion *k)
{
    struct slice body = {k->body.bytes != NULL ? k->body.bytes : "", k->body.len};
    TRY(completion_request_parse(body, &k->asked, &k->why));
    TRY(service_check_model(k->service, k->asked->model, &k->why));
    return completion_request_encode(k->asked, k->service->tokenizer,
                                     k->context, &k->ids, &k->why);
}

void completion_prepare(struct completion *k)
{
    k->status = prepare(k);
    byte_buffer_release(&k->body); /* what is needed of it is in asked */
}

/* The engine ends at the context's end, whatever was asked; what can never be used is not allocated. */
static uint32_t usable_tokens(const struct completion *k)
{
    uint32_t context = lane_context(k->choice.lane), n_ids = (uint32_t)k->ids.count;
    uint32_t room =
        n_ids < context ? context - n_ids : 1; /* 1: the engine refuses it, with the numbers */
    return k->asked->max_tokens < room ? k->asked->max_tokens : room;
}

static enum status fill_params(struct completion *k, struct request_params *ret_params)
{
    const struct completion_request *a = k->asked;
    *ret_params = (struct request_params){.ids = k->ids.ids,
                                          .n_ids = (uint32_t)k->ids.count,
                                          .max_tokens = usable_tokens(k),
                                          .sampling = a->sampling,
                                          .logprobs = a->logprobs,
                                          .prompt_logprobs = completion_request_scores_prompt(a),
                                          .ignore_eos = a->ignore_eos,
                                          .has_salt = a->cache_salt.bytes != NULL};
    if (!a->has_seed)
        ret_params->sampling.seed = k->service->next_seed +=
            0x9e3779b97f4a7c15u; /* the golden ratio: all seeds differ */
    if (ret_params->has_salt)
        TRY(sha256_of(a->cache_salt.bytes, a->cache_salt.len, ret_params->salt));
    return OK;
}

/* The prompt as the client gave it, its text or its tokens' bytes, goes out first. */
static enum status echo_prompt(struct completion *k)
{
    const struct completion_request *a = k->asked;
    if (!a->echo)
        return OK;
    if (a->prompt.bytes == NULL)
        return tokenizer_decode(k->service->tokenizer, a->prompt_ids, a->n_prompt_ids, &k->text,
                                &k->why);
    byte_buffer_append(&k->text, a->prompt.bytes, a->prompt.len);
    return k->text.failed ? STATUS_NO_MEMORY : OK;
}

/* Where the first token that is generated stands, and the first one that is scored. */
static struct token_scores_start find_place(struct completion *k)
{
    const struct completion_request *a = k->asked;
    const struct tokenizer *tokenizer = k->service->tokenizer;
    (void)tokenizer_text(tokenizer, k->ids.ids[k->ids.count - 1], &k->is_inside);
    if (!completion_request_scores_prompt(a))
        return (struct token_scores_start){.is_inside = k->is_inside};
    bool has_bos = a->prompt.bytes != NULL && vocabulary_adds_bos(tokenizer_vocabulary(tokenizer));
    return (struct token_scores_start){.n_silent = has_bos ? 1 : 0};
}

/* Everything that can fail for want of memory, before the engine has it. */
static enum status make_parts(struct completion *k)
{
    const struct completion_request *a = k->asked;
    k->wish = (struct completion_wish){a->stream, a->include_usage, a->continuous_usage};
    TRY(echo_prompt(k));
    TRY(stop_match_new(a->stops, a->n_stops, &k->stops));
    struct token_scores_start start = find_place(k);
    if (a->logprobs >= 0)
        TRY(token_scores_new(k->service->tokenizer, start, &k->scores));
    struct request_params params;
    TRY(fill_params(k, &params));
    k->n_prompt = params.n_ids;
    enum status s = request_new(&params, k, &k->request);
    k->ids.ids = params.ids; /* NULL if the request took it */
    return s;
}

enum status completion_submit(struct completion *k)
{
    TRY(completion_choose(k));
    TRY(make_parts(k));
    struct request *mine =
        k->request; /* submit takes the pointer it is given; k keeps a loan until done */
    TRY(completion_hand_over(k, &mine));
    k->is_submitted = true;
    completion_request_free(&k->asked);
    k->submitted_ns = uv_hrtime();
    return OK;
}
