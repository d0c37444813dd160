/* temp_dir.h: a folder of its own for one test, and what a test needs of files. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_TEMP_DIR_H
#define FOLDKV_TESTS_TEMP_DIR_H

#include "config/sha256.h"

enum { TEMP_PATH_ROOM = 512 };

/* Made under TMPDIR; fails the test if it cannot be. */
void temp_dir_make(char ret_path[TEMP_PATH_ROOM]);
/* With all that is in it, folders one level deep. */
void temp_dir_remove(const char *path);
void temp_dir_write(const char *path, const char *name, const void *bytes, size_t len);
/* SHA-256 of the file in hex; "" if there is none. */
void temp_dir_hash(const char *path, const char *name, char ret_hex[SHA256_HEX]);
/* Files and folders in it, without . and .. */
int temp_dir_count(const char *path);

#endif
