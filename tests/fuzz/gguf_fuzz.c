/* gguf_fuzz.c: any bytes as a GGUF file: refused with a reason, or taken with every view inside the
 * bytes.
 *
 * HOW     A file that is taken has each of its tensors and arrays read from end to end, then its
 *         graph made, so that a view that leaves the buffer is seen by the sanitizer. A graph that
 *         is made must keep what its header promises: every owner is a head of its layer, every head
 *         has a reader, every layer is in its group once. Then its vocabulary is opened.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include "config/mem.h"
#include "tests/fuzz/vocabulary_open.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static volatile uint8_t sink;

static void touch(const void *p, size_t len)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < len; i += i + 64 < len ? 64 : 1)
        sink ^= b[i];
}

static void read_array(const struct gguf *gguf, const char *key)
{
    enum gguf_type type;
    size_t count = 0;
    if (gguf_array(gguf, key, &type, &count, NULL) != OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (type == GGUF_STRING) {
            struct slice s = gguf_array_string(gguf, key, i);
            touch(s.bytes, s.len);
        } else if (type == GGUF_F32) {
            float value = gguf_array_f32(gguf, key, i);
            touch(&value, sizeof value);
        } else if (type != GGUF_F64 && type != GGUF_BOOL) {
            sink ^= (uint8_t)gguf_array_int(gguf, key, i);
        }
    }
}

static void read_value(const struct gguf *gguf, const char *key)
{
    uint32_t number;
    float real;
    bool flag;
    struct slice text;
    unsigned taken = 0;
    taken += gguf_u32(gguf, key, &number, NULL) == OK;
    taken += gguf_f32(gguf, key, &real, NULL) == OK;
    taken += gguf_bool(gguf, key, &flag, NULL) == OK;
    if (gguf_string(gguf, key, &text, NULL) == OK) {
        touch(text.bytes, text.len);
        taken++;
    }
    ASSERT(taken <= 1 && gguf_has(gguf, key));
    read_array(gguf, key);
}

static void read_all(const struct gguf *gguf)
{
    char name[256];
    for (size_t i = 0; i < gguf_key_count(gguf); i++) {
        struct slice key = gguf_key_at(gguf, i);
        if (key.len >= sizeof name)
            continue;
        memcpy(name, key.bytes, key.len);
        name[key.len] = '\0';
        read_value(gguf, name);
    }
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(gguf, i);
        memcpy(name, t->name.bytes, t->name.len);
        name[t->name.len] = '\0';
        ASSERT(gguf_tensor_find(gguf, name) == t);
        touch(t->data, t->bytes);
    }
}

static void check_map(const uint16_t *map, uint32_t n_query_heads, uint32_t n_heads)
{
    bool is_read[GRAPH_HEADS_MAX] = {false};
    for (uint32_t head = 0; head < n_query_heads; head++) {
        ASSERT(map[head] < n_heads);
        is_read[map[head]] = true;
    }
    for (uint32_t head = 0; head < n_heads; head++)
        ASSERT(is_read[head]);
}

static void check_layer(const struct graph *g, uint32_t i)
{
    const struct graph_layer *l = &g->layers[i];
    ASSERT(l->n_query_heads >= 1 && l->n_query_heads <= GRAPH_HEADS_MAX);
    ASSERT(l->n_k_heads >= 1 && l->n_k_heads <= l->n_query_heads && l->n_v_heads == l->n_k_heads);
    ASSERT(l->d_qk % GRAPH_WIDTH_STEP == 0 && l->d_qk >= 16 && l->d_qk <= GRAPH_WIDTH_MAX);
    ASSERT(l->d_v % GRAPH_WIDTH_STEP == 0 && l->d_v >= 16 && l->d_v <= GRAPH_WIDTH_MAX);
    ASSERT(l->rope_dims >= 2 && l->rope_dims <= l->d_qk && l->rope_dims % 2 == 0);
    ASSERT(l->rope_base > 0.0 && l->attention_scale > 0.0f);
    check_map(l->query_to_k_head, l->n_query_heads, l->n_k_heads);
    check_map(l->query_to_v_head, l->n_query_heads, l->n_v_heads);
    const struct graph_group *group = &g->groups[l->cache_group];
    ASSERT(l->cache_group < g->n_groups && l->group_index < group->n_layers);
    ASSERT(group->layers[l->group_index] == i && group->n_heads == l->n_k_heads);
    ASSERT(group->d_qk == l->d_qk && group->d_v == l->d_v && group->window == l->window);
}

static void check_graph(const struct graph *g)
{
    uint32_t n_layers = 0;
    ASSERT(g->n_layers >= 1 && g->n_groups >= 1 && g->n_groups <= GRAPH_CACHE_GROUPS_MAX);
    for (uint32_t i = 0; i < g->n_groups; i++)
        n_layers += g->groups[i].n_layers;
    ASSERT(n_layers == g->n_layers);
    for (uint32_t i = 0; i < g->n_layers; i++)
        check_layer(g, i);
    for (uint32_t i = 0; g->rope_factors != NULL && i < g->layers[0].rope_dims / 2; i++)
        ASSERT(g->rope_factors[i] > 0.0f);
    ASSERT(g->embedding_scale >= 1.0f && g->vocab >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct gguf *gguf = NULL;
    struct graph *graph = NULL;
    struct why why = {0};
    enum status s = gguf_parse(bytes, len, &gguf, &why);
    ASSERT((s == OK) == (gguf != NULL) &&
           (s == OK || (s == STATUS_BAD_FILE && why.text[0] != '\0')));
    if (s != OK)
        return 0;
    read_all(gguf);
    s = graph_from_gguf(gguf, &graph, &why);
    ASSERT((s == OK) == (graph != NULL) && (s == OK || why.text[0] != '\0'));
    if (graph != NULL)
        check_graph(graph);
    (void)vocabulary_open(gguf);
    graph_free(&graph);
    gguf_free(&gguf);
    return 0;
}
