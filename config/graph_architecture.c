/* graph_architecture.c: the architectures that are served, one description each.
 *
 * HOW     A description says which parts a layer has and how they compute; the same reader and the
 *         same decoder walk all of them.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

static const struct graph_architecture architectures[] = {
    {.name = "llama",
     .parts = PART_PRE_NORM | PART_ROPE_FACTORS,
     .rope_order = ROPE_NEIGHBOURS,
     .gate = GATE_SILU},
    {.name = "qwen2",
     .parts = PART_PRE_NORM | PART_QKV_BIAS,
     .rope_order = ROPE_HALVES,
     .gate = GATE_SILU},
    {.name = "qwen3",
     .parts = PART_PRE_NORM | PART_QK_NORM,
     .rope_order = ROPE_HALVES,
     .gate = GATE_SILU},
    {.name = "gemma3",
     .parts = PART_PRE_NORM | PART_POST_NORM | PART_QK_NORM,
     .rope_order = ROPE_HALVES,
     .gate = GATE_GELU,
     .is_embedding_scaled = true,
     .window_period = 6,
     .other_layers = 62,
     .other_reason = "scores scaled by another root than that of the head width"},
    {.name = "exaone4",
     .parts = PART_POST_NORM | PART_QK_NORM | PART_ROPE_FACTORS,
     .rope_order = ROPE_HALVES,
     .gate = GATE_SILU,
     .other_layers = 64,
     .other_reason = "windowed layers among layers without rotation"},
};

enum status graph_architecture_find(const struct gguf *gguf,
                                    const struct graph_architecture **ret_architecture,
                                    struct why *ret_why)
{
    static const char key[] = "general.architecture";
    struct slice name;
    char served[96] = "";
    size_t len = 0;
    TRY(gguf_string(gguf, key, &name, ret_why));
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        const char *known = architectures[i].name;
        *ret_architecture = &architectures[i];
        if (name.len == strlen(known) && memcmp(name.bytes, known, name.len) == 0)
            return OK;
        len +=
            (size_t)snprintf(served + len, sizeof served - len, "%s%s", i == 0 ? "" : ", ", known);
        ASSERT(len < sizeof served);
    }
    return why_set(ret_why, STATUS_BAD_FILE, key,
                   "key \"%s\": \"%.*s\" is not served; served are: %s", key,
                   name.len > 64 ? 64 : (int)name.len, name.bytes, served);
}

struct graph_key graph_key_of(const struct graph_architecture *architecture, const char *tail)
{
    struct graph_key key;
    int len = snprintf(key.text, sizeof key.text, "%s.%s", architecture->name, tail);
    ASSERT(len > 0 && (size_t)len < sizeof key.text);
    return key;
}
