/* graph_keys.c: what a checkpoint's metadata says about its graph, heads apart.
 *
 * WHY     A key that is ignored but alters the answer is worse than a refusal: the text comes out
 *         wrong and looks right.
 * HOW     Every key under the architecture's name must be in the table below: read, without effect
 *         on the answer, or at its neutral value.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>
#include <math.h>

#include "config/mem.h"
#include "config/unicode.h"

enum rule {
    RULE_READ,      /* read below, or without effect on the answer */
    RULE_WINDOW,    /* read where the architecture has windowed layers, else not served */
    RULE_ZERO,      /* served at 0 only */
    RULE_ZERO_REAL, /* f32, served at 0 only */
    RULE_ONE,       /* f32, served at 1 only */
    RULE_TRUE,      /* bool, served at true only */
    RULE_NO_NAME,   /* string, served as "none" only */
    RULE_PERIOD,    /* served as the architecture's window period only */
};

static const struct key_rule {
    const char *tail;
    enum rule rule;
    const char *served;
} key_rules[] = {
    {"block_count", RULE_READ, ""},
    {"context_length", RULE_READ, ""},
    {"embedding_length", RULE_READ, ""},
    {"feed_forward_length", RULE_READ, ""},
    {"vocab_size", RULE_READ, ""},
    {"attention.head_count", RULE_READ, ""},
    {"attention.head_count_kv", RULE_READ, ""},
    {"attention.key_length", RULE_READ, ""},
    {"attention.value_length", RULE_READ, ""},
    {"attention.layer_norm_rms_epsilon", RULE_READ, ""},
    {"rope.dimension_count", RULE_READ, ""},
    {"rope.freq_base", RULE_READ, ""},
    /* means nothing while the type is none */
    {"rope.scaling.original_context_length", RULE_READ, ""},
    {"rope.scaling.finetuned", RULE_READ, ""},
    {"rope.scaling.type", RULE_NO_NAME, "none"},
    {"rope.scaling.factor", RULE_ONE, "1"},
    {"rope.scale_linear", RULE_ONE, "1"},
    {"expert_count", RULE_ZERO, "0"},
    {"expert_used_count", RULE_ZERO, "0"},
    {"nextn_predict_layers", RULE_ZERO, "0"},
    {"final_logit_softcapping", RULE_ZERO_REAL, "0"},
    {"attn_logit_softcapping", RULE_ZERO_REAL, "0"},
    {"attention.causal", RULE_TRUE, "true"},
    {"attention.sliding_window", RULE_WINDOW, ""},
    {"attention.sliding_window_pattern", RULE_PERIOD, ""},
    {"rope.freq_base_swa", RULE_WINDOW, ""},
};

/* The base of windowed layers where a file names none. */
static const double WINDOW_ROPE_BASE = 10000.0;

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.bytes, text, s.len) == 0;
}

static bool starts_with(struct slice s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.bytes, prefix, len) == 0;
}

/* A key about windows in a graph without them, or with a pattern of its own. */
static enum status check_window_rule(const struct gguf *gguf, const struct graph_architecture *a,
                                     const char *key, enum rule rule, struct why *ret_why)
{
    uint32_t period = 0;
    if (a->window_period == 0)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": windowed layers in a %s graph are not served", key, a->name);
    if (rule == RULE_WINDOW)
        return OK;
    TRY(gguf_u32(gguf, key, &period, ret_why));
    if (period == a->window_period)
        return OK;
    return why_set(ret_why, STATUS_BAD_FILE, key,
                   "key \"%s\": %" PRIu32 ", only %" PRIu32 " is served", key, period,
                   a->window_period);
}

static enum status check_rule(const struct gguf *gguf, const struct graph_architecture *a,
                              const char *key, const struct key_rule *rule, struct why *ret_why)
{
    uint32_t number = 0;
    float real = 0;
    bool is_true = false, is_served = true;
    struct slice text;
    switch (rule->rule) {
    case RULE_READ:
        break;
    case RULE_WINDOW:
    case RULE_PERIOD:
        return check_window_rule(gguf, a, key, rule->rule, ret_why);
    case RULE_ZERO:
        TRY(gguf_u32(gguf, key, &number, ret_why));
        is_served = number == 0;
        break;
    case RULE_ZERO_REAL:
        TRY(gguf_f32(gguf, key, &real, ret_why));
        is_served = real == 0.0f;
        break;
    case RULE_ONE:
        TRY(gguf_f32(gguf, key, &real, ret_why));
        is_served = real == 1.0f;
        break;
    case RULE_TRUE:
        TRY(gguf_bool(gguf, key, &is_true, ret_why));
        is_served = is_true;
        break;
    case RULE_NO_NAME:
        TRY(gguf_string(gguf, key, &text, ret_why));
        is_served = slice_is(text, rule->served);
        break;
    }
    if (is_served)
        return OK;
    return why_set(ret_why, STATUS_BAD_FILE, key,
                   "key \"%s\": its value alters the answer and is not served; only %s is", key,
                   rule->served);
}

static enum status refuse_unknown(const struct graph_architecture *a, struct slice key,
                                  struct why *ret_why)
{
    char name[96];
    snprintf(name, sizeof name, "%.*s", key.len > 90 ? 90 : (int)key.len, key.bytes);
    return why_set(ret_why, STATUS_BAD_FILE, name,
                   "key \"%s\": not known in a %s graph; it may alter the answer and is not "
                   "served",
                   name, a->name);
}

static enum status check_key(const struct gguf *gguf, const struct graph_architecture *a,
                             struct slice key, struct why *ret_why)
{
    size_t head = strlen(a->name) + 1;
    for (size_t i = 0; i < ARRAY_LEN(key_rules); i++) {
        if (slice_is((struct slice){key.bytes + head, key.len - head}, key_rules[i].tail))
            return check_rule(gguf, a, graph_key_of(a, key_rules[i].tail).text, &key_rules[i],
                              ret_why);
    }
    return refuse_unknown(a, key, ret_why);
}

/* Every key that speaks of the graph must be one that is taken into account. */
static enum status check_all_keys(const struct gguf *gguf, const struct graph_architecture *a,
                                  struct why *ret_why)
{
    struct graph_key prefix = graph_key_of(a, "");
    for (size_t i = 0; i < gguf_key_count(gguf); i++) {
        struct slice key = gguf_key_at(gguf, i);
        bool is_map =
            slice_is(key, "foldkv.query_to_k_head") || slice_is(key, "foldkv.query_to_v_head");
        if (starts_with(key, prefix.text))
            TRY(check_key(gguf, a, key, ret_why));
        else if (starts_with(key, "foldkv.") && !is_map)
            return refuse_unknown(a, key, ret_why);
    }
    return OK;
}

enum status graph_key_bounded(const struct gguf *gguf, const char *key, uint32_t least,
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

static enum status read_scalars(const struct gguf *gguf, const struct graph_architecture *a,
                                struct graph *graph, struct why *ret_why)
{
    const struct {
        const char *tail;
        uint32_t most;
        uint32_t *ret;
        bool is_optional;
    } rows[] = {
        {"block_count", GRAPH_LAYERS_MAX, &graph->n_layers, false},
        {"context_length", GRAPH_CONTEXT_MAX, &graph->context, false},
        {"embedding_length", GRAPH_HIDDEN_MAX, &graph->hidden, false},
        {"feed_forward_length", GRAPH_FFN_MAX, &graph->ffn, false},
        {"vocab_size", GRAPH_VOCAB_MAX, &graph->vocab, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct graph_key key = graph_key_of(a, rows[i].tail);
        if (!rows[i].is_optional || gguf_has(gguf, key.text))
            TRY(graph_key_bounded(gguf, key.text, 1, rows[i].most, rows[i].ret, ret_why));
    }
    if (a->other_layers != 0 && graph->n_layers == a->other_layers) {
        struct graph_key key = graph_key_of(a, "block_count");
        return why_set(ret_why, STATUS_BAD_FILE, key.text,
                       "key \"%s\": %s of %" PRIu32 " layers has %s, which is not served", key.text,
                       a->name, graph->n_layers, a->other_reason);
    }
    return read_positive(gguf, graph_key_of(a, "attention.layer_norm_rms_epsilon").text,
                         &graph->rms_eps, ret_why);
}

/* The window and the base of each layer's rotation. */
static enum status read_positions(const struct gguf *gguf, const struct graph_architecture *a,
                                  struct graph *graph, struct why *ret_why)
{
    const struct graph_key base_key = graph_key_of(a, "rope.freq_base"),
                           local_key = graph_key_of(a, "rope.freq_base_swa"),
                           window_key = graph_key_of(a, "attention.sliding_window");
    float base = 10000.0f, local = (float)WINDOW_ROPE_BASE; /* the format's defaults */
    uint32_t window = 0;
    if (gguf_has(gguf, base_key.text))
        TRY(read_positive(gguf, base_key.text, &base, ret_why));
    if (gguf_has(gguf, local_key.text))
        TRY(read_positive(gguf, local_key.text, &local, ret_why));
    if (a->window_period != 0)
        TRY(graph_key_bounded(gguf, window_key.text, 1, GRAPH_CONTEXT_MAX, &window, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        bool is_local = a->window_period != 0 && i % a->window_period != a->window_period - 1;
        graph->layers[i].is_rotated = true;
        graph->layers[i].rope_base = is_local ? (double)local : (double)base;
        graph->layers[i].window = is_local ? window : 0;
    }
    return OK;
}

/* How many coordinates of a head are rotated: all, or as many as the key says. */
static enum status read_rope_dims(const struct gguf *gguf, const struct graph_architecture *a,
                                  struct graph *graph, struct why *ret_why)
{
    const struct graph_key key = graph_key_of(a, "rope.dimension_count");
    uint32_t dims = 0, narrowest = GRAPH_WIDTH_MAX;
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        uint32_t width = graph->layers[i].d_qk;
        narrowest = width < narrowest ? width : narrowest;
    }
    if (gguf_has(gguf, key.text))
        TRY(graph_key_bounded(gguf, key.text, 2, narrowest, &dims, ret_why));
    if (dims % 2 != 0)
        return why_set(ret_why, STATUS_BAD_FILE, key.text, "key \"%s\": %" PRIu32 ", must be even",
                       key.text, dims);
    for (uint32_t i = 0; i < graph->n_layers; i++)
        graph->layers[i].rope_dims = dims != 0 ? dims : graph->layers[i].d_qk;
    return OK;
}

static void describe(const struct graph_architecture *a, struct graph *graph)
{
    snprintf(graph->architecture, sizeof graph->architecture, "%s", a->name);
    graph->rope_order = a->rope_order;
    graph->gate = a->gate;
    graph->has_pre_norm = (a->parts & PART_PRE_NORM) != 0;
    graph->has_post_norm = (a->parts & PART_POST_NORM) != 0;
    graph->has_qk_norm = (a->parts & PART_QK_NORM) != 0;
    graph->has_qkv_bias = (a->parts & PART_QKV_BIAS) != 0;
}

enum status graph_keys_read(const struct gguf *gguf, const struct graph_architecture *a,
                            struct graph *graph, struct why *ret_why)
{
    describe(a, graph);
    TRY(check_all_keys(gguf, a, ret_why));
    TRY(read_name(gguf, graph, ret_why));
    TRY(read_scalars(gguf, a, graph, ret_why));
    graph->embedding_scale = a->is_embedding_scaled ? (float)sqrt((double)graph->hidden) : 1.0f;
    graph->layers = mem_zalloc(graph->n_layers, sizeof *graph->layers);
    if (graph->layers == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph's layers");
    TRY(graph_heads_read(gguf, a, graph, ret_why));
    TRY(read_positions(gguf, a, graph, ret_why));
    for (uint32_t i = 0; i < graph->n_layers; i++)
        graph->layers[i].attention_scale = (float)(1.0 / sqrt((double)graph->layers[i].d_qk));
    return read_rope_dims(gguf, a, graph, ret_why);
}
