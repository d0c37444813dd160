/* answer.c: looks answers up and forgets old ones. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/answer.h"

#include <inttypes.h>

#include "sched/release/registry_priv.h"

enum status answer_find(struct registry *registry, const char *key, const char *payload_hash,
                        struct record *ret_answer, struct why *ret_why)
{
    TRY(registry_get(registry, REGISTRY_ANSWERS, key, ret_answer, ret_why));
    const char *payload = record_text(ret_answer, "payload");
    if (payload != NULL && strcmp(payload, payload_hash) == 0)
        return OK;
    record_release(ret_answer);
    return why_set(ret_why, STATUS_KEY_REUSED, "Idempotency-Key",
                   "the idempotency key '%.64s' came with another payload before", key);
}

enum status answer_forget(struct registry *registry, int64_t at_us, struct why *ret_why)
{
    char before[24];
    if (registry->is_lost || registry->is_reader)
        return OK; /* what cannot be written stays */
    snprintf(before, sizeof before, "%" PRId64, at_us);
    return registry_run(registry,
                        "DELETE FROM answers WHERE (body ->> 'at_us') < CAST(?1 AS INTEGER)",
                        before, NULL, NULL, "forgetting answers", ret_why);
}
