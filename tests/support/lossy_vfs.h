/* lossy_vfs.h: SQLite's file layer with a fault point at each durable call, and what a power loss would leave.
 *
 * Files are real and every call goes through; beside that it is kept what of each file was synced and what was
 * written since. A power loss leaves what was synced, and of the rest any part: whole writes dropped, or torn at
 * sectors of 512 bytes. One thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_LOSSY_VFS_H
#define FOLDKV_TESTS_LOSSY_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum lossy_call { LOSSY_WRITE, LOSSY_TRUNCATE, LOSSY_SYNC, LOSSY_DELETE };
enum lossy_loss { LOSSY_ALL_UNSYNCED, LOSSY_SOME, LOSSY_TORN, LOSSY_NOTHING, LOSSY_LOSSES };

/* Called before each durable call, with its number from 1; what it returns, unless SQLITE_OK, is the call's
 * failure, and the call is not made. */
typedef int lossy_event_fn(void *user, uint64_t n, enum lossy_call call);

/* Makes it SQLite's default; SQLite must be configured already. Once a process. */
void lossy_vfs_install(void);
/* Forgets all files, of which none is open, and counts from 1 again. */
void lossy_vfs_begin(lossy_event_fn *on_event, void *user);
/* While it is quiet nothing is an event, and files that are opened are not followed: for looking at what is left. */
void lossy_vfs_quiet(bool is_quiet);
/* Writes to the folder `to` what a power loss now would leave of the files in `dir`. */
void lossy_vfs_cut(const char *dir, const char *to, enum lossy_loss loss, uint64_t seed);

#endif
