/* file_text.h: a small file that a person names on a command line, whole in memory. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_FILE_TEXT_H
#define FOLDKV_CONFIG_FILE_TEXT_H

#include "config/why.h"

/* The file's bytes (mem_free), at most most + 1 of them, so that the caller sees whether there are too many. what names
 * it in a refusal: "the plan". IO, NO_MEMORY. */
enum status file_text_read(const char *path, const char *what, size_t most, char **ret_bytes,
                           size_t *ret_len, struct why *ret_why) MUST_USE;

#endif
