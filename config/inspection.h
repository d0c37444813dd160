/* inspection.h: what `foldkv inspect` tells of a checkpoint, as JSON or as text for a person.
 *
 * Manifest and identity, head maps, windows, cache groups, K/V bytes a token and layer, weights by
 * type, and the ledgers at 512, 4,096 and the whole context (those that fit it). Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_INSPECTION_H
#define FOLDKV_CONFIG_INSPECTION_H

#include "config/manifest.h"

struct inspection {
    const struct gguf *gguf;
    const struct graph *graph;
    const struct manifest *manifest;
    const char *kv_type;     /* "f16"; as in the manifest's layout */
    uint32_t kv_bytes;       /* an element of K or V */
    uint32_t kv_scale_bytes; /* a token and head of K, and of V; 0: none */
    uint32_t page_tokens;
};

/* One JSON object on one line, or text; both end in a newline. The caller's, freed with
 * mem_free; NULL without memory. */
char *inspection_json(const struct inspection *inspection) MUST_USE;
char *inspection_text(const struct inspection *inspection) MUST_USE;

#endif
