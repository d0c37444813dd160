/* arm.h: which arm of a rollout a request belongs to: a stable hash of who asks, so that a person
 * stays on one model.
 *
 *   bucket  = first 8 bytes (big-endian) of SHA-256(len(salt) salt len(key) key) mod 10000,
 *             each len as 8 little-endian bytes
 *   canary  if bucket <  weight_bp
 *   control if bucket >= 10000 - min(weight_bp, cap_bp): the stable weights in a fresh namespace,
 *             as cold as the candidate
 *   stable  otherwise
 *
 * Raising the weight only adds people to canary and control; nobody leaves either, as long as
 * weight_bp + min(weight_bp, cap_bp) <= 10000. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ARM_H
#define FOLDKV_SCHED_ARM_H

#include "config/sha256.h"

enum { ARM_BUCKETS = 10000 }; /* a bucket is a basis point */

enum arm { ARM_STABLE, ARM_CONTROL, ARM_CANARY, ARM_COUNT };

/* "stable", "control", "canary": metric labels and the x-foldkv-arm header. */
const char *arm_name(enum arm arm);

/* What a request says of who asks, each empty if it does not: the first that is there is the session
 * key. connection is always there: random, one a connection. */
struct arm_session {
    struct slice principal, session_id; /* x-session-id counts only together with its principal */
    struct slice user, prompt_cache_key, api_key;
    struct slice connection;
};

/* 0 to 9999. sha is the caller's, reused; two kinds of key never meet, because the kind is hashed
 * with the key. */
uint32_t arm_bucket(struct sha256 *sha, struct slice salt, const struct arm_session *session);
/* weight_bp + min(weight_bp, cap_bp) <= 10000, asserted. */
enum arm arm_of_bucket(uint32_t bucket, uint32_t weight_bp, uint32_t cap_bp);
/* The control arm's share at a weight. */
uint32_t arm_control_bp(uint32_t weight_bp, uint32_t cap_bp);

#endif
