/* manifest.c: writes the manifest and hashes it.
 *
 * WHY     Two builds, two machines and two years must print the same bytes for the same artifact.
 * HOW     jansson with sorted keys and no spaces prints RFC 8785 as long as there are only ASCII
 *         strings, integers and bools; reals go in as the bits of their float in hex. The graph is
 *         a part of its own, so that it can be hashed alone.
 * ALWAYS  (1) Nothing that the machine or the clock decides is in the identity.   identity_of
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/manifest.h"

#include <inttypes.h>
#include <jansson.h>

#include "config/mem.h"

enum { SCHEMA_VERSION = 2, MODEL_ID_ROOM = 3 * sizeof(((struct graph *)0)->name) };

/* Takes value; false if there is none (memory) or object is NULL. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *float_bits(float value)
{
    uint32_t bits;
    char hex[9];
    memcpy(&bits, &value, sizeof bits);
    snprintf(hex, sizeof hex, "%08" PRIx32, bits);
    return json_string(hex);
}

static json_t *double_bits(double value)
{
    uint64_t bits;
    char hex[17];
    memcpy(&bits, &value, sizeof bits);
    snprintf(hex, sizeof hex, "%016" PRIx64, bits);
    return json_string(hex);
}

/* Gives back value, or NULL if a part of it could not be added. */
static json_t *finish(json_t *value, bool is_whole)
{
    if (is_whole)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *head_map(const uint16_t *map, uint32_t n)
{
    json_t *array = json_array();
    bool is_whole = array != NULL;
    for (uint32_t i = 0; is_whole && i < n; i++)
        is_whole = json_array_append_new(array, json_integer(map[i])) == 0;
    return finish(array, is_whole);
}

/* n integers from first on, each step more than the one before. */
static json_t *integers(uint32_t n, json_int_t first, json_int_t step)
{
    json_t *array = json_array();
    bool is_whole = array != NULL;
    for (uint32_t i = 0; is_whole && i < n; i++)
        is_whole = json_array_append_new(array, json_integer(first + step * i)) == 0;
    return finish(array, is_whole);
}

static json_t *shape(uint64_t rows, uint64_t columns)
{
    return json_pack("[I,I]", (json_int_t)rows, (json_int_t)columns);
}

static json_t *layer_of(const struct graph *graph, uint32_t index)
{
    const struct graph_layer *l = &graph->layers[index];
    uint64_t q_rows = (uint64_t)l->n_query_heads * l->d_qk,
             k_rows = (uint64_t)l->n_k_heads * l->d_qk;
    uint64_t v_rows = (uint64_t)l->n_v_heads * l->d_v, merged = (uint64_t)l->n_query_heads * l->d_v;
    json_t *o = json_object();
    bool is_whole = set(o, "query_heads", json_integer(l->n_query_heads)) &&
                    set(o, "k_heads", json_integer(l->n_k_heads)) &&
                    set(o, "v_heads", json_integer(l->n_v_heads)) &&
                    set(o, "d_qk", json_integer(l->d_qk)) && set(o, "d_v", json_integer(l->d_v)) &&
                    set(o, "query_to_k_head", head_map(l->query_to_k_head, l->n_query_heads)) &&
                    set(o, "query_to_v_head", head_map(l->query_to_v_head, l->n_query_heads)) &&
                    set(o, "q_projection_shape", shape(q_rows, graph->hidden)) &&
                    set(o, "k_projection_shape", shape(k_rows, graph->hidden)) &&
                    set(o, "v_projection_shape", shape(v_rows, graph->hidden)) &&
                    set(o, "output_projection_shape", shape(graph->hidden, merged)) &&
                    set(o, "attention_scale", float_bits(l->attention_scale)) &&
                    set(o, "attention_soft_cap", float_bits(0.0f)) &&
                    set(o, "window", json_integer(l->window)) &&
                    set(o, "rotated", json_boolean(l->is_rotated)) &&
                    set(o, "rope_base", double_bits(l->rope_base)) &&
                    set(o, "rope_dims", json_integer(l->rope_dims)) &&
                    set(o, "rope_scaling", json_string(l->has_rope_factors ? "factors" : "none")) &&
                    set(o, "kv_source", json_integer(index)) &&
                    set(o, "cache_group", json_integer(l->cache_group));
    return finish(o, is_whole);
}

static json_t *layers_of(const struct graph *graph)
{
    json_t *array = json_array();
    bool is_whole = array != NULL;
    for (uint32_t i = 0; is_whole && i < graph->n_layers; i++)
        is_whole = json_array_append_new(array, layer_of(graph, i)) == 0;
    return finish(array, is_whole);
}

/* The divisors of the frequencies, as bits; empty if there are none. */
static json_t *rope_factors_of(const struct graph *graph)
{
    uint32_t n = graph->rope_factors != NULL ? graph->layers[0].rope_dims / 2 : 0;
    json_t *array = json_array();
    bool is_whole = array != NULL;
    for (uint32_t i = 0; is_whole && i < n; i++)
        is_whole = json_array_append_new(array, float_bits(graph->rope_factors[i])) == 0;
    return finish(array, is_whole);
}

/* Which of the parts that some graphs lack are there. */
static json_t *parts_of(const struct graph *graph)
{
    json_t *o = json_object();
    bool is_whole = set(o, "pre_norm", json_boolean(graph->has_pre_norm)) &&
                    set(o, "post_norm", json_boolean(graph->has_post_norm)) &&
                    set(o, "qk_norm", json_boolean(graph->has_qk_norm)) &&
                    set(o, "qkv_bias", json_boolean(graph->has_qkv_bias)) &&
                    set(o, "tied_output", json_boolean(graph->tied_output));
    return finish(o, is_whole);
}

/* The part that architecture_hash covers. */
static json_t *graph_of(const struct graph *graph)
{
    const char *order = graph->rope_order == ROPE_NEIGHBOURS ? "neighbours" : "halves";
    const char *gate = graph->gate == GATE_SILU ? "silu" : "gelu-tanh";
    json_t *o = json_object();
    bool is_whole =
        set(o, "name", json_string(graph->architecture)) &&
        set(o, "version", json_integer(graph->version)) &&
        set(o, "hidden", json_integer(graph->hidden)) && set(o, "ffn", json_integer(graph->ffn)) &&
        set(o, "vocab", json_integer(graph->vocab)) &&
        set(o, "rms_eps", float_bits(graph->rms_eps)) &&
        set(o, "rope_coordinate_order", json_string(order)) &&
        set(o, "qkv_fusion_order", json_string("separate")) && set(o, "parts", parts_of(graph)) &&
        set(o, "gate", json_string(gate)) &&
        set(o, "embedding_scale", float_bits(graph->embedding_scale)) &&
        set(o, "rope_factors", rope_factors_of(graph)) &&
        set(o, "n_layers", json_integer(graph->n_layers)) && set(o, "layers", layers_of(graph));
    return finish(o, is_whole);
}

/* A rank's heads in the layers of one cache group; query heads are as many in all layers. */
static json_t *rank_group_of(const struct graph *graph, uint32_t group)
{
    const struct graph_layer *l = &graph->layers[graph->groups[group].layers[0]];
    json_t *o = json_object();
    bool is_whole = set(o, "cache_group", json_integer(group)) &&
                    set(o, "query_heads", integers(l->n_query_heads, 0, 1)) &&
                    set(o, "k_heads", integers(l->n_k_heads, 0, 1)) &&
                    set(o, "v_heads", integers(l->n_v_heads, 0, 1)) &&
                    set(o, "kv_replicas", integers(l->n_k_heads, 1, 0));
    return finish(o, is_whole);
}

/* One rank holds every head once; with more ranks this is where the split is written out. */
static json_t *placement_of(const struct graph *graph)
{
    json_t *rank = json_array();
    bool is_whole = rank != NULL;
    for (uint32_t g = 0; is_whole && g < graph->n_groups; g++)
        is_whole = json_array_append_new(rank, rank_group_of(graph, g)) == 0;
    rank = finish(rank, is_whole);
    json_t *ranks = json_array();
    is_whole = json_array_append_new(ranks, rank) == 0;
    ranks = finish(ranks, is_whole);
    json_t *o = json_object();
    is_whole = set(o, "ranks", ranks) &&
               set(o, "tensor_parallel_degree", json_integer(1)); /* ranks is taken either way */
    return finish(o, is_whole);
}

static json_t *cache_of(const struct manifest_layout *layout)
{
    bool is_scaled = strcmp(layout->kv_type, "int8") == 0;
    json_t *o = json_object();
    bool is_whole = set(o, "layout", json_string("head-major pages")) &&
                    set(o, "kv_type", json_string(layout->kv_type)) &&
                    set(o, "kv_scales", json_string(is_scaled ? "f32 a token and head" : "none")) &&
                    set(o, "page_tokens", json_integer(layout->page_tokens));
    return finish(o, is_whole);
}

/* The name in ASCII: other bytes, and the percent sign itself, as %XX, so that two names never
 * become one. */
static void model_id_of(const char *name, char ret_id[MODEL_ID_ROOM])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        if (*p < 0x80 && *p != '%') {
            ret_id[n++] = (char)*p;
            continue;
        }
        ret_id[n++] = '%';
        ret_id[n++] = digits[*p >> 4];
        ret_id[n++] = digits[*p & 15];
    }
    ret_id[n] = '\0';
}

static json_t *identity_of(const struct graph *graph, json_t *graph_json,
                           const uint8_t checkpoint_sha256[SHA256_BYTES],
                           const struct manifest_layout *layout)
{
    char hex[SHA256_HEX], id[MODEL_ID_ROOM];
    sha256_hex(checkpoint_sha256, hex);
    model_id_of(graph->name, id);
    json_t *o = json_object();
    bool is_whole = set(o, "schema_version", json_integer(SCHEMA_VERSION)) &&
                    set(o, "model_id", json_string(id)) &&
                    set(o, "checkpoint_sha256", json_string(hex)) &&
                    set(o, "architecture_generation", json_integer(0)) &&
                    set(o, "graph", json_incref(graph_json)) && set(o, "cache", cache_of(layout)) &&
                    set(o, "placement", placement_of(graph));
    return finish(o, is_whole);
}

static json_t *binding_of(const struct manifest_binding *binding)
{
    json_t *modes = json_pack("[s,s,s,s]", "prefill", "decode", "append", "verify");
    json_t *o = json_object();
    bool is_whole = set(o, "modes", modes) && /* first, so that it is taken either way */
                    set(o, "backend", json_string(binding->backend)) &&
                    set(o, "backend_revision", json_string(FOLDKV_VERSION)) &&
                    set(o, "numerics", json_string(binding->numerics)) &&
                    set(o, "materializes_repeated_kv", json_false());
    return finish(o, is_whole);
}

/* The canonical text, made with mem_alloc, and its hash. NULL without memory. */
static char *print_and_hash(const json_t *value, uint8_t ret_hash[SHA256_BYTES])
{
    const size_t flags = JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII;
    size_t len = value != NULL ? json_dumpb(value, NULL, 0, flags) : 0;
    char *text = len > 0 ? mem_alloc(len + 1) : NULL;
    if (text == NULL)
        return NULL;
    if (json_dumpb(value, text, len, flags) != len || sha256_of(text, len, ret_hash) != OK) {
        mem_free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

static enum status fill(struct manifest *m, const struct graph *graph,
                        const uint8_t checkpoint_sha256[SHA256_BYTES],
                        const struct manifest_layout *layout,
                        const struct manifest_binding *binding)
{
    json_t *graph_json = graph_of(graph);
    json_t *identity = identity_of(graph, graph_json, checkpoint_sha256, layout);
    json_t *binding_json = binding_of(binding);
    char *graph_text = print_and_hash(graph_json, m->architecture_hash);
    m->identity_json = print_and_hash(identity, m->identity);
    m->binding_json = print_and_hash(binding_json, m->binding_hash);
    bool is_whole = graph_text != NULL && m->identity_json != NULL && m->binding_json != NULL;
    mem_free(graph_text);
    json_decref(binding_json);
    json_decref(identity);
    json_decref(graph_json);
    return is_whole ? OK : STATUS_NO_MEMORY;
}

enum status manifest_new(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                         const struct manifest_layout *layout,
                         const struct manifest_binding *binding, struct manifest **ret_manifest,
                         struct why *ret_why)
{
    *ret_manifest = NULL;
    struct manifest *m = mem_zalloc(1, sizeof *m);
    if (m == NULL || fill(m, graph, checkpoint_sha256, layout, binding) != OK) {
        manifest_free(&m);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the manifest");
    }
    *ret_manifest = m;
    return OK;
}

void manifest_free(struct manifest **manifest)
{
    if (*manifest == NULL)
        return;
    mem_free((*manifest)->identity_json);
    mem_free((*manifest)->binding_json);
    mem_free(*manifest);
    *manifest = NULL;
}
