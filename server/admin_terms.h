/* admin_terms.h: what headers and query of an admin request say: on which terms the call is made. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_TERMS_H
#define FOLDKV_SERVER_ADMIN_TERMS_H

#include "sched/release/admin_call.h"
#include "server/http_parse.h"

enum { ADMIN_AUDIT_LIMIT = 100, ADMIN_AUDIT_LIMIT_MAX = 1000 };

/* Fills in idempotency_key, epoch_expected, is_dry_run, after and limit of a call whose op is there. BAD_REQUEST: a key that is
 * missing or no key, a malformed If-Match, or one that the call does not take, or a query that means nothing here.
 * PRECONDITION_REQUIRED: no If-Match. */
enum status admin_terms_read(const struct http_head *head, struct admin_call *call,
                             struct why *ret_why) MUST_USE;

#endif
