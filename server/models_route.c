/* models_route.c: the list of models, which has one so far. */
// SPDX-License-Identifier: Apache-2.0
#include "server/models_route.h"

#include "config/mem.h"
#include "server/json_text.h"
#include "server/response.h"

static json_t *model_object(const struct service *service)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:I}", "id", service->model_name, "object", "model",
                     "created", (json_int_t)service->created_s, "owned_by", "foldkv",
                     "max_model_len", (json_int_t)lane_context(service->lane));
}

/* Takes object, which may be NULL: an earlier failure. */
static void answer_object(struct connection *c, json_t *object)
{
    char *json = NULL;
    size_t len = 0;
    enum status s = json_text_print(&object, &json, &len);
    if (s == OK)
        response_json(c, json, len);
    else
        response_error(c, s, NULL);
    mem_free(json);
}

void models_answer(struct connection *c)
{
    answer_object(c, json_pack("{s:s, s:[o]}", "object", "list", "data",
                               model_object(connection_service(c))));
}

bool models_decode_path(char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *out = text;
    for (; *text != '\0'; text++, out++) {
        *out = *text;
        if (*text != '%')
            continue;
        const char *high = text[1] != '\0' ? strchr(digits, text[1] | 0x20) : NULL;
        const char *low = high != NULL && text[2] != '\0' ? strchr(digits, text[2] | 0x20) : NULL;
        if (low == NULL || (*out = (char)((high - digits) << 4 | (low - digits))) == '\0')
            return false;
        text += 2;
    }
    *out = '\0';
    return true;
}

void models_answer_one(struct connection *c)
{
    char id[HTTP_TARGET_MAX];
    struct why why = {0};
    const struct service *service = connection_service(c);
    snprintf(id, sizeof id, "%s", connection_head(c)->path + strlen("/v1/models/"));
    if (models_decode_path(id) && strcmp(id, service->model_name) == 0) {
        answer_object(c, model_object(service));
        return;
    }
    (void)why_set(&why, STATUS_MODEL_NOT_FOUND, "model",
                  "the model '%.100s' is not served; '%s' is", id, service->model_name);
    response_error(c, STATUS_MODEL_NOT_FOUND, &why);
}
