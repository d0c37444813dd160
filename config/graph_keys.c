/* graph_keys.c: what a llama checkpoint's metadata says about its graph.
 *
 * WHY     A key that is ignored but alters the answer is worse than a refusal: the text comes out
 *         wrong and looks right.
 * HOW     Every key under "llama." must be in the table below: read, without effect on the answer,
 *         or at its neutral value.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>
#include <math.h>

#include "config/unicode.h"

enum rule {
    RULE_READ,    /* read below, or without effect on the answer */
    RULE_ZERO,    /* served at 0 only */
    RULE_ONE,     /* f32, served at 1 only */
    RULE_TRUE,    /* bool, served at true only */
    RULE_NO_NAME, /* string, served as "none" only */
};

static const struct key_rule {
    const char *key;
    enum rule rule;
    const char *served;
} key_rules[] = {
    {"llama.block_count", RULE_READ, ""},
    {"llama.context_length", RULE_READ, ""},
    {"llama.embedding_length", RULE_READ, ""},
    {"llama.feed_forward_length", RULE_READ, ""},
    {"llama.vocab_size", RULE_READ, ""},
    {"llama.attention.head_count", RULE_READ, ""},
    {"llama.attention.head_count_kv", RULE_READ, ""},
    {"llama.attention.key_length", RULE_READ, ""},
    {"llama.attention.value_length", RULE_READ, ""},
    {"llama.attention.layer_norm_rms_epsilon", RULE_READ, ""},
    {"llama.rope.dimension_count", RULE_READ, ""},
    {"llama.rope.freq_base", RULE_READ, ""},
    {"llama.rope.scaling.original_context_length", RULE_READ,
     ""}, /* means nothing while the type is none */
    {"llama.rope.scaling.finetuned", RULE_READ, ""},
    {"llama.rope.scaling.type", RULE_NO_NAME, "none"},
    {"llama.rope.scaling.factor", RULE_ONE, "1"},
    {"llama.rope.scale_linear", RULE_ONE, "1"},
    {"llama.expert_count", RULE_ZERO, "0"},
    {"llama.expert_used_count", RULE_ZERO, "0"},
    {"llama.attention.sliding_window", RULE_ZERO, "0"},
    {"llama.attention.causal", RULE_TRUE, "true"},
};

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.bytes, text, s.len) == 0;
}

static bool starts_with(struct slice s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.bytes, prefix, len) == 0;
}

static enum status check_rule(const struct gguf *gguf, const struct key_rule *rule,
                              struct why *ret_why)
{
    uint32_t number = 0;
    float real = 0;
    bool is_true = false, is_served = true;
    struct slice text;
    switch (rule->rule) {
    case RULE_READ:
        break;
    case RULE_ZERO:
        TRY(gguf_u32(gguf, rule->key, &number, ret_why));
        is_served = number == 0;
        break;
    case RULE_ONE:
        TRY(gguf_f32(gguf, rule->key, &real, ret_why));
        is_served = real == 1.0f;
        break;
    case RULE_TRUE:
        TRY(gguf_bool(gguf, rule->key, &is_true, ret_why));
        is_served = is_true;
        break;
    case RULE_NO_NAME:
        TRY(gguf_string(gguf, rule->key, &text, ret_why));
        is_served = slice_is(text, rule->served);
        break;
    }
    if (is_served)
        return OK;
    return why_set(ret_why, STATUS_BAD_FILE, rule->key,
                   "key \"%s\": its value alters the answer and is not served; only %s is",
                   rule->key, rule->served);
}

static enum status check_key(const struct gguf *gguf, struct slice key, struct why *ret_why)
{
    for (size_t i = 0; i < ARRAY_LEN(key_rules); i++) {
        if (slice_is(key, key_rules[i].key))
            return check_rule(gguf, &key_rules[i], ret_why);
    }
    char name[96];
    snprintf(name, sizeof name, "%.*s", key.len > 90 ? 90 : (int)key.len, key.bytes);
    return why_set(ret_why, STATUS_BAD_FILE, name,
                   "key \"%s\": not known in a llama graph; it may alter the answer and is not "
                   "served",
                   name);
}

/* Every key that speaks of the graph must be one that the reader below takes into account. */
static enum status check_all_keys(const struct gguf *gguf, struct why *ret_why)
{
    for (size_t i = 0; i < gguf_key_count(gguf); i++) {
        struct slice key = gguf_key_at(gguf, i);
        if (starts_with(key, "llama.") || starts_with(key, "foldkv."))
            TRY(check_key(gguf, key, ret_why));
    }
    return OK;
}

static enum status read_bounded(const struct gguf *gguf, const char *key, uint32_t least,
                                uint32_t most, uint32_t *ret, struct why *ret_why)
{
    TRY(gguf_u32(gguf, key, ret, ret_why));
    if (*ret < least || *ret > most)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": %" PRIu32 ", must be %" PRIu32 "..%" PRIu32, key, *ret, least,
                       most);
    return OK;
}

static enum status read_positive(const struct gguf *gguf, const char *key, float *ret,
                                 struct why *ret_why)
{
    TRY(gguf_f32(gguf, key, ret, ret_why));
    if (!isfinite(*ret) || *ret <= 0.0f)
        return why_set(ret_why, STATUS_BAD_FILE, key, "key \"%s\": %g, must be finite and over 0",
                       key, (double)*ret);
    return OK;
}

/* A head's width: its own key, or the hidden width shared out over the query heads. */
static enum status read_width(const struct gguf *gguf, const char *key, const struct graph *graph,
                              uint32_t n_query_heads, uint32_t *ret, struct why *ret_why)
{
    if (gguf_has(gguf, key))
        TRY(gguf_u32(gguf, key, ret, ret_why));
    else if (graph->hidden % n_query_heads == 0)
        *ret = graph->hidden / n_query_heads;
    else
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": absent, and llama.embedding_length %" PRIu32
                       " is no multiple of llama.attention.head_count %" PRIu32,
                       key, graph->hidden, n_query_heads);
    if (*ret < GRAPH_WIDTH_STEP || *ret > GRAPH_WIDTH_MAX || *ret % GRAPH_WIDTH_STEP != 0)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": heads %" PRIu32 " wide, must be a multiple of %d in %d..%d",
                       key, *ret, GRAPH_WIDTH_STEP, GRAPH_WIDTH_STEP, GRAPH_WIDTH_MAX);
    return OK;
}

static enum status read_heads(const struct gguf *gguf, struct graph_keys *k, struct why *ret_why)
{
    static const char kv_key[] = "llama.attention.head_count_kv";
    TRY(read_bounded(gguf, "llama.attention.head_count", 1, GRAPH_HEADS_MAX, &k->n_query_heads,
                     ret_why));
    k->n_kv_heads = k->n_query_heads;
    if (gguf_has(gguf, kv_key))
        TRY(read_bounded(gguf, kv_key, 1, GRAPH_HEADS_MAX, &k->n_kv_heads, ret_why));
    if (k->n_query_heads % k->n_kv_heads != 0)
        return why_set(ret_why, STATUS_BAD_FILE, kv_key,
                       "key \"%s\": %" PRIu32 " query heads are no multiple of %" PRIu32
                       " K/V heads",
                       kv_key, k->n_query_heads, k->n_kv_heads);
    if (k->n_query_heads / k->n_kv_heads > GRAPH_GROUP_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, kv_key,
                       "key \"%s\": %" PRIu32 " query heads on %" PRIu32
                       " K/V heads, at most %d on one are served",
                       kv_key, k->n_query_heads, k->n_kv_heads, GRAPH_GROUP_MAX);
    return OK;
}

static enum status read_rope(const struct gguf *gguf, struct graph_keys *k, struct why *ret_why)
{
    static const char dims_key[] = "llama.rope.dimension_count",
                      base_key[] = "llama.rope.freq_base";
    k->rope_dims = k->d_qk;
    k->rope_base = 10000.0f; /* the format's default */
    if (gguf_has(gguf, dims_key))
        TRY(read_bounded(gguf, dims_key, 2, k->d_qk, &k->rope_dims, ret_why));
    if (k->rope_dims % 2 != 0)
        return why_set(ret_why, STATUS_BAD_FILE, dims_key, "key \"%s\": %" PRIu32 ", must be even",
                       dims_key, k->rope_dims);
    return gguf_has(gguf, base_key) ? read_positive(gguf, base_key, &k->rope_base, ret_why) : OK;
}

/* general.name, cut at a whole character. */
static enum status read_name(const struct gguf *gguf, struct graph *graph, struct why *ret_why)
{
    static const char key[] = "general.name";
    struct slice name;
    if (!gguf_has(gguf, key))
        return OK;
    TRY(gguf_string(gguf, key, &name, ret_why));
    if (!unicode_is_printable(name))
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": has control bytes or is not UTF-8", key);
    size_t kept = 0;
    while (kept < name.len) {
        size_t n = unicode_length(name.bytes + kept, name.len - kept);
        if (kept + n >= sizeof graph->name)
            break;
        kept += n;
    }
    memcpy(graph->name, name.bytes, kept);
    graph->name[kept] = '\0';
    return OK;
}

static enum status check_architecture(const struct gguf *gguf, struct graph *graph,
                                      struct why *ret_why)
{
    static const char key[] = "general.architecture";
    struct slice architecture;
    TRY(gguf_string(gguf, key, &architecture, ret_why));
    if (!slice_is(architecture, "llama"))
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": \"%.*s\" is not served; served are: llama", key,
                       architecture.len > 64 ? 64 : (int)architecture.len, architecture.bytes);
    snprintf(graph->architecture, sizeof graph->architecture, "llama");
    return OK;
}

enum status graph_keys_read(const struct gguf *gguf, struct graph *graph,
                            struct graph_keys *ret_keys, struct why *ret_why)
{
    TRY(check_architecture(gguf, graph, ret_why));
    TRY(check_all_keys(gguf, ret_why));
    TRY(read_name(gguf, graph, ret_why));
    TRY(read_bounded(gguf, "llama.block_count", 1, GRAPH_LAYERS_MAX, &graph->n_layers, ret_why));
    TRY(read_bounded(gguf, "llama.context_length", 1, GRAPH_CONTEXT_MAX, &graph->context, ret_why));
    TRY(read_bounded(gguf, "llama.embedding_length", 1, GRAPH_HIDDEN_MAX, &graph->hidden, ret_why));
    TRY(read_bounded(gguf, "llama.feed_forward_length", 1, GRAPH_FFN_MAX, &graph->ffn, ret_why));
    TRY(read_positive(gguf, "llama.attention.layer_norm_rms_epsilon", &graph->rms_eps, ret_why));
    if (gguf_has(gguf, "llama.vocab_size"))
        TRY(read_bounded(gguf, "llama.vocab_size", 1, GRAPH_VOCAB_MAX, &graph->vocab, ret_why));
    TRY(read_heads(gguf, ret_keys, ret_why));
    TRY(read_width(gguf, "llama.attention.key_length", graph, ret_keys->n_query_heads,
                   &ret_keys->d_qk, ret_why));
    TRY(read_width(gguf, "llama.attention.value_length", graph, ret_keys->n_query_heads,
                   &ret_keys->d_v, ret_why));
    return read_rope(gguf, ret_keys, ret_why);
}
