/* evaluation_default.h: the evaluation set that the program carries (deploy/evaluation_small.jsonl), for generations that
 * name no other. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_DEFAULT_H
#define FOLDKV_SCHED_EVALUATION_DEFAULT_H

#include "config/sha256.h"

/* JSON lines, as long as the program runs. */
struct slice evaluation_default_text(void);
/* The hash that evaluation_set.h gives it. */
void evaluation_default_hash(char ret_hex[SHA256_HEX]);

#endif
