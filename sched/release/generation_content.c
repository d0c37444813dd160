/* generation_content.c: hashes of a file, of its graph's identity and of the plan that it would get. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/generation_content.h"

#include "config/gguf_hash.h"
#include "sched/release/generation_id.h"
#include "sched/release/kernel_plan.h"

static enum status checkpoint_hash(const struct gguf *gguf, const char *known,
                                   uint8_t ret_hash[SHA256_BYTES])
{
    if (known == NULL)
        return gguf_hash_file(gguf, ret_hash);
    ASSERT(generation_id_is_hash(known));
    sha256_from_hex(known, ret_hash);
    return OK;
}

enum status generation_content_tokenizer(const struct gguf *gguf, char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    TRY(gguf_hash_keys(gguf, "tokenizer.", hash));
    sha256_hex(hash, ret_hex);
    return OK;
}

enum status generation_content_read(const struct gguf *gguf, const char *checkpoint,
                                    const char *kv_type, const struct kernels *kernels,
                                    struct generation_content *ret_content, struct why *ret_why)
{
    enum kv_type type;
    struct graph *graph = NULL;
    struct manifest *manifest = NULL;
    uint8_t hash[SHA256_BYTES];
    TRY(model_kv_type(kv_type, &type, ret_why));
    TRY(graph_from_gguf(gguf, &graph, ret_why));
    enum status s = checkpoint_hash(gguf, checkpoint, hash);
    if (s == OK)
        s = model_manifest(graph, hash, type, kernels, &manifest, ret_why);
    if (s == OK) {
        sha256_hex(hash, ret_content->checkpoint);
        sha256_hex(manifest->identity, ret_content->identity);
        s = kernel_plan_hash(graph, manifest, type, kernels, ret_content->plan);
    }
    if (s == OK)
        s = generation_content_tokenizer(gguf, ret_content->tokenizer);
    if (s == STATUS_NO_MEMORY)
        why_set(ret_why, s, "", "no memory to read the checkpoint's manifest");
    manifest_free(&manifest);
    graph_free(&graph);
    return s;
}
