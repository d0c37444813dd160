/* graph_tensors.c: the tensors of a graph, against what the file holds.
 *
 * HOW     Tables list the parts outside the layers and those of each layer, with the widths that
 *         make their shapes and the architecture's parts they belong to; the file must have each of
 *         them and nothing else, since a tensor that is left out (a bias, a rotation table) alters
 *         the answer.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>
#include <math.h>

#include "config/ggml_type.h"
#include "config/mem.h"

enum width {
    WIDTH_NONE,
    WIDTH_HIDDEN,
    WIDTH_FFN,
    WIDTH_VOCAB,
    WIDTH_Q,
    WIDTH_K,
    WIDTH_V,
    WIDTH_MERGED,
    WIDTH_QK_HEAD,
    WIDTH_HALF_ROPE,
    WIDTH_COUNT
};

struct part {
    const char *name;
    enum width columns; /* dims[0], the contiguous one */
    enum width rows;    /* dims[1]; WIDTH_NONE: a vector, in F32 */
    unsigned of;        /* PART_*: only an architecture with that part has it; 0: all do */
    bool is_optional;
};

static const struct part outer_parts[] = {
    {"token_embd.weight", WIDTH_HIDDEN, WIDTH_VOCAB, 0, false},
    {"output_norm.weight", WIDTH_HIDDEN, WIDTH_NONE, 0, false},
    {"output.weight", WIDTH_HIDDEN, WIDTH_VOCAB, 0, true}, /* else the embedding table is used */
    {"rope_freqs.weight", WIDTH_HALF_ROPE, WIDTH_NONE, PART_ROPE_FACTORS, true},
};

static const struct part layer_parts[] = {
    {"attn_norm.weight", WIDTH_HIDDEN, WIDTH_NONE, PART_PRE_NORM, false},
    {"attn_q.weight", WIDTH_HIDDEN, WIDTH_Q, 0, false},
    {"attn_k.weight", WIDTH_HIDDEN, WIDTH_K, 0, false},
    {"attn_v.weight", WIDTH_HIDDEN, WIDTH_V, 0, false},
    {"attn_q.bias", WIDTH_Q, WIDTH_NONE, PART_QKV_BIAS, false},
    {"attn_k.bias", WIDTH_K, WIDTH_NONE, PART_QKV_BIAS, false},
    {"attn_v.bias", WIDTH_V, WIDTH_NONE, PART_QKV_BIAS, false},
    {"attn_q_norm.weight", WIDTH_QK_HEAD, WIDTH_NONE, PART_QK_NORM, false},
    {"attn_k_norm.weight", WIDTH_QK_HEAD, WIDTH_NONE, PART_QK_NORM, false},
    {"attn_output.weight", WIDTH_MERGED, WIDTH_HIDDEN, 0, false},
    {"post_attention_norm.weight", WIDTH_HIDDEN, WIDTH_NONE, PART_POST_NORM, false},
    {"ffn_norm.weight", WIDTH_HIDDEN, WIDTH_NONE, PART_PRE_NORM, false},
    {"ffn_gate.weight", WIDTH_HIDDEN, WIDTH_FFN, 0, false},
    {"ffn_up.weight", WIDTH_HIDDEN, WIDTH_FFN, 0, false},
    {"ffn_down.weight", WIDTH_FFN, WIDTH_HIDDEN, 0, false},
    {"post_ffw_norm.weight", WIDTH_HIDDEN, WIDTH_NONE, PART_POST_NORM, false},
};

static const uint32_t matrix_types[] = {GGML_F32,  GGML_F16,  GGML_BF16, GGML_Q4_0,   GGML_Q4_1,
                                        GGML_Q5_0, GGML_Q5_1, GGML_Q8_0, GGML_Q2_K,   GGML_Q3_K,
                                        GGML_Q4_K, GGML_Q5_K, GGML_Q6_K, GGML_IQ4_NL, GGML_IQ4_XS};

static bool is_matrix_type(uint32_t type)
{
    for (size_t i = 0; i < ARRAY_LEN(matrix_types); i++) {
        if (matrix_types[i] == type)
            return true;
    }
    return false;
}

/* "F32 F16 ...". */
static void list_matrix_types(char list[128])
{
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(matrix_types); i++) {
        const struct ggml_type *type = ggml_type_find(matrix_types[i]);
        len += (size_t)snprintf(list + len, 128 - len, "%s%s", i == 0 ? "" : " ", type->name);
        ASSERT(len < 128);
    }
}

static enum status check_type(const struct gguf_tensor *tensor, const char *name, bool is_vector,
                              struct why *ret_why)
{
    const struct ggml_type *type = ggml_type_find(tensor->type);
    char served[128];
    ASSERT(type != NULL);
    if (is_vector && type->id != GGML_F32)
        return why_set(ret_why, STATUS_BAD_FILE, name, "tensor \"%s\": %s, must be F32", name,
                       type->name);
    if (is_vector || is_matrix_type(type->id))
        return OK;
    list_matrix_types(served);
    return why_set(ret_why, STATUS_BAD_FILE, name, "tensor \"%s\": %s is not served; served are %s",
                   name, type->name, served);
}

static enum status check_shape(const struct gguf_tensor *tensor, const char *name, uint64_t columns,
                               uint64_t rows, struct why *ret_why)
{
    const uint64_t *d = tensor->dims;
    if (d[0] == columns && d[1] == rows && d[2] == 1 && d[3] == 1)
        return OK;
    return why_set(ret_why, STATUS_BAD_FILE, name,
                   "tensor \"%s\": shape %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   ", the metadata demands %" PRIu64 " x %" PRIu64,
                   name, d[0], d[1], d[2], d[3], columns, rows);
}

static enum status check_part(const struct gguf *gguf, const char *name, const struct part *part,
                              const uint64_t widths[WIDTH_COUNT], struct why *ret_why)
{
    const struct gguf_tensor *tensor = gguf_tensor_find(gguf, name);
    if (tensor == NULL && part->is_optional)
        return OK;
    if (tensor == NULL)
        return why_set(ret_why, STATUS_BAD_FILE, name,
                       "tensor \"%s\": absent, the graph needs it with shape %" PRIu64
                       " x %" PRIu64,
                       name, widths[part->columns], widths[part->rows]);
    TRY(check_shape(tensor, name, widths[part->columns], widths[part->rows], ret_why));
    return check_type(tensor, name, part->rows == WIDTH_NONE, ret_why);
}

static bool is_had(const struct part *part, const struct graph_architecture *a)
{
    return part->of == 0 || (part->of & a->parts) != 0;
}

static bool is_one_of(struct slice name, const struct graph_architecture *a,
                      const struct part *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        if (name.len == strlen(parts[i].name) && memcmp(name.bytes, parts[i].name, name.len) == 0)
            return is_had(&parts[i], a);
    }
    return false;
}

/* True if name is "blk.N.part" of a layer that the graph has. */
static bool is_layer_part(struct slice name, const struct graph_architecture *a, uint32_t n_layers)
{
    static const char prefix[] = "blk.";
    size_t at = sizeof prefix - 1;
    uint32_t layer = 0;
    if (name.len < at || memcmp(name.bytes, prefix, at) != 0)
        return false;
    size_t first = at;
    for (; at < name.len && name.bytes[at] >= '0' && name.bytes[at] <= '9' && layer < n_layers;
         at++)
        layer = layer * 10 + (uint32_t)(name.bytes[at] - '0');
    bool is_canonical = at > first && (name.bytes[first] != '0' || at == first + 1);
    if (!is_canonical || layer >= n_layers || at == name.len || name.bytes[at] != '.')
        return false;
    return is_one_of((struct slice){name.bytes + at + 1, name.len - at - 1}, a, layer_parts,
                     ARRAY_LEN(layer_parts));
}

static enum status refuse_others(const struct gguf *gguf, const struct graph_architecture *a,
                                 uint32_t n_layers, struct why *ret_why)
{
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice name = gguf_tensor_at(gguf, i)->name;
        if (is_one_of(name, a, outer_parts, ARRAY_LEN(outer_parts)) ||
            is_layer_part(name, a, n_layers))
            continue;
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)name.len, name.bytes);
        return why_set(ret_why, STATUS_BAD_FILE, text,
                       "tensor \"%s\": not part of a %s graph of %" PRIu32
                       " layers as served; leaving it out would alter the answer",
                       text, a->name, n_layers);
    }
    return OK;
}

/* The vocabulary is what the embedding table has; a key and the token list must agree. */
static enum status settle_vocab(const struct gguf *gguf, struct graph *graph, struct why *ret_why)
{
    static const char embedding[] = "token_embd.weight", tokens[] = "tokenizer.ggml.tokens";
    const struct gguf_tensor *table = gguf_tensor_find(gguf, embedding);
    uint64_t rows = table != NULL ? table->dims[1] : 1;
    if (graph->vocab == 0 && rows <= GRAPH_VOCAB_MAX)
        graph->vocab = (uint32_t)rows;
    if (graph->vocab == 0)
        return why_set(ret_why, STATUS_BAD_FILE, embedding,
                       "tensor \"%s\": %" PRIu64 " rows, at most %d are served", embedding, rows,
                       GRAPH_VOCAB_MAX);
    if (!gguf_has(gguf, tokens))
        return OK;
    enum gguf_type type;
    size_t count = 0;
    TRY(gguf_array(gguf, tokens, &type, &count, ret_why));
    if (type != GGUF_STRING || count != graph->vocab)
        return why_set(ret_why, STATUS_BAD_FILE, tokens,
                       "key \"%s\": %zu items%s, the vocabulary has %" PRIu32, tokens, count,
                       type != GGUF_STRING ? " that are no strings" : "", graph->vocab);
    return OK;
}

static void set_layer_widths(const struct graph_layer *l, uint64_t widths[WIDTH_COUNT])
{
    widths[WIDTH_Q] = (uint64_t)l->n_query_heads * l->d_qk;
    widths[WIDTH_K] = (uint64_t)l->n_k_heads * l->d_qk;
    widths[WIDTH_V] = (uint64_t)l->n_v_heads * l->d_v;
    widths[WIDTH_MERGED] = (uint64_t)l->n_query_heads * l->d_v;
    widths[WIDTH_QK_HEAD] = l->d_qk;
}

enum status graph_tensors_check(const struct gguf *gguf, const struct graph_architecture *a,
                                struct graph *graph, struct why *ret_why)
{
    TRY(settle_vocab(gguf, graph, ret_why));
    uint64_t widths[WIDTH_COUNT] = {
        [WIDTH_NONE] = 1,
        [WIDTH_HIDDEN] = graph->hidden,
        [WIDTH_FFN] = graph->ffn,
        [WIDTH_VOCAB] = graph->vocab,
        [WIDTH_HALF_ROPE] = graph->layers[0].rope_dims / 2,
    };
    TRY(refuse_others(gguf, a, graph->n_layers, ret_why));
    graph->tied_output = gguf_tensor_find(gguf, "output.weight") == NULL;
    for (size_t i = 0; i < ARRAY_LEN(outer_parts); i++) {
        if (is_had(&outer_parts[i], a))
            TRY(check_part(gguf, outer_parts[i].name, &outer_parts[i], widths, ret_why));
    }
    for (uint32_t layer = 0; layer < graph->n_layers; layer++) {
        set_layer_widths(&graph->layers[layer], widths);
        for (size_t i = 0; i < ARRAY_LEN(layer_parts); i++) {
            char name[64];
            graph_tensor_name(layer, layer_parts[i].name, name);
            if (is_had(&layer_parts[i], a))
                TRY(check_part(gguf, name, &layer_parts[i], widths, ret_why));
        }
    }
    return OK;
}

enum status graph_rope_factors_read(const struct gguf *gguf, struct graph *graph,
                                    struct why *ret_why)
{
    static const char name[] = "rope_freqs.weight";
    const struct gguf_tensor *tensor = gguf_tensor_find(gguf, name);
    if (tensor == NULL)
        return OK;
    uint32_t n = graph->layers[0].rope_dims / 2;
    for (uint32_t i = 1; i < graph->n_layers; i++) {
        if (graph->layers[i].rope_dims != graph->layers[0].rope_dims)
            return why_set(ret_why, STATUS_BAD_FILE, name,
                           "tensor \"%s\": one table, but layer %" PRIu32 " rotates %" PRIu32
                           " coordinates and layer 0 %" PRIu32,
                           name, i, graph->layers[i].rope_dims, graph->layers[0].rope_dims);
    }
    graph->rope_factors = mem_alloc(n * sizeof *graph->rope_factors);
    if (graph->rope_factors == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the graph's rope factors");
    memcpy(graph->rope_factors, tensor->data, n * sizeof *graph->rope_factors);
    for (uint32_t i = 0; i < n; i++) {
        double factor = (double)graph->rope_factors[i];
        if (!isfinite(factor) || factor <= 0.0)
            return why_set(ret_why, STATUS_BAD_FILE, name,
                           "tensor \"%s\": entry %" PRIu32 " is %g, must be finite and over 0",
                           name, i, factor);
    }
    for (uint32_t i = 0; i < graph->n_layers; i++)
        graph->layers[i].has_rope_factors = true;
    return OK;
}
