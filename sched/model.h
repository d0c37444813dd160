/* model.h: a checkpoint made ready to compute with: its graph, its identity and its packed weights,
 * which models of one file share.
 *
 * Immutable once loaded; shared by every thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_MODEL_H
#define FOLDKV_SCHED_MODEL_H

#include "config/ledger.h"
#include "config/manifest.h"
#include "sched/weights.h"

struct model {
    struct graph *graph;
    struct manifest *manifest;
    enum kv_type kv_type;
    struct weights *weights; /* perhaps others' too */
    _Atomic uint32_t holders;
};

/* In receipts and manifests: "f16", "f32" or "int8"; queries as attention multiplies them with such K; sums. */
const char *model_kv_type_name(enum kv_type type);
const char *model_query_type_name(enum kv_type type);
extern const char model_sum_type_name[];
/* The K/V type named "f16", "f32" or "int8"; BAD_OPTION otherwise. */
enum status model_kv_type(const char *name, enum kv_type *ret_type, struct why *ret_why) MUST_USE;

/* The manifest that a model of this graph, file and K/V type has under these kernels. As
 * manifest_new. */
enum status model_manifest(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                           enum kv_type kv_type, const struct kernels *kernels,
                           struct manifest **ret_manifest, struct why *ret_why) MUST_USE;

/* Checks, hashes and packs the weights of an opened file, on all workers. BAD_FILE with a why,
 * NO_MEMORY; nothing is kept on failure. The file may be closed afterwards. */
enum status model_load(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct workers *workers, struct model **ret_model,
                       struct why *ret_why) MUST_USE;
/* The same over weights that were packed from this very file (their hash is not taken again). */
enum status model_over(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct weights *weights, struct model **ret_model,
                       struct why *ret_why) MUST_USE;
/* One holder more. Any thread. */
struct model *model_hold(struct model *model);
/* One less; the last frees it. Takes NULL. Any thread. */
void model_free(struct model **model);

/* One layer of a cache group's K/V, as the ledger knows it. */
struct ledger_shape model_ledger_shape(const struct model *model, uint32_t group);

#endif
