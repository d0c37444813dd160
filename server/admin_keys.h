/* admin_keys.h: who may use the admin API over TCP: a file of keys, each with a role and its owner's name.
 *
 * A line is KEY ROLE NAME: KEY is sha256: and the hex of a key's SHA-256, or the key itself (16 to 255 characters); ROLE is view,
 * operate or approve; NAME is what the audit calls its owner. Blank lines and lines that begin with # say nothing. Read once, then
 * read-only: any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_KEYS_H
#define FOLDKV_SERVER_ADMIN_KEYS_H

#include "sched/release/admin_call.h"

enum { ADMIN_KEYS_MAX = 256, ADMIN_KEY_LEAST = 16, ADMIN_KEY_MOST = 255, ADMIN_NAME_MOST = 64 };

struct admin_keys;

/* BAD_OPTION (field admin.keys) names the line; also if others may write to the file, or read keys that are not hashed. IO. */
enum status admin_keys_read(const char *path, struct admin_keys **ret_keys,
                            struct why *ret_why) MUST_USE;
/* The same from text; is_private: nobody else can read it. */
enum status admin_keys_parse(const char *text, size_t len, bool is_private,
                             struct admin_keys **ret_keys, struct why *ret_why) MUST_USE;
void admin_keys_free(struct admin_keys **keys);
/* False if nobody has the key. The time it takes does not tell how much of a key was right, or which was nearest. *ret_name is the keys'. */
bool admin_keys_find(const struct admin_keys *keys, const char *key, size_t len,
                     const char **ret_name, enum admin_role *ret_role) MUST_USE;

#endif
