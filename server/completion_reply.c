/* completion_reply.c: what a completion looks like on the wire.
 *
 * HOW     Each part is packed by jansson; a part that could not be made is NULL, which fails the
 *         whole, so memory is looked at once, at the end.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_reply.h"

#include "server/json_text.h"

static json_t *finish_name(enum finish_reason reason)
{
    ASSERT(reason == FINISH_NONE || reason == FINISH_STOP || reason == FINISH_LENGTH);
    return reason == FINISH_NONE ? json_null()
                                 : json_string(reason == FINISH_STOP ? "stop" : "length");
}

/* Takes the scores. */
static json_t *choice_object(struct reply_choice *choice)
{
    json_t *scores = choice->scores != NULL ? choice->scores : json_null();
    choice->scores = NULL;
    return json_pack("{s:o, s:i, s:o, s:o}", "text", json_text_string(choice->text), "index", 0,
                     "logprobs", scores, "finish_reason", finish_name(choice->finish_reason));
}

static json_t *usage_object(const struct reply_usage *usage)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                     "completion_tokens", (json_int_t)usage->completion_tokens, "total_tokens",
                     (json_int_t)usage->prompt_tokens + (json_int_t)usage->completion_tokens,
                     "prompt_tokens_details", "cached_tokens", (json_int_t)usage->cached_tokens);
}

static json_t *reply_object(const struct reply_head *head, json_t *choices)
{
    struct slice model = {head->model, strlen(head->model)}, id = {head->id, strlen(head->id)};
    return json_pack("{s:o, s:s, s:I, s:o, s:o}", "id", json_text_string(id), "object",
                     "text_completion", "created", (json_int_t)head->created_s, "model",
                     json_text_string(model), "choices", choices);
}

/* Adds usage to a reply that may be NULL; takes usage. The reply, or NULL if either was not
 * there. */
static json_t *with_member(json_t *reply, json_t *usage)
{
    if (reply == NULL) {
        json_decref(usage);
        return NULL;
    }
    if (json_object_set_new(reply, "usage", usage) == 0)
        return reply;
    json_decref(reply);
    return NULL;
}

enum status completion_reply_whole(const struct reply_head *head, struct reply_choice *choice,
                                   const struct reply_usage *usage, char **ret_json,
                                   size_t *ret_len)
{
    json_t *reply = reply_object(head, json_pack("[o]", choice_object(choice)));
    reply = with_member(reply, usage_object(usage));
    return json_text_print(&reply, ret_json, ret_len);
}

enum status completion_reply_chunk(const struct reply_head *head, struct reply_choice *choice,
                                   const struct reply_usage *usage, bool with_usage,
                                   char **ret_json, size_t *ret_len)
{
    json_t *reply =
        reply_object(head, choice != NULL ? json_pack("[o]", choice_object(choice)) : json_array());
    if (usage != NULL || with_usage)
        reply = with_member(reply, usage != NULL ? usage_object(usage) : json_null());
    return json_text_print(&reply, ret_json, ret_len);
}
