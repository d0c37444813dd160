/* admin_router.c: who asks, what for, and may they: all before a byte of a body is read.
 *
 * ALWAYS  (1) Nothing is served to nobody: the caller comes first, then the path.       find
 *         (2) A call whose role is above the caller's is refused by name.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_priv.h"

#include <strings.h>

#include "server/admin_path.h"
#include "server/log.h"

static enum status find_key(const struct connection *c, struct admin_caller *ret_caller,
                            struct why *ret_why)
{
    static const char scheme[] = "Bearer ";
    struct admin *admin = connection_service(c)->admin;
    const struct http_head *head = connection_head(c);
    const char *text = head->authorization.text;
    bool is_bearer = head->authorization.has && !head->authorization.is_long &&
                     strncasecmp(text, scheme, strlen(scheme)) == 0;
    const char *key = is_bearer ? text + strlen(scheme) + strspn(text + strlen(scheme), " ") : "";
    const char *name = NULL;
    if (key[0] != '\0')
        admin_follow_keys(admin);
    if (admin->keys != NULL && key[0] != '\0' &&
        admin_keys_find(admin->keys, key, strlen(key), &name, &ret_caller->role)) {
        snprintf(ret_caller->who, sizeof ret_caller->who, "%s", name);
        return OK;
    }
    return why_set(ret_why, STATUS_UNAUTHENTICATED, "Authorization", "%s",
                   key[0] != '\0' ? "nobody has this key"
                                  : "a key is needed: Authorization: Bearer KEY, as in admin.keys");
}

enum status admin_caller_find(const struct connection *c, struct admin_caller *ret_caller,
                              struct why *ret_why)
{
    uid_t uid;
    if (!connection_peer(c, &uid))
        return find_key(c, ret_caller, ret_why);
    snprintf(ret_caller->who, sizeof ret_caller->who, "uid:%lu", (unsigned long)uid);
    ret_caller->role = ADMIN_ROLE_APPROVE;
    return OK;
}

static enum status check_body(const struct http_head *head, enum admin_op op, struct why *ret_why)
{
    if (!http_head_has_body(head))
        return OK;
    if (admin_route(op)->epoch == ADMIN_EPOCH_NONE)
        return why_set(ret_why, STATUS_BAD_REQUEST, "body", "a call that only reads has no body");
    return http_head_is_json(head) ? OK : STATUS_UNSUPPORTED_MEDIA;
}

static enum status check(const struct connection *c, struct admin_caller *caller,
                         struct why *ret_why)
{
    const struct http_head *head = connection_head(c);
    char subject[ADMIN_SUBJECT_ROOM];
    enum admin_op op;
    TRY(admin_caller_find(c, caller, ret_why));
    if (head->is_target_long)
        return STATUS_NOT_FOUND;
    TRY(admin_path_find(head->method, head->path, &op, subject, ret_why));
    const struct admin_route *row = admin_route(op);
    if (caller->role < row->role)
        return why_set(ret_why, STATUS_FORBIDDEN, "", "%s %s needs the role %s; %s has %s",
                       row->method, row->path, admin_role_name(row->role), caller->who,
                       admin_role_name(caller->role));
    return check_body(head, op, ret_why);
}

static enum status find(const struct connection *c, const struct route **ret_route,
                        struct why *ret_why)
{
    static const struct route route = {"/admin/v1/", false, admin_answer};
    struct admin_caller caller = {.who = "nobody"};
    enum status s = check(c, &caller, ret_why);
    *ret_route = &route;
    if (s == STATUS_UNAUTHENTICATED || s == STATUS_FORBIDDEN)
        log_event(LOG_LEVEL_WARN, "admin_refused", "%s %s %s for %s: %s", connection_request_id(c),
                  connection_head(c)->method, connection_head(c)->path, caller.who, ret_why->text);
    return s;
}

static const char *allowed(const struct connection *c)
{
    static char text[ADMIN_PATH_ALLOWED];
    admin_path_allowed(connection_head(c)->path, text);
    return text;
}

const struct router router_admin = {.find = find, .allowed = allowed};
