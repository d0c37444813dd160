/* completion_request_fuzz.c: any bytes as the body of a request for text, tokens or a completion.
 *
 * ALWAYS  (1) What is accepted is within its limits.                               check_request
 *         (2) What is refused says why, and what is said is JSON in an error.      check_refusal
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_request.h"

#include <jansson.h>

#include "server/error_reply.h"
#include "server/json_memory.h"
#include "server/tokenize_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_refusal(enum status s, const struct why *why)
{
    char json[ERROR_REPLY_BYTES];
    ASSERT(s == STATUS_BAD_REQUEST || s == STATUS_UNSUPPORTED_FIELD || s == STATUS_NO_MEMORY);
    ASSERT(why->text[0] != '\0');
    json_t *root = json_loadb(json, error_reply(s, why, json), 0, NULL);
    ASSERT(json_is_object(root));
    json_decref(root);
}

static void check_request(const struct completion_request *request)
{
    const struct sampling *s = &request->sampling;
    ASSERT((request->prompt.bytes != NULL) != (request->n_prompt_ids > 0));
    ASSERT(request->max_tokens <= INT32_MAX && (request->max_tokens > 0 || request->echo));
    ASSERT(s->temperature >= 0 && s->temperature <= 2 && s->top_p > 0 && s->top_p <= 1);
    ASSERT(s->min_p >= 0 && s->min_p <= 1 && s->top_k <= INT32_MAX);
    ASSERT(request->logprobs >= -1 && request->logprobs <= TOP_LOGPROBS_MAX);
    ASSERT(request->n_stops <= STOP_STRINGS_MAX);
    for (uint32_t i = 0; i < request->n_stops; i++)
        ASSERT(request->stops[i].len >= 1 && request->stops[i].len <= STOP_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    json_memory_install();
    struct slice body = {(const char *)bytes, len};
    struct completion_request *request;
    struct tokenize_request *tokenize;
    struct detokenize_request *detokenize;
    struct why why = {.text = ""};
    enum status s = completion_request_parse(body, &request, &why);
    if (s == OK)
        check_request(request);
    else
        check_refusal(s, &why);
    completion_request_free(&request);
    s = tokenize_request_parse(body, &tokenize, &why);
    if (s != OK)
        check_refusal(s, &why);
    tokenize_request_free(&tokenize);
    s = detokenize_request_parse(body, &detokenize, &why);
    if (s != OK)
        check_refusal(s, &why);
    detokenize_request_free(&detokenize);
    return 0;
}
