/* manifest.h: the immutable identity of a servable artifact (M5.7 0x01) as canonical JSON, and
 * its hashes.
 *
 * identity I = SHA-256 of the identity part; architecture_hash covers the graph alone; binding
 * is what the plan receipt binds and is not in I. All JSON is RFC 8785: ASCII, integers only (a
 * float is its bits in hex), keys sorted, no spaces. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_MANIFEST_H
#define FOLDKV_CONFIG_MANIFEST_H

#include "config/graph.h"
#include "config/sha256.h"

/* What the operator chose that alters the meaning of a stored number. */
struct manifest_layout {
    const char *kv_type; /* "f16", "f32", "int8" */
    uint32_t page_tokens;
};

/* What the plan binds: the instruction set and the like. */
struct manifest_binding {
    const char *backend;  /* "x86" */
    const char *numerics; /* the arithmetic and its version, as kernel_numerics says it */
};

struct manifest {
    char *identity_json;
    char *binding_json;
    uint8_t identity[SHA256_BYTES];
    uint8_t architecture_hash[SHA256_BYTES];
    uint8_t binding_hash[SHA256_BYTES];
};

enum status manifest_new(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                         const struct manifest_layout *layout,
                         const struct manifest_binding *binding, struct manifest **ret_manifest,
                         struct why *ret_why) MUST_USE;
void manifest_free(struct manifest **manifest);

#endif
