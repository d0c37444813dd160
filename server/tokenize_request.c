/* tokenize_request.c: two small bodies by the same table reader as the large one.
 *
 * OWNS    The JSON, which slices of the request point into, until the request is freed.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize_request.h"

#include "config/mem.h"
#include "server/json_body.h"
#include "server/json_fields.h"

enum { NAME_BYTES_MAX = 1024 };

static enum status read_prompt(const char *name, const json_t *value, void *target,
                               struct why *ret_why)
{
    struct tokenize_request *request = target;
    return json_read_text(name, value, 0, SIZE_MAX, &request->prompt, ret_why);
}

static enum status read_tokens(const char *name, const json_t *value, void *target,
                               struct why *ret_why)
{
    struct detokenize_request *request = target;
    request->has_tokens = true;
    return json_read_ids(name, value, &request->tokens, &request->n_tokens, ret_why);
}

static const struct json_field tokenize_fields[] = {
    {"model", FIELD_TEXT, offsetof(struct tokenize_request, model), 1, NAME_BYTES_MAX, NULL},
    {"prompt", FIELD_READ, 0, 0, 0, read_prompt},
    {"add_special_tokens", FIELD_BOOL, offsetof(struct tokenize_request, mode.add_special), 0, 0,
     NULL},
    {"parse_special", FIELD_BOOL, offsetof(struct tokenize_request, mode.parse_special), 0, 0,
     NULL},
};

static const struct json_field detokenize_fields[] = {
    {"model", FIELD_TEXT, offsetof(struct detokenize_request, model), 1, NAME_BYTES_MAX, NULL},
    {"tokens", FIELD_READ, 0, 0, 0, read_tokens},
};

static enum status no_memory(struct why *ret_why)
{
    return why_set(ret_why, STATUS_NO_MEMORY, "", "the body: %s", status_text(STATUS_NO_MEMORY));
}

static enum status parse_tokenize(struct slice body, struct tokenize_request *request,
                                  struct why *ret_why)
{
    struct json_body json;
    TRY(json_body_parse(body, NULL, &json, ret_why));
    request->body = json.root;
    TRY(json_fields_read(json.root, tokenize_fields, ARRAY_LEN(tokenize_fields), request, ret_why));
    if (request->prompt.bytes == NULL)
        return why_set(ret_why, STATUS_BAD_REQUEST, "prompt", "prompt: absent; a string is needed");
    return OK;
}

enum status tokenize_request_parse(struct slice body, struct tokenize_request **ret_request,
                                   struct why *ret_why)
{
    *ret_request = NULL;
    struct tokenize_request *request = mem_zalloc(1, sizeof *request);
    if (request == NULL)
        return no_memory(ret_why);
    request->mode = (struct tokenizer_mode){.add_special = true, .parse_special = true};
    enum status s = parse_tokenize(body, request, ret_why);
    if (s != OK)
        tokenize_request_free(&request);
    *ret_request = request;
    return s;
}

void tokenize_request_free(struct tokenize_request **request)
{
    if (*request == NULL)
        return;
    json_decref((*request)->body);
    mem_free(*request);
    *request = NULL;
}

static enum status parse_detokenize(struct slice body, struct detokenize_request *request,
                                    struct why *ret_why)
{
    struct json_body json;
    TRY(json_body_parse(body, NULL, &json, ret_why));
    request->body = json.root;
    TRY(json_fields_read(json.root, detokenize_fields, ARRAY_LEN(detokenize_fields), request,
                         ret_why));
    if (!request->has_tokens)
        return why_set(ret_why, STATUS_BAD_REQUEST, "tokens",
                       "tokens: absent; an array of token ids is needed");
    return OK;
}

enum status detokenize_request_parse(struct slice body, struct detokenize_request **ret_request,
                                     struct why *ret_why)
{
    *ret_request = NULL;
    struct detokenize_request *request = mem_zalloc(1, sizeof *request);
    if (request == NULL)
        return no_memory(ret_why);
    enum status s = parse_detokenize(body, request, ret_why);
    if (s != OK)
        detokenize_request_free(&request);
    *ret_request = request;
    return s;
}

void detokenize_request_free(struct detokenize_request **request)
{
    if (*request == NULL)
        return;
    mem_free((*request)->tokens);
    json_decref((*request)->body);
    mem_free(*request);
    *request = NULL;
}
