/* arm.c: from who asks to an arm.
 *
 * WHY     Two requests of one person that land on two models are a bug report; so the arm is a
 *         function of the person and of a salt that a rollout draws once.
 * HOW     The session key is the first of: principal with x-session-id, user, prompt_cache_key, API
 *         key, connection. Without a principal (no keys are configured) x-session-id stands alone.
 *         Its kind is the first byte of what is hashed, so that a user named like another's API key
 *         is still somebody else.
 * ALWAYS  (1) Canary grows from bucket 0 up, control from 9999 down; they cannot cross.
 *                                                                              arm_of_bucket
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/arm.h"

const char *arm_name(enum arm arm)
{
    static const char *const names[] = {"stable", "control", "canary"};
    ASSERT(arm < ARM_COUNT);
    return names[arm];
}

static void add_length(struct sha256 *sha, uint64_t len)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(len >> (8 * i));
    sha256_add(sha, bytes, sizeof bytes);
}

/* The key is kind, then (for a session) the framed principal, then the value. */
static void add_key(struct sha256 *sha, char kind, struct slice owner, struct slice value)
{
    bool has_owner = kind == 's';
    add_length(sha, 1 + (has_owner ? 8 + owner.len : 0) + value.len);
    sha256_add(sha, &kind, 1);
    if (has_owner) {
        add_length(sha, owner.len);
        sha256_add(sha, owner.bytes, owner.len);
    }
    sha256_add(sha, value.bytes, value.len);
}

uint32_t arm_bucket(struct sha256 *sha, struct slice salt, const struct arm_session *session)
{
    const struct {
        char kind;
        struct slice value;
    } order[] = {{'s', session->session_id},
                 {'u', session->user},
                 {'p', session->prompt_cache_key},
                 {'a', session->api_key},
                 {'c', session->connection}};
    size_t at = 0;
    while (at < ARRAY_LEN(order) - 1 && order[at].value.len == 0)
        at++;
    sha256_start(sha);
    add_length(sha, salt.len);
    sha256_add(sha, salt.bytes, salt.len);
    add_key(sha, order[at].kind, session->principal, order[at].value);
    uint8_t hash[SHA256_BYTES];
    sha256_finish(sha, hash);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++)
        first = first << 8 | hash[i];
    return (uint32_t)(first % ARM_BUCKETS);
}

uint32_t arm_control_bp(uint32_t weight_bp, uint32_t cap_bp)
{
    return weight_bp < cap_bp ? weight_bp : cap_bp;
}

enum arm arm_of_bucket(uint32_t bucket, uint32_t weight_bp, uint32_t cap_bp)
{
    uint32_t control_bp = arm_control_bp(weight_bp, cap_bp);
    ASSERT(bucket < ARM_BUCKETS && weight_bp <= ARM_BUCKETS - control_bp);
    if (bucket < weight_bp)
        return ARM_CANARY;
    return bucket >= ARM_BUCKETS - control_bp ? ARM_CONTROL : ARM_STABLE;
}
