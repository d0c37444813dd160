/* admin.c: where the admin API listens, and its calls as a whole.
 *
 * WHY     Nothing of the admin API may be had at the inference port, nor at an address without a lock: a Unix socket is its owner's
 *         alone, TCP needs keys.
 * HOW     The keys' file is looked at whenever somebody shows a key, so that a key that was taken out opens nothing any more.
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include "config/mem.h"
#include "server/admin_priv.h"
#include "server/listen_address.h"
#include "server/log.h"
#include "server/response.h"

enum status admin_address(const struct service *service, const char *state_dir,
                          char ret_address[ADMIN_ADDRESS_ROOM], struct why *ret_why)
{
    const struct options *o = &service->options;
    struct sockaddr_storage parsed;
    bool has_keys = o->admin_keys[0] != '\0', is_set = o->admin_listen[0] != '\0';
    ret_address[0] = '\0';
    if (is_set)
        snprintf(ret_address, ADMIN_ADDRESS_ROOM, "%s", o->admin_listen);
    else if (state_dir != NULL && snprintf(ret_address, ADMIN_ADDRESS_ROOM, "unix:%s/admin.sock",
                                           state_dir) >= ADMIN_ADDRESS_ROOM)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin.listen",
                       "the state folder's path is too long for a socket in it: set admin.listen");
    if (ret_address[0] == '\0' && !has_keys)
        return OK;
    if (ret_address[0] == '\0')
        return why_set(ret_why, STATUS_BAD_OPTION, "admin.keys",
                       "admin.keys is set but not admin.listen: HOST:PORT is needed there");
    TRY(listen_address_parse("admin.listen", ret_address, &parsed, ret_why));
    bool is_unix = parsed.ss_family == AF_UNIX;
    if (!is_unix && !has_keys)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin.keys",
                       "admin.listen is '%.200s': an address that others can reach needs "
                       "admin.keys",
                       ret_address);
    if (is_unix && has_keys)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin.keys",
                       "admin.keys is for an admin.listen of HOST:PORT; at '%.200s' the user of "
                       "the process at the other end counts",
                       ret_address);
    return OK;
}

enum status admin_new(const char *keys_path, struct admin_side side, struct admin **ret_admin,
                      struct why *ret_why)
{
    *ret_admin = mem_zalloc(1, sizeof **ret_admin);
    if (*ret_admin == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the admin side");
    (*ret_admin)->side = side;
    if (keys_path == NULL)
        return OK;
    snprintf((*ret_admin)->keys_path, sizeof(*ret_admin)->keys_path, "%s", keys_path);
    (void)stat(keys_path, &(*ret_admin)->keys_file); /* a failure shows in the next call */
    enum status s = admin_keys_read(keys_path, &(*ret_admin)->keys, ret_why);
    if (s != OK)
        admin_free(ret_admin);
    return s;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void admin_follow_keys(struct admin *admin)
{
    struct stat file = {0};
    struct admin_keys *keys = NULL;
    struct why why = {0};
    if (admin->keys_path[0] == '\0')
        return;
    (void)stat(admin->keys_path, &file); /* a file that is gone is another one, too */
    if (is_same_file(&file, &admin->keys_file))
        return;
    admin->keys_file = file;
    if (admin_keys_read(admin->keys_path, &keys, &why) != OK) {
        log_event(LOG_LEVEL_WARN, "admin_keys", "%s; the keys from before hold", why.text);
        return;
    }
    admin_keys_free(&admin->keys);
    admin->keys = keys;
    log_event(LOG_LEVEL_INFO, "admin_keys", "read again");
}

void admin_free(struct admin **admin)
{
    if (*admin == NULL)
        return;
    ASSERT((*admin)->first == NULL);
    admin_keys_free(&(*admin)->keys);
    mem_free(*admin);
    *admin = NULL;
}

void admin_cancel_all(struct admin *admin)
{
    struct why why = {0};
    for (struct admin_job *job = admin != NULL ? admin->first : NULL; job != NULL;
         job = job->next) {
        struct connection *c = job->connection;
        job->connection = NULL;
        (void)why_set(&why, STATUS_DRAINING, "",
                      "the server shuts down; what became of the call shows in the audit");
        if (c != NULL)
            response_error(c, STATUS_DRAINING, &why);
    }
}
