/* service.c: the one rule that several routes share: which model a request may name. */
// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

bool service_is_pin(const struct service *service, struct slice asked)
{
    enum { LEAST = 8, MOST = 64 };
    if (!service->may_pin || asked.bytes == NULL || asked.len < LEAST || asked.len > MOST)
        return false;
    for (size_t i = 0; i < asked.len; i++)
        if (strchr("0123456789abcdef", asked.bytes[i]) == NULL)
            return false;
    return true;
}

enum status service_check_model(const struct service *service, struct slice asked,
                                struct why *ret_why)
{
    enum { SHOWN_MAX = 100 };
    const char *name = service->model_name;
    if (asked.bytes == NULL || service_is_pin(service, asked) ||
        (asked.len == strlen(name) && memcmp(asked.bytes, name, asked.len) == 0))
        return OK;
    return why_set(ret_why, STATUS_MODEL_NOT_FOUND, "model",
                   "the model '%.*s' is not served; '%s' is",
                   (int)(asked.len < SHOWN_MAX ? asked.len : SHOWN_MAX), asked.bytes, name);
}
