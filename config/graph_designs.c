/* graph_designs.c: attention that is not a fixed map from query heads to stored K/V heads.
 *
 * WHY     Such checkpoints may carry head counts and tensors that fit a grouped graph; read as one
 *         they would answer, wrongly.
 * HOW     A table of words. Each is looked for, as a whole word, in the architecture's name, in
 *         every key of that architecture and of foldkv, in the short strings those keys hold and in
 *         every tensor's name. What other keys say (a file name, a description) means nothing here.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#define LATENT "MLA: its cache holds latent rows, not rows of K and V heads"
#define MOVING_FORWARD                                                                             \
    "KDGQA: query heads are dealt to K/V heads anew in each forward pass, by the norms of the "    \
    "keys"
#define MOVING_TRAINING                                                                            \
    "DGQA: query heads are dealt to K/V heads by norms that training followed, not by a fixed map"
#define BOTH_SIDES                                                                                 \
    "GQKVA: query projections are grouped, too, so no map of query heads describes it"
#define ACROSS_LAYERS "cross-layer sharing (CLA, MLKV, YOCO): layers read the K/V of other layers"

static const struct design_word {
    const char *word;
    const char *reason;
} design_words[] = {
    {"mla", LATENT},
    {"kv_lora_rank", LATENT},
    {"q_lora_rank", LATENT},
    {"attn_kv_a_mqa", LATENT},
    {"attn_kv_a_norm", LATENT},
    {"attn_kv_b", LATENT},
    {"attn_k_b", LATENT},
    {"attn_v_b", LATENT},
    {"attn_q_a", LATENT},
    {"attn_q_b", LATENT},
    {"kdgqa", MOVING_FORWARD},
    {"dgqa", MOVING_TRAINING},
    {"gqkva", BOTH_SIDES},
    {"mkva", BOTH_SIDES},
    {"gkva", BOTH_SIDES},
    {"shared_kv_layers", ACROSS_LAYERS},
    {"kv_source", ACROSS_LAYERS},
    {"cla", ACROSS_LAYERS},
    {"mlkv", ACROSS_LAYERS},
    {"yoco", ACROSS_LAYERS},
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter_or_digit(char c)
{
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

/* True if word stands in text at `at`, with no letter or digit on either side. */
static bool is_word_at(struct slice text, size_t at, const char *word, size_t len)
{
    if (at + len > text.len || (at > 0 && is_letter_or_digit(text.bytes[at - 1])))
        return false;
    if (at + len < text.len && is_letter_or_digit(text.bytes[at + len]))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (lower(text.bytes[at + i]) != word[i])
            return false;
    }
    return true;
}

static const char *reason_in(struct slice text)
{
    for (size_t w = 0; w < ARRAY_LEN(design_words); w++) {
        size_t len = strlen(design_words[w].word);
        for (size_t at = 0; at + len <= text.len; at++) {
            if (is_word_at(text, at, design_words[w].word, len))
                return design_words[w].reason;
        }
    }
    return NULL;
}

static enum status refuse(const char *what, struct slice name, const char *reason,
                          struct why *ret_why)
{
    char text[96];
    snprintf(text, sizeof text, "%.*s", name.len > 90 ? 90 : (int)name.len, name.bytes);
    return why_set(ret_why, STATUS_BAD_FILE, text,
                   "%s \"%s\": speaks of %s; it is not read as grouped attention and not served",
                   what, text, reason);
}

static bool starts_with(struct slice s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.bytes, prefix, len) == 0;
}

/* What the key's string says, if it holds a short one: "llama.attention.kind" = "dgqa". */
static const char *reason_in_value(const struct gguf *gguf, struct slice key)
{
    char name[96];
    struct slice value;
    if (key.len >= sizeof name)
        return NULL;
    memcpy(name, key.bytes, key.len);
    name[key.len] = '\0';
    if (gguf_string(gguf, name, &value, NULL) != OK || value.len > sizeof name)
        return NULL;
    return reason_in(value);
}

/* True for the architecture's key, for keys under the name it gives, and for foldkv's own. */
static bool speaks_of_the_graph(struct slice key, struct slice architecture)
{
    static const char own[] = "general.architecture";
    if (starts_with(key, "foldkv.") || (key.len == sizeof own - 1 && starts_with(key, own)))
        return true;
    return architecture.len > 0 && key.len > architecture.len &&
           memcmp(key.bytes, architecture.bytes, architecture.len) == 0 &&
           key.bytes[architecture.len] == '.';
}

enum status graph_designs_check(const struct gguf *gguf, struct why *ret_why)
{
    struct slice architecture = {"", 0};
    if (gguf_string(gguf, "general.architecture", &architecture, NULL) != OK)
        architecture.len = 0; /* said by name when the architecture is looked for */
    for (size_t i = 0; i < gguf_key_count(gguf); i++) {
        struct slice key = gguf_key_at(gguf, i);
        if (!speaks_of_the_graph(key, architecture))
            continue;
        const char *reason = reason_in(key);
        if (reason == NULL)
            reason = reason_in_value(gguf, key);
        if (reason != NULL)
            return refuse("key", key, reason, ret_why);
    }
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const char *reason = reason_in(gguf_tensor_at(gguf, i)->name);
        if (reason != NULL)
            return refuse("tensor", gguf_tensor_at(gguf, i)->name, reason, ret_why);
    }
    return OK;
}
