/* service.c: the one rule that several routes share: which model a request may name.
 *
 * ALWAYS  (1) The served name is never a generation's: who asks for it is routed.    service_is_pin
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include "sched/release/releases.h"

static bool is_served_name(const struct service *service, struct slice asked)
{
    return asked.len == strlen(service->model_name) &&
           memcmp(asked.bytes, service->model_name, asked.len) == 0;
}

bool service_is_pin(const struct service *service, struct slice asked)
{
    return service->may_pin && asked.bytes != NULL && !is_served_name(service, asked);
}

enum status service_check_model(const struct service *service, struct slice asked,
                                struct why *ret_why)
{
    enum { SHOWN_MAX = 100 };
    if (asked.bytes == NULL || is_served_name(service, asked))
        return OK;
    if (service->may_pin)
        return releases_check_pin(service->releases, asked, ret_why);
    return why_set(ret_why, STATUS_MODEL_NOT_FOUND, "model",
                   "the model '%.*s' is not served; '%s' is",
                   (int)(asked.len < SHOWN_MAX ? asked.len : SHOWN_MAX), asked.bytes,
                   service->model_name);
}
