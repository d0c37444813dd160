/* object_store.h: DIR/objects/<sha256>: the files of generations, kept under the hash of their bytes.
 *
 * A copy shares the source's blocks where the file system can (reflink). It is made in pieces, so that the
 * registry thread can do other things between two of them; its name appears only when its bytes are
 * durable. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_OBJECT_STORE_H
#define FOLDKV_SCHED_OBJECT_STORE_H

#include "config/sha256.h"
#include "config/why.h"

enum { OBJECT_PATH_ROOM = 4096 };

/* Makes DIR/objects if it is not there and removes copies that a crash left unfinished. */
enum status object_store_open(const char *dir, struct why *ret_why) MUST_USE;
/* Where an object lies. */
void object_store_path(const char *dir, const char hash[SHA256_HEX],
                       char ret_path[OBJECT_PATH_ROOM]);
bool object_store_has(const char *dir, const char hash[SHA256_HEX]);

struct object_copy;
/* NOT_FOUND, READ_ONLY (no room, or a file system without writing) or IO with the path; nothing is left behind. */
enum status object_copy_begin(const char *dir, const char *source, struct object_copy **ret_copy,
                              struct why *ret_why) MUST_USE;
/* Copies and hashes the next piece (8 MiB). When ret_is_done the object has its name, durably, and ret_hash is
 * it. A failure (disk full, a read that fails) removes what was written. */
enum status object_copy_step(struct object_copy *copy, bool *ret_is_done, char ret_hash[SHA256_HEX],
                             struct why *ret_why) MUST_USE;
/* Removes an unfinished copy. Takes NULL. */
void object_copy_free(struct object_copy **copy);

#endif
