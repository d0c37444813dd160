/* graph_heads_test.c: every arrangement of heads is read as the file says it, and every map that
 * contradicts itself or the tensors is refused with the layer, the head and both numbers. */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include "config/ggml_type.h"
#include "tests/support/opened_graph.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

static const char k_key[] = "foldkv.query_to_k_head", v_key[] = "foldkv.query_to_v_head",
                  kv_count_key[] = "llama.attention.head_count_kv";

static struct small_model heads_of(uint32_t heads, uint32_t kv_heads)
{
    struct small_model m = small_model_default();
    m.heads = heads;
    m.kv_heads = kv_heads;
    m.type = GGML_F32; /* of any width */
    return m;
}

static void is_taken(const struct opened_graph *o)
{
    ck_assert_msg(o->status == OK, "%s", o->why.text);
}

static void is_refused(const struct opened_graph *o, const char *field, const char *says)
{
    ck_assert_msg(o->status == STATUS_BAD_FILE, "taken; should say \"%s\"", says);
    ck_assert_ptr_null(o->graph);
    ck_assert_str_eq(o->why.field, field);
    ck_assert_msg(strstr(o->why.text, says) != NULL, "\"%s\" lacks \"%s\"", o->why.text, says);
}

static void check_maps(const struct graph *g, uint32_t layer, const uint32_t *k, const uint32_t *v)
{
    const struct graph_layer *l = &g->layers[layer];
    for (uint32_t head = 0; head < l->n_query_heads; head++) {
        ck_assert_uint_eq(l->query_to_k_head[head], k[head]);
        ck_assert_uint_eq(l->query_to_v_head[head], v[head]);
    }
}

/* From one K/V head for all (MQA) to one each (MHA), any group between. */
START_TEST(without_a_map_query_heads_are_dealt_in_order)
{
    static const uint32_t counts[][2] = {{6, 6},  {6, 1}, {14, 2}, {32, 8}, {40, 1},
                                         {48, 1}, {9, 1}, {9, 3},  {27, 3}, {1, 1}};
    struct small_model m = heads_of(counts[_i][0], counts[_i][1]);
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_taken(&o);
    for (uint32_t layer = 0; layer < 2; layer++) {
        const struct graph_layer *l = &o.graph->layers[layer];
        ck_assert(l->n_query_heads == m.heads && l->n_k_heads == m.kv_heads &&
                  l->n_v_heads == m.kv_heads);
        for (uint32_t head = 0; head < m.heads; head++) {
            ck_assert_uint_eq(l->query_to_k_head[head], head / (m.heads / m.kv_heads));
            ck_assert_uint_eq(l->query_to_v_head[head], head / (m.heads / m.kv_heads));
        }
    }
    opened_graph_close(&o);
}
END_TEST

START_TEST(each_layer_may_have_its_own_count)
{
    static const uint32_t counts[] = {1, 8, 2, 1};
    struct small_model m = heads_of(8, 0);
    m.layers = 4;
    m.layer_kv_heads = counts;
    m.d_v = 32;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_taken(&o);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(o.graph->layers[i].n_k_heads, counts[i]);
        ck_assert_uint_eq(o.graph->layers[i].query_to_v_head[7], counts[i] - 1);
    }
    ck_assert_uint_eq(o.graph->n_groups, 3);
    ck_assert(o.graph->groups[0].n_heads == 1 && o.graph->groups[0].n_layers == 2 &&
              o.graph->groups[0].layers[1] == 3 && o.graph->groups[0].d_v == 32);
    ck_assert(o.graph->layers[3].cache_group == 0 && o.graph->layers[3].group_index == 1);
    ck_assert(o.graph->layers[2].cache_group == 2 && o.graph->layers[2].group_index == 0);
    opened_graph_close(&o);
}
END_TEST

START_TEST(one_map_serves_both_and_all_layers)
{
    static const uint32_t map[] = {0, 1, 0, 1, 0, 0, 0, 2}; /* groups of 5, 2 and 1, scattered */
    struct small_model m = heads_of(8, 3);
    *(_i == 0 ? &m.k_map : &m.v_map) = map;
    *(_i == 0 ? &m.n_k_map : &m.n_v_map) = 8;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_taken(&o);
    check_maps(o.graph, 0, map, map);
    check_maps(o.graph, 1, map, map);
    opened_graph_close(&o);
}
END_TEST

START_TEST(k_and_v_may_differ_and_so_may_layers)
{
    static const uint32_t k[] = {0, 1, 0, 1, 1, 1, 0, 1};
    static const uint32_t v[] = {1, 1, 0, 0};
    struct small_model m = heads_of(4, 2);
    m.k_map = k;
    m.n_k_map = 8;
    m.v_map = v;
    m.n_v_map = 4;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_taken(&o);
    check_maps(o.graph, 0, k, v);
    check_maps(o.graph, 1, k + 4, v);
    opened_graph_close(&o);
}
END_TEST

START_TEST(a_map_follows_the_counts_of_its_layer)
{
    static const uint32_t counts[] = {3, 1};
    static const uint32_t map[] = {2, 1, 0, 0, 0, 0, 0, 0};
    struct small_model m = heads_of(4, 0);
    m.layer_kv_heads = counts;
    m.k_map = map;
    m.n_k_map = 8;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_taken(&o);
    check_maps(o.graph, 0, map, map);
    check_maps(o.graph, 1, map + 4, map + 4);
    opened_graph_close(&o);
}
END_TEST

static const struct bad_map {
    uint32_t n_k, k[9], n_v, v[9];
    const char *field, *says;
} bad_maps[] = {
    {3, {0, 1, 0}, 0, {0}, k_key, "3 owners, must be 4 (one a query head) or 8"},
    {9, {0, 1, 0, 1, 0, 1, 0, 1, 0}, 0, {0}, k_key, "9 owners, must be 4"},
    {4, {0, 1, 2, 1}, 0, {0}, k_key, "layer 0, query head 2: owner 2, the layer has 2 K heads"},
    {8, {0, 1, 0, 1, 0, 1, 7, 1}, 0, {0}, k_key, "layer 1, query head 2: owner 7, the layer has 2"},
    {4, {0, 0, 0, 0}, 0, {0}, k_key, "layer 0: K head 1 of 2 is read by none of 4 query heads"},
    {8, {0, 1, 0, 1, 1, 1, 1, 1}, 0, {0}, k_key, "layer 1: K head 0 of 2 is read by none"},
    {4, {0, 1, 0, 1}, 4, {0, 1, 0, 2}, v_key, "query head 3: owner 2, the layer has 2 V heads"},
    {4, {0, 1, 0, 1}, 4, {1, 1, 1, 1}, v_key, "V head 0 of 2 is read by none"},
    {0, {0}, 4, {1, 1, 1, 1}, v_key, "K head 0 of 2 is read by none"},
    {4, {0, 1, 0, 4294967295u}, 0, {0}, k_key, "query head 3: owner 4294967295"},
};

START_TEST(a_map_that_contradicts_is_refused)
{
    const struct bad_map *bad = &bad_maps[_i];
    struct small_model m = heads_of(4, 2);
    m.k_map = bad->n_k > 0 ? bad->k : NULL;
    m.n_k_map = bad->n_k;
    m.v_map = bad->n_v > 0 ? bad->v : NULL;
    m.n_v_map = bad->n_v;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    is_refused(&o, bad->field, bad->says);
    opened_graph_close(&o);
}
END_TEST

/* An array in the place of a key: its item type, its values, and what is said of it. */
static const struct bad_array {
    const char *key;
    enum gguf_type type;
    uint32_t n;
    int32_t values[3];
    const char *says;
} bad_arrays[] = {
    {kv_count_key, GGUF_I32, 2, {2, 0}, "layer 1: 0 K/V heads; a layer without K/V is not part"},
    {kv_count_key, GGUF_I32, 2, {-1, 2}, "layer 0: -1, must be 1..1024"},
    {kv_count_key, GGUF_I32, 2, {2, 1025}, "layer 1: 1025, must be 1..1024"},
    {kv_count_key, GGUF_I32, 2, {4, 2}, "layer 0: 6 query heads are no multiple of 4 K/V heads"},
    {kv_count_key, GGUF_I32, 3, {2, 2, 2}, "3 items, must be one for each of 2 layers"},
    {kv_count_key, GGUF_I32, 0, {0}, "0 items, must be one for each of 2 layers"},
    {kv_count_key, GGUF_F32, 2, {0}, "its items are no integers"},
    {"llama.attention.key_length", GGUF_I32, 2, {16, 24}, "layer 1: heads 24 wide"},
    {"llama.attention.value_length", GGUF_I32, 2, {0, 16}, "layer 0: heads 0 wide"},
    {"llama.attention.head_count", GGUF_I32, 2, {6, 6}, "an array found, an integer is needed"},
    {k_key, GGUF_F32, 3, {0}, "its items are no integers"},
    {k_key, GGUF_I32, 0, {0}, "0 owners, must be 6"},
};

START_TEST(an_array_that_is_wrong_is_refused)
{
    const struct bad_array *bad = &bad_arrays[_i];
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, bad->key);
    gguf_writer_array(w, bad->key, bad->type, bad->values, bad->n, bad->n * 4);
    struct opened_graph o = opened_graph_of(w);
    is_refused(&o, bad->key, bad->says);
    opened_graph_close(&o);
}
END_TEST

START_TEST(an_owner_below_0_is_refused)
{
    static const int32_t map[] = {0, 1, -1, 0, 1, 0};
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_array(w, k_key, GGUF_I32, map, 6, sizeof map);
    struct opened_graph o = opened_graph_of(w);
    is_refused(&o, k_key, "layer 0, query head 2: owner -1, the layer has 2 K heads (0..1)");
    opened_graph_close(&o);
}
END_TEST

/* The counts say one thing and one layer's tensors another. */
START_TEST(a_count_that_contradicts_the_tensors_names_them)
{
    static const uint32_t counts[] = {2, 2};
    struct small_model m = heads_of(4, 0);
    m.layer_kv_heads = counts;
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, kv_count_key);
    gguf_writer_array(w, kv_count_key, GGUF_U32, (const uint32_t[]){2, 4}, 2, 8);
    struct opened_graph o = opened_graph_of(w);
    is_refused(&o, "blk.1.attn_k.weight", "shape 96 x 32 x 1 x 1, the metadata demands 96 x 64");
    opened_graph_close(&o);
}
END_TEST

START_TEST(k_and_v_heads_are_equally_many)
{
    struct small_model m = heads_of(4, 2);
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_find(w, "blk.0.attn_v.weight")->dims[1] = 16;
    struct opened_graph o = opened_graph_of(w);
    is_refused(&o, "blk.0.attn_v.weight", "shape 96 x 16 x 1 x 1, the metadata demands 96 x 32");
    opened_graph_close(&o);
}
END_TEST

START_TEST(more_cache_shapes_than_served_are_refused)
{
    enum { N = GRAPH_CACHE_GROUPS_MAX + 1 };
    uint32_t counts[N], map[N * N] = {0};
    for (uint32_t i = 0; i < N; i++)
        counts[i] = i + 1;
    for (uint32_t i = 0; i < N * N; i++)
        map[i] = i % N < counts[i / N] ? i % N : 0;
    struct small_model m = heads_of(N, 0);
    m.layers = N - (uint32_t)_i;
    m.layer_kv_heads = counts;
    m.k_map = map;
    m.n_k_map = N * m.layers;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    if (_i == 1)
        is_taken(&o);
    else
        is_refused(&o, kv_count_key, "over 16 shapes");
    opened_graph_close(&o);
}
END_TEST

START_TEST(widths_may_differ_by_layer)
{
    struct small_model m = heads_of(6, 2);
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, "llama.attention.value_length");
    gguf_writer_array(w, "llama.attention.value_length", GGUF_U32, (const uint32_t[]){16, 32}, 2,
                      8);
    static const struct {
        const char *name;
        uint64_t dims[2];
    } wider[] = {{"blk.1.attn_v.weight", {96, 64}}, {"blk.1.attn_output.weight", {192, 96}}};
    for (size_t i = 0; i < ARRAY_LEN(wider); i++) {
        gguf_writer_drop(w, wider[i].name);
        gguf_writer_tensor(w, wider[i].name, GGML_F32, 2, wider[i].dims, NULL,
                           wider[i].dims[0] * wider[i].dims[1] * 4);
    }
    struct opened_graph o = opened_graph_of(w);
    is_taken(&o);
    ck_assert(o.graph->layers[0].d_v == 16 && o.graph->layers[1].d_v == 32);
    ck_assert_uint_eq(o.graph->n_groups, 2);
    opened_graph_close(&o);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph_heads");
    TCase *tc = tcase_create("maps");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, without_a_map_query_heads_are_dealt_in_order, 0, 10);
    tcase_add_test(tc, each_layer_may_have_its_own_count);
    tcase_add_loop_test(tc, one_map_serves_both_and_all_layers, 0, 2);
    tcase_add_test(tc, k_and_v_may_differ_and_so_may_layers);
    tcase_add_test(tc, a_map_follows_the_counts_of_its_layer);
    tcase_add_loop_test(tc, a_map_that_contradicts_is_refused, 0, (int)ARRAY_LEN(bad_maps));
    tcase_add_loop_test(tc, an_array_that_is_wrong_is_refused, 0, (int)ARRAY_LEN(bad_arrays));
    tcase_add_test(tc, an_owner_below_0_is_refused);
    tcase_add_test(tc, a_count_that_contradicts_the_tensors_names_them);
    tcase_add_test(tc, k_and_v_heads_are_equally_many);
    tcase_add_loop_test(tc, more_cache_shapes_than_served_are_refused, 0, 2);
    tcase_add_test(tc, widths_may_differ_by_layer);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
