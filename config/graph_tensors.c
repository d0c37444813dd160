/* graph_tensors.c: the tensors of a llama graph, against what the file holds.
 *
 * HOW     Tables list the parts outside the layers and those of each layer, with the widths that
 *         make their shapes; the file must have each of them and nothing else, since a tensor that
 *         is left out (a bias, a rotation table) alters the answer.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph_priv.h"

#include <inttypes.h>

#include "config/ggml_type.h"

enum width {
    WIDTH_NONE,
    WIDTH_HIDDEN,
    WIDTH_FFN,
    WIDTH_VOCAB,
    WIDTH_Q,
    WIDTH_K,
    WIDTH_V,
    WIDTH_MERGED,
    WIDTH_COUNT
};

struct part {
    const char *name;
    enum width columns; /* dims[0], the contiguous one */
    enum width rows;    /* dims[1]; WIDTH_NONE: a vector, in F32 */
};

static const struct part outer_parts[] = {
    {"token_embd.weight", WIDTH_HIDDEN, WIDTH_VOCAB},
    {"output_norm.weight", WIDTH_HIDDEN, WIDTH_NONE},
    {"output.weight", WIDTH_HIDDEN,
     WIDTH_VOCAB}, /* may be absent: then the embedding table is used */
};

static const struct part layer_parts[] = {
    {"attn_norm.weight", WIDTH_HIDDEN, WIDTH_NONE},
    {"attn_q.weight", WIDTH_HIDDEN, WIDTH_Q},
    {"attn_k.weight", WIDTH_HIDDEN, WIDTH_K},
    {"attn_v.weight", WIDTH_HIDDEN, WIDTH_V},
    {"attn_output.weight", WIDTH_MERGED, WIDTH_HIDDEN},
    {"ffn_norm.weight", WIDTH_HIDDEN, WIDTH_NONE},
    {"ffn_gate.weight", WIDTH_HIDDEN, WIDTH_FFN},
    {"ffn_up.weight", WIDTH_HIDDEN, WIDTH_FFN},
    {"ffn_down.weight", WIDTH_FFN, WIDTH_HIDDEN},
};

static const uint32_t matrix_types[] = {GGML_F32,  GGML_F16,  GGML_BF16,
                                        GGML_Q4_0, GGML_Q4_1, GGML_Q8_0};

static bool is_matrix_type(uint32_t type)
{
    for (size_t i = 0; i < ARRAY_LEN(matrix_types); i++) {
        if (matrix_types[i] == type)
            return true;
    }
    return false;
}

static enum status check_type(const struct gguf_tensor *tensor, const char *name, bool is_vector,
                              struct why *ret_why)
{
    const struct ggml_type *type = ggml_type_find(tensor->type);
    ASSERT(type != NULL);
    if (is_vector && type->id != GGML_F32)
        return why_set(ret_why, STATUS_BAD_FILE, name, "tensor \"%s\": %s, must be F32", name,
                       type->name);
    if (!is_vector && !is_matrix_type(type->id))
        return why_set(ret_why, STATUS_BAD_FILE, name,
                       "tensor \"%s\": %s is not served; served are F32 F16 BF16 Q4_0 Q4_1 Q8_0",
                       name, type->name);
    return OK;
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
    if (tensor == NULL)
        return why_set(ret_why, STATUS_BAD_FILE, name,
                       "tensor \"%s\": absent, the graph needs it with shape %" PRIu64
                       " x %" PRIu64,
                       name, widths[part->columns], widths[part->rows]);
    TRY(check_shape(tensor, name, widths[part->columns], widths[part->rows], ret_why));
    return check_type(tensor, name, part->rows == WIDTH_NONE, ret_why);
}

static bool is_one_of(struct slice name, const struct part *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        if (name.len == strlen(parts[i].name) && memcmp(name.bytes, parts[i].name, name.len) == 0)
            return true;
    }
    return false;
}

/* True if name is "blk.N.part" of a layer that the graph has. */
static bool is_layer_part(struct slice name, uint32_t n_layers)
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
    return is_one_of((struct slice){name.bytes + at + 1, name.len - at - 1}, layer_parts,
                     ARRAY_LEN(layer_parts));
}

static enum status refuse_others(const struct gguf *gguf, uint32_t n_layers, struct why *ret_why)
{
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice name = gguf_tensor_at(gguf, i)->name;
        if (is_one_of(name, outer_parts, ARRAY_LEN(outer_parts)) || is_layer_part(name, n_layers))
            continue;
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)name.len, name.bytes);
        return why_set(ret_why, STATUS_BAD_FILE, text,
                       "tensor \"%s\": not part of a llama graph of %" PRIu32
                       " layers as served; leaving it out would alter the answer",
                       text, n_layers);
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

enum status graph_tensors_check(const struct gguf *gguf, struct graph *graph,
                                const struct graph_keys *k, struct why *ret_why)
{
    TRY(settle_vocab(gguf, graph, ret_why));
    const uint64_t widths[WIDTH_COUNT] = {
        [WIDTH_NONE] = 1,
        [WIDTH_HIDDEN] = graph->hidden,
        [WIDTH_FFN] = graph->ffn,
        [WIDTH_VOCAB] = graph->vocab,
        [WIDTH_Q] = (uint64_t)k->n_query_heads * k->d_qk,
        [WIDTH_K] = (uint64_t)k->n_kv_heads * k->d_qk,
        [WIDTH_V] = (uint64_t)k->n_kv_heads * k->d_v,
        [WIDTH_MERGED] = (uint64_t)k->n_query_heads * k->d_v,
    };
    TRY(refuse_others(gguf, graph->n_layers, ret_why));
    graph->tied_output = gguf_tensor_find(gguf, "output.weight") == NULL;
    for (size_t i = 0; i < ARRAY_LEN(outer_parts) - graph->tied_output; i++)
        TRY(check_part(gguf, outer_parts[i].name, &outer_parts[i], widths, ret_why));
    for (uint32_t layer = 0; layer < graph->n_layers; layer++) {
        for (size_t i = 0; i < ARRAY_LEN(layer_parts); i++) {
            char name[64];
            graph_tensor_name(layer, layer_parts[i].name, name);
            TRY(check_part(gguf, name, &layer_parts[i], widths, ret_why));
        }
    }
    return OK;
}
