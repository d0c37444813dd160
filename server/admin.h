/* admin.h: the HTTP side of the admin API: who may call what, and the calls that wait for their answer.
 *
 * A request on the admin listener is first somebody's (a Unix socket's peer, who may do everything, or a key's owner), then a row of
 * sched/release/admin_call.def, then allowed or not; only then is its body read. The release side answers in its own time.
 * Loop thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_H
#define FOLDKV_SERVER_ADMIN_H

#include "sched/release/admin_call.h"
#include "server/router.h"

struct admin;

enum { ADMIN_CONNECTIONS_MAX = 64, ADMIN_BODY_BYTES_MAX = 1 << 20, ADMIN_ADDRESS_ROOM = 256 };

/* Where service's options want the admin API to listen, DIR/admin.sock for state_dir if they do not say; "" if it shall not. BAD_OPTION:
 * TCP without keys, keys without TCP, a path that is too long. */
enum status admin_address(const struct service *service, const char *state_dir,
                          char ret_address[ADMIN_ADDRESS_ROOM], struct why *ret_why) MUST_USE;
/* Where calls go: as releases_ask, which takes a call until its on_done. */
struct admin_side {
    void *user;
    enum status (*ask)(void *user, struct admin_call *call);
};

/* keys_path NULL: there are none. A file that is changed later is read again. Failures as admin_keys_read. */
enum status admin_new(const char *keys_path, struct admin_side side, struct admin **ret_admin,
                      struct why *ret_why) MUST_USE;
/* After the release side's end, which answers every open call. Takes NULL. */
void admin_free(struct admin **admin);
/* Clients that wait hear that the server shuts down; their calls go on. Takes NULL. */
void admin_cancel_all(struct admin *admin);

/* The admin listener's routes, all of them to service->admin. */
extern const struct router router_admin;

#endif
