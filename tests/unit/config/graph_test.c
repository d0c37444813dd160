/* graph_test.c: a graph is read whole or refused by the key or tensor at fault. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/opened_graph.h"

#include <math.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

START_TEST(a_small_model_is_read)
{
    struct small_model m = small_model_default();
    m.has_output = _i == 1;
    m.d_v = 32;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    const struct graph *g = o.graph;
    ck_assert_str_eq(g->architecture, "llama");
    ck_assert_str_eq(g->name, "small random model");
    ck_assert(g->version == 1 && g->rope_order == ROPE_NEIGHBOURS && g->tied_output == (_i == 0));
    ck_assert(g->n_layers == 2 && g->hidden == 96 && g->ffn == 192 && g->vocab == 256 &&
              g->context == 1024);
    ck_assert(g->rms_eps == 1e-5f && g->gate == GATE_SILU && g->embedding_scale == 1.0f);
    ck_assert(g->has_pre_norm && !g->has_post_norm && !g->has_qk_norm && !g->has_qkv_bias);
    ck_assert(g->rope_factors == NULL && g->n_groups == 1 && g->groups[0].n_layers == 2 &&
              g->groups[0].n_heads == 2 && g->groups[0].window == 0);
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        ck_assert(l->n_query_heads == 6 && l->n_k_heads == 2 && l->n_v_heads == 2 &&
                  l->d_qk == 16 && l->d_v == 32);
        ck_assert(l->attention_scale == 0.25f && l->rope_base == 10000.0 && l->rope_dims == 16);
        ck_assert(l->is_rotated && l->window == 0 && l->cache_group == 0 && l->group_index == i &&
                  g->groups[0].layers[i] == i);
        for (uint16_t head = 0; head < 6; head++)
            ck_assert(l->query_to_k_head[head] == head / 3 && l->query_to_v_head[head] == head / 3);
    }
    ck_assert_uint_eq(graph_layer_tensor(o.gguf, 1, "attn_v.weight")->dims[1], 64);
    opened_graph_close(&o);
}
END_TEST

START_TEST(widths_default_to_a_share_of_hidden)
{
    struct gguf_writer *w = gguf_writer_new(); /* only the keys that must be there */
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_u32(w, "llama.block_count", 1);
    gguf_writer_u32(w, "llama.context_length", 8);
    gguf_writer_u32(w, "llama.embedding_length", 32);
    gguf_writer_u32(w, "llama.feed_forward_length", 16);
    gguf_writer_u32(w, "llama.attention.head_count", 2);
    gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    static const struct {
        const char *name;
        uint32_t n_dims;
        uint64_t dims[2];
    } tensors[] = {
        {"token_embd.weight", 2, {32, 10}},     {"output_norm.weight", 1, {32, 1}},
        {"blk.0.attn_norm.weight", 1, {32, 1}}, {"blk.0.ffn_norm.weight", 1, {32, 1}},
        {"blk.0.attn_q.weight", 2, {32, 32}},   {"blk.0.attn_k.weight", 2, {32, 32}},
        {"blk.0.attn_v.weight", 2, {32, 32}},   {"blk.0.attn_output.weight", 2, {32, 32}},
        {"blk.0.ffn_gate.weight", 2, {32, 16}}, {"blk.0.ffn_up.weight", 2, {32, 16}},
        {"blk.0.ffn_down.weight", 2, {16, 32}},
    };
    for (size_t i = 0; i < ARRAY_LEN(tensors); i++)
        gguf_writer_tensor(w, tensors[i].name, GGML_F32, tensors[i].n_dims, tensors[i].dims, NULL,
                           tensors[i].dims[0] * tensors[i].dims[1] * 4);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    const struct graph_layer *l = &o.graph->layers[0];
    ck_assert(l->d_qk == 16 && l->d_v == 16 && l->n_k_heads == 2 && l->rope_dims == 16 &&
              l->rope_base == 10000.0);
    ck_assert(o.graph->vocab == 10 && o.graph->name[0] == '\0');
    opened_graph_close(&o);
}
END_TEST

START_TEST(each_tensor_that_is_missing_is_named)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    size_t len = 0;
    char *bytes = gguf_writer_finish(w, &len);
    struct gguf *gguf = NULL;
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    ck_assert_uint_eq(gguf_tensor_count(gguf), 20);
    char name[64];
    struct slice dropped = gguf_tensor_at(gguf, (size_t)_i)->name;
    snprintf(name, sizeof name, "%.*s", (int)dropped.len, dropped.bytes);
    gguf_free(&gguf);
    mem_free(bytes);
    gguf_writer_drop(w, name);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, STATUS_BAD_FILE);
    ck_assert_ptr_null(o.graph);
    ck_assert_str_eq(o.why.field, name);
    ck_assert_msg(strstr(o.why.text, "absent") != NULL, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

START_TEST(each_tensor_of_another_shape_or_type_is_named)
{
    struct small_model m = small_model_default();
    m.type = m.head_type = GGML_F32;
    m.has_output = true;
    struct gguf_writer *w = small_model_writer(&m);
    size_t len = 0;
    char *bytes = gguf_writer_finish(w, &len);
    struct gguf *gguf = NULL;
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    char name[64];
    struct slice changed = gguf_tensor_at(gguf, (size_t)_i % 21)->name;
    snprintf(name, sizeof name, "%.*s", (int)changed.len, changed.bytes);
    gguf_free(&gguf);
    mem_free(bytes);
    struct gguf_writer_tensor *t = gguf_writer_find(w, name);
    const char *says = "shape";
    if (_i < 21) {
        t->n_dims = 3;
        t->dims[2] = 2;
        t->dims[0] /= 2;
        t->dims[1] = t->dims[1] == 0 ? 1 : t->dims[1];
    } else {
        t->type = GGML_I32; /* of the same size */
        says = "I32";
    }
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, STATUS_BAD_FILE);
    if (_i != 0 || strcmp(name, "token_embd.weight") != 0)
        ck_assert_str_eq(o.why.field, name);
    ck_assert_msg(strstr(o.why.text, says) != NULL, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

static const char *const extra_tensors[] = {
    "blk.0.attn_q.bias",
    "rope_freqs.bias",
    "blk.0.post_ffw_norm.weight",
    "blk.2.attn_norm.weight",
    "blk.4294967295.attn_norm.weight",
    "blk.00.attn_norm.weight",
    "blk.-1.attn_norm.weight",
    "blk.0.",
    "blk.",
    "blk.0",
    "blk.0.attn_q_norm.weight",
    "token_embd.weight2",
    "blk.18446744073709551616.x",
    "output.bias",
    "blk.1.ffn_gate_exps.weight",
    "v.blk.0.attn_norm.weight",
};

START_TEST(a_tensor_that_would_be_left_out_is_refused)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_tensor(w, extra_tensors[_i], GGML_F32, 1, (const uint64_t[]){96}, NULL, 384);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, STATUS_BAD_FILE);
    ck_assert_str_eq(o.why.field, extra_tensors[_i]);
    ck_assert_msg(strstr(o.why.text, "would alter the answer") != NULL, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

/* A key with a value that is refused. The key of the model is replaced, or added if the model
 * has none. */
static const struct bad_key {
    const char *key;
    enum gguf_type type;
    union {
        uint32_t u;
        float f;
        const char *s;
    } value;
    const char *says;
} bad_keys[] = {
    {"general.architecture",
     GGUF_STRING,
     {.s = "qwen2moe"},
     "\"qwen2moe\" is not served; served are: llama, qwen2, qwen3, gemma3, exaone4"},
    {"general.architecture", GGUF_STRING, {.s = "qwen2"}, "\"qwen2.block_count\": absent"},
    {"general.architecture", GGUF_U32, {.u = 1}, "a u32 found, a string is needed"},
    {"general.name", GGUF_STRING, {.s = "a\x01"}, "control bytes"},
    {"llama.block_count", GGUF_U32, {.u = 0}, "0, must be 1..4096"},
    {"llama.block_count", GGUF_U32, {.u = 1u << 31}, "2147483648, must be 1..4096"},
    {"llama.block_count", GGUF_U32, {.u = 3}, "tensor \"blk.2.attn_norm.weight\": absent"},
    {"llama.block_count",
     GGUF_U32,
     {.u = 1},
     "tensor \"blk.1.attn_norm.weight\": not part of a llama graph of 1 layers"},
    {"llama.block_count", GGUF_STRING, {.s = "2"}, "a string found, an integer is needed"},
    {"llama.context_length", GGUF_U32, {.u = 0}, "0, must be 1..16777216"},
    {"llama.context_length", GGUF_U32, {.u = (1u << 24) + 1}, "16777217, must be"},
    {"llama.embedding_length", GGUF_U32, {.u = 0}, "0, must be 1..65536"},
    {"llama.embedding_length", GGUF_U32, {.u = 128}, "the metadata demands 128 x 256"},
    {"llama.feed_forward_length", GGUF_U32, {.u = 0}, "0, must be 1..1048576"},
    {"llama.feed_forward_length", GGUF_U32, {.u = 224}, "the metadata demands 96 x 224"},
    {"llama.vocab_size", GGUF_U32, {.u = 255}, "the metadata demands 96 x 255"},
    {"llama.vocab_size", GGUF_U32, {.u = 0}, "0, must be 1.."},
    {"llama.attention.head_count", GGUF_U32, {.u = 0}, "0, must be 1..1024"},
    {"llama.attention.head_count",
     GGUF_U32,
     {.u = 7},
     "7 query heads are no multiple of 2 K/V heads"},
    {"llama.attention.head_count", GGUF_U32, {.u = 8}, "the metadata demands 96 x 128"},
    {"llama.attention.head_count_kv", GGUF_U32, {.u = 0}, "0, must be 1..1024"},
    {"llama.attention.head_count_kv",
     GGUF_U32,
     {.u = 4},
     "6 query heads are no multiple of 4 K/V heads"},
    {"llama.attention.head_count_kv",
     GGUF_U32,
     {.u = 12},
     "6 query heads are no multiple of 12 K/V heads"},
    {"llama.attention.key_length",
     GGUF_U32,
     {.u = 0},
     "0 wide, must be a multiple of 16 in 16..256"},
    {"llama.attention.key_length", GGUF_U32, {.u = 24}, "24 wide"},
    {"llama.attention.key_length", GGUF_U32, {.u = 272}, "272 wide"},
    {"llama.attention.value_length", GGUF_U32, {.u = 8}, "8 wide"},
    {"llama.attention.value_length", GGUF_U32, {.u = 32}, "the metadata demands 96 x 64"},
    {"llama.rope.dimension_count", GGUF_U32, {.u = 0}, "0, must be 2..16"},
    {"llama.rope.dimension_count", GGUF_U32, {.u = 18}, "18, must be 2..16"},
    {"llama.rope.dimension_count", GGUF_U32, {.u = 15}, "15, must be even"},
    {"llama.rope.freq_base", GGUF_F32, {.f = 0.0f}, "must be finite and over 0"},
    {"llama.rope.freq_base", GGUF_F32, {.f = -1.0f}, "must be finite and over 0"},
    {"llama.rope.freq_base", GGUF_F32, {.f = INFINITY}, "must be finite and over 0"},
    {"llama.attention.layer_norm_rms_epsilon", GGUF_F32, {.f = 0.0f}, "must be finite and over 0"},
    {"llama.attention.layer_norm_rms_epsilon", GGUF_F32, {.f = NAN}, "must be finite and over 0"},
    {"llama.attention.layer_norm_rms_epsilon", GGUF_U32, {.u = 1}, "a u32 found, an f32 is needed"},
    {"llama.rope.scaling.type", GGUF_STRING, {.s = "yarn"}, "only none is"},
    {"llama.rope.scaling.type", GGUF_STRING, {.s = "linear"}, "only none is"},
    {"llama.rope.scaling.factor", GGUF_F32, {.f = 4.0f}, "only 1 is"},
    {"llama.expert_count", GGUF_U32, {.u = 8}, "only 0 is"},
    {"llama.expert_used_count", GGUF_U32, {.u = 2}, "only 0 is"},
    {"llama.attention.sliding_window",
     GGUF_U32,
     {.u = 512},
     "windowed layers in a llama graph are not served"},
    {"llama.attention.sliding_window", GGUF_U32, {.u = 0}, "windowed layers in a llama graph"},
    {"llama.rope.freq_base_swa", GGUF_F32, {.f = 1e4f}, "windowed layers in a llama graph"},
    {"llama.logit_scale", GGUF_F32, {.f = 1.0f}, "not known in a llama graph"},
    {"foldkv.query_to_k_head", GGUF_U32, {.u = 1}, "a u32 found, an array is needed"},
    {"foldkv.query_to_v_head", GGUF_STRING, {.s = "0"}, "a string found, an array is needed"},
    {"foldkv.head_map", GGUF_U32, {.u = 1}, "not known in a llama graph"},
    {"tokenizer.ggml.tokens", GGUF_U32, {.u = 1}, "a u32 found, an array is needed"},
};

/* The default model with that key in the place of its own. */
static struct opened_graph open_with_key(const struct bad_key *bad)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, bad->key);
    if (bad->type == GGUF_STRING)
        gguf_writer_string(w, bad->key, bad->value.s);
    else
        gguf_writer_value(w, bad->key, bad->type, &bad->value.u, 4);
    return opened_graph_of(w);
}

START_TEST(each_key_that_is_wrong_is_named)
{
    const struct bad_key *bad = &bad_keys[_i];
    struct opened_graph o = open_with_key(bad);
    ck_assert_msg(o.status == STATUS_BAD_FILE, "%s was taken", bad->key);
    ck_assert_ptr_null(o.graph);
    ck_assert_msg(strstr(o.why.text, bad->says) != NULL, "\"%s\" lacks \"%s\"", o.why.text,
                  bad->says);
    ck_assert(o.why.field[0] != '\0' && strstr(o.why.text, o.why.field) != NULL);
    opened_graph_close(&o);
}
END_TEST

static const char *const needed_keys[] = {
    "general.architecture",
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.layer_norm_rms_epsilon",
};

START_TEST(each_key_that_is_missing_is_named)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, needed_keys[_i]);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, STATUS_BAD_FILE);
    ck_assert_str_eq(o.why.field, needed_keys[_i]);
    ck_assert_msg(strstr(o.why.text, "absent") != NULL, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

START_TEST(neutral_values_are_served)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_u32(w, "llama.expert_count", 0);
    gguf_writer_string(w, "llama.rope.scaling.type", "none");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 1.0f);
    gguf_writer_bool(w, "llama.attention.causal", true);
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

START_TEST(the_token_list_must_agree)
{
    struct small_model m = small_model_default();
    m.vocab = 3 + (uint32_t)_i;
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_strings(w, "tokenizer.ggml.tokens", (const char *const[]){"a", "b", "c"}, 3);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, _i == 0 ? OK : STATUS_BAD_FILE);
    if (_i == 1)
        ck_assert_str_eq(o.why.text,
                         "key \"tokenizer.ggml.tokens\": 3 items, the vocabulary has 4");
    opened_graph_close(&o);
}
END_TEST

START_TEST(a_long_name_is_cut_at_a_character)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    char name[200];
    memset(name, 'a', 126);
    memcpy(name + 126, "\xc3\xa9\xc3\xa9", 5);
    gguf_writer_drop_key(w, "general.name");
    gguf_writer_string(w, "general.name", name);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_int_eq(o.status, OK);
    ck_assert_uint_eq(strlen(o.graph->name), 126);
    opened_graph_close(&o);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct small_model m = small_model_default();
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    uint64_t failures = 0;
    for (uint64_t n = 1;; n++) {
        graph_free(&o.graph);
        mem_fail_nth(n);
        enum status s = graph_from_gguf(o.gguf, &o.graph, &o.why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        if (!has_struck) {
            ck_assert_int_eq(s, OK);
            break;
        }
        failures++;
        ck_assert_int_eq(s, STATUS_NO_MEMORY);
        ck_assert_ptr_null(o.graph);
    }
    ck_assert_uint_eq(failures, 5); /* owner, layers, maps, groups, their layers */
    opened_graph_close(&o);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *tc = tcase_create("llama");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, a_small_model_is_read, 0, 2);
    tcase_add_test(tc, widths_default_to_a_share_of_hidden);
    tcase_add_loop_test(tc, each_tensor_that_is_missing_is_named, 0, 20);
    tcase_add_loop_test(tc, each_tensor_of_another_shape_or_type_is_named, 0, 42);
    tcase_add_loop_test(tc, a_tensor_that_would_be_left_out_is_refused, 0,
                        (int)ARRAY_LEN(extra_tensors));
    tcase_add_loop_test(tc, each_key_that_is_wrong_is_named, 0, (int)ARRAY_LEN(bad_keys));
    tcase_add_loop_test(tc, each_key_that_is_missing_is_named, 0, (int)ARRAY_LEN(needed_keys));
    tcase_add_test(tc, neutral_values_are_served);
    tcase_add_loop_test(tc, the_token_list_must_agree, 0, 2);
    tcase_add_test(tc, a_long_name_is_cut_at_a_character);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
