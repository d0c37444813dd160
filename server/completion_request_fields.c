/* completion_request_fields.c: what each field of a completion request may be.
 *
 * HOW     One row a field; those whose value has a shape of its own have a reader above the table.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/completion_request_priv.h"

enum { NAME_BYTES_MAX = 1024 };

static enum status read_prompt(const char *name, const json_t *value, void *target,
                               struct why *ret_why)
{
    struct completion_request *request = target;
    if (json_is_string(value)) {
        request->prompt = (struct slice){json_string_value(value), json_string_length(value)};
        return OK;
    }
    const json_t *first = json_array_get(value, 0); /* NULL for what is no array or empty */
    if (first == NULL)
        return json_refuse(name, value, "a string or an array of 1 or more token ids", ret_why);
    if (json_is_string(first) || json_is_array(first))
        return why_set(
            ret_why, STATUS_UNSUPPORTED_FIELD, name,
            "%s: an array of prompts is not served; one string or one array of token ids is", name);
    return json_read_ids(name, value, &request->prompt_ids, &request->n_prompt_ids, ret_why);
}

static enum status read_seed(const char *name, const json_t *value, void *target,
                             struct why *ret_why)
{
    struct completion_request *request = target;
    if (!json_is_integer(value))
        return json_refuse(name, value, "an integer of 64 bits", ret_why);
    request->sampling.seed = (uint64_t)json_integer_value(value);
    request->has_seed = true;
    return OK;
}

static enum status read_stop(const char *name, const json_t *value, void *target,
                             struct why *ret_why)
{
    struct completion_request *request = target;
    if (!json_is_array(value)) {
        request->n_stops = 1;
        return json_read_text(name, value, 1, STOP_BYTES_MAX, &request->stops[0], ret_why);
    }
    size_t n = json_array_size(value);
    if (n > STOP_STRINGS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, name, "%s: %zu strings; at most %d are served",
                       name, n, STOP_STRINGS_MAX);
    for (size_t i = 0; i < n; i++) {
        char item[32];
        snprintf(item, sizeof item, "%s[%zu]", name, i);
        TRY(json_read_text(item, json_array_get(value, i), 1, STOP_BYTES_MAX, &request->stops[i],
                           ret_why));
    }
    request->n_stops = (uint32_t)n;
    return OK;
}

/* Other keys in it are other servers' and change no answer. */
static enum status read_stream_options(const char *name, const json_t *value, void *target,
                                       struct why *ret_why)
{
    struct completion_request *request = target;
    if (!json_is_object(value))
        return json_refuse(name, value, "an object", ret_why);
    const struct {
        const char *key, *name;
        bool *at;
    } options[] = {
        {"include_usage", "stream_options.include_usage", &request->include_usage},
        {"continuous_usage_stats", "stream_options.continuous_usage_stats",
         &request->continuous_usage},
    };
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const json_t *option = json_object_get(value, options[i].key);
        if (option == NULL || json_is_null(option))
            continue;
        if (!json_is_boolean(option))
            return json_refuse(options[i].name, option, "true or false", ret_why);
        *options[i].at = json_is_true(option);
    }
    return OK;
}

static enum status read_response_format(const char *name, const json_t *value, void *target,
                                        struct why *ret_why)
{
    (void)target;
    const char *type = json_string_value(json_object_get(value, "type"));
    if (type == NULL)
        return json_refuse(name, value, "an object with a type", ret_why);
    if (strcmp(type, "text") != 0)
        return why_set(ret_why, STATUS_UNSUPPORTED_FIELD, name,
                       "%s: type \"%.40s\" is not served; \"text\" or null is", name, type);
    return OK;
}

#define AT(member) offsetof(struct completion_request, member)
/* clang-format off: it takes a brace in a macro for a block */
#define BOOL(name)                                                                                 \
    {                                                                                              \
#name, FIELD_BOOL, AT(name), 0, 0, NULL                                                    \
    }
#define INTEGER(name, member, least, most)                                                         \
    {                                                                                              \
#name, FIELD_INTEGER, AT(member), least, most, NULL                                        \
    }
#define NUMBER(name, kind, most)                                                                   \
    {                                                                                              \
#name, kind, AT(sampling.name), 0, most, NULL                                              \
    }
#define TEXT(name, least, most)                                                                    \
    {                                                                                              \
#name, FIELD_TEXT, AT(name), least, most, NULL                                             \
    }
#define READ(name)                                                                                 \
    {                                                                                              \
#name, FIELD_READ, 0, 0, 0, read_##name                                                    \
    }
#define ONLY(name, number)                                                                         \
    {                                                                                              \
#name, FIELD_ONLY_NUMBER, 0, 0, number, NULL                                               \
    }
#define KIND(name, kind)                                                                           \
    {                                                                                              \
#name, kind, 0, 0, 0, NULL                                                                 \
    }
/* clang-format on */

static const struct json_field fields[] = {
    TEXT(model, 1, NAME_BYTES_MAX),
    READ(prompt),
    INTEGER(max_tokens, max_tokens, 0, INT32_MAX),
    NUMBER(temperature, FIELD_NUMBER, 2),
    NUMBER(top_p, FIELD_NUMBER_ABOVE, 1),
    NUMBER(min_p, FIELD_NUMBER, 1),
    INTEGER(top_k, sampling.top_k, 0, INT32_MAX),
    READ(seed),
    READ(stop),
    BOOL(stream),
    READ(stream_options),
    INTEGER(logprobs, logprobs, 0, TOP_LOGPROBS_MAX),
    BOOL(echo),
    BOOL(ignore_eos),
    TEXT(cache_salt, 1, NAME_BYTES_MAX),
    TEXT(user, 0, NAME_BYTES_MAX),
    TEXT(prompt_cache_key, 0, NAME_BYTES_MAX),
    ONLY(n, 1),
    ONLY(best_of, 1),
    ONLY(presence_penalty, 0),
    ONLY(frequency_penalty, 0),
    ONLY(repetition_penalty, 1),
    ONLY(typical_p, 1),
    ONLY(min_tokens, 0),
    ONLY(priority, 0),
    KIND(suffix, FIELD_ONLY_EMPTY),
    KIND(logit_bias, FIELD_ONLY_EMPTY),
    KIND(stop_token_ids, FIELD_ONLY_EMPTY),
    KIND(return_token_ids, FIELD_ONLY_FALSE),
    KIND(grammar, FIELD_ONLY_NULL),
    KIND(timeout_ms, FIELD_ONLY_NULL),
    KIND(max_completion_tokens, FIELD_ONLY_NULL),
    READ(response_format),
    KIND(store, FIELD_ANY_BOOL),
    KIND(metadata, FIELD_ANY_OBJECT),
    KIND(service_tier, FIELD_ANY_TEXT),
    KIND(parallel_tool_calls, FIELD_ANY_BOOL),
};

enum status completion_request_read(json_t *object, struct completion_request *request,
                                    struct why *ret_why)
{
    return json_fields_read(object, fields, ARRAY_LEN(fields), request, ret_why);
}
