/* generation_id.h: what a generation and its cache namespaces are called: hashes of what they are.
 *
 * All are 64 hex digits. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GENERATION_ID_H
#define FOLDKV_SCHED_GENERATION_ID_H

#include "config/sha256.h"

enum { GENERATION_USE_MAX = 96 }; /* bytes of a namespace's use */

/* True for 64 lower-case hex digits. */
bool generation_id_is_hash(const char *text);
/* SHA-256(I, plan hash, evaluation-set hash), as bytes one behind the other. Each is a hash. */
void generation_id_of(const char *identity, const char *plan, const char *evaluation_set,
                      char ret_id[SHA256_HEX]);
/* SHA-256(generation id, epoch as 8 little-endian bytes, use): use "" for the generation's own namespace,
 * "control" for the control arm's. */
void generation_id_namespace(const char *id, int64_t epoch, const char *use,
                             char ret_namespace[SHA256_HEX]);

#endif
