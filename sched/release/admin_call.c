/* admin_call.c: the table of the admin API.
 *
 * HOW     One row a call; who routes, who documents and who calls read the same rows.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/admin_call.h"

static const struct admin_route routes[] = {
#define ADMIN(OP, method, path, ROLE, EPOCH, prose)                                                \
    {#OP, method, path, ADMIN_ROLE_##ROLE, ADMIN_EPOCH_##EPOCH, prose},
#include "sched/release/admin_call.def"
#undef ADMIN
};

const struct admin_route *admin_route(enum admin_op op)
{
    ASSERT(op < ADMIN_OP_COUNT);
    return &routes[op];
}

const char *admin_role_name(enum admin_role role)
{
    static const char *const names[] = {"view", "operate", "approve"};
    ASSERT(role < ADMIN_ROLE_COUNT);
    return names[role];
}
