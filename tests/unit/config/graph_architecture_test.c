/* graph_architecture_test.c: each architecture served is read by its own description, and what is
 * near to one but another is refused by key or tensor. */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include <math.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "tests/support/opened_graph.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

static const struct expected {
    const char *name;
    enum rope_order rope_order;
    enum gate_kind gate;
    bool has_pre_norm, has_post_norm, has_qk_norm, has_qkv_bias, is_windowed, may_have_factors;
} architectures[] = {
    {"llama", ROPE_NEIGHBOURS, GATE_SILU, true, false, false, false, false, true},
    {"qwen2", ROPE_HALVES, GATE_SILU, true, false, false, true, false, false},
    {"qwen3", ROPE_HALVES, GATE_SILU, true, false, true, false, false, false},
    {"gemma3", ROPE_HALVES, GATE_GELU, true, true, true, false, true, false},
    {"exaone4", ROPE_HALVES, GATE_SILU, false, true, true, false, false, true},
};
enum { N_ARCHITECTURES = ARRAY_LEN(architectures) };

static struct small_model small_of(const char *architecture)
{
    struct small_model m = small_model_default();
    m.architecture = architecture;
    m.window = 100;
    return m;
}

static void says(const struct opened_graph *o, const char *what)
{
    ck_assert_msg(o->status == STATUS_BAD_FILE, "taken; should say \"%s\"", what);
    ck_assert_ptr_null(o->graph);
    ck_assert_msg(strstr(o->why.text, what) != NULL, "\"%s\" lacks \"%s\"", o->why.text, what);
    ck_assert_msg(o->why.field[0] != '\0' && strstr(o->why.text, o->why.field) != NULL, "%s: %s",
                  o->why.field, o->why.text);
}

START_TEST(each_is_read_by_its_description)
{
    const struct expected *e = &architectures[_i];
    struct small_model m = small_of(e->name);
    m.layers = 13;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    const struct graph *g = o.graph;
    ck_assert_str_eq(g->architecture, e->name);
    ck_assert(g->rope_order == e->rope_order && g->gate == e->gate);
    ck_assert(g->has_pre_norm == e->has_pre_norm && g->has_post_norm == e->has_post_norm &&
              g->has_qk_norm == e->has_qk_norm && g->has_qkv_bias == e->has_qkv_bias);
    ck_assert(g->embedding_scale == (e->is_windowed ? (float)sqrt(96.0) : 1.0f));
    ck_assert_ptr_null(g->rope_factors);
    for (uint32_t i = 0; i < 13; i++) {
        const struct graph_layer *l = &g->layers[i];
        bool is_local = e->is_windowed && i % 6 != 5;
        ck_assert_uint_eq(l->window, is_local ? 100 : 0);
        ck_assert(l->rope_base == (e->is_windowed && !is_local ? 1e6 : 1e4));
        ck_assert(l->is_rotated && !l->has_rope_factors && l->attention_scale == 0.25f &&
                  l->rope_dims == 16);
    }
    opened_graph_close(&o);
}
END_TEST

START_TEST(windowed_layers_are_a_cache_group_of_their_own)
{
    struct small_model m = small_of("gemma3");
    m.layers = 13;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    const struct graph *g = o.graph;
    ck_assert_uint_eq(g->n_groups, 2);
    ck_assert(g->groups[0].window == 100 && g->groups[0].n_layers == 11);
    ck_assert(g->groups[1].window == 0 && g->groups[1].n_layers == 2);
    ck_assert(g->groups[1].layers[0] == 5 && g->groups[1].layers[1] == 11);
    for (uint32_t i = 0; i < 13; i++) {
        const struct graph_layer *l = &g->layers[i];
        ck_assert_uint_eq(g->groups[l->cache_group].layers[l->group_index], i);
    }
    opened_graph_close(&o);
}
END_TEST

/* Every tensor of every architecture, one at a time. */
START_TEST(each_tensor_that_is_missing_is_named)
{
    struct small_model m = small_of(architectures[_i].name);
    m.layers = 1;
    struct opened_graph whole = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(whole.status == OK, "%s", whole.why.text);
    for (size_t i = 0; i < gguf_tensor_count(whole.gguf); i++) {
        struct slice name = gguf_tensor_at(whole.gguf, i)->name;
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)name.len, name.bytes);
        struct gguf_writer *w = small_model_writer(&m);
        gguf_writer_drop(w, text);
        struct opened_graph o = opened_graph_of(w);
        says(&o, "absent");
        ck_assert_str_eq(o.why.field, text);
        opened_graph_close(&o);
    }
    opened_graph_close(&whole);
}
END_TEST

/* A part that only other architectures have. */
START_TEST(parts_of_others_are_refused)
{
    const struct expected *e = &architectures[_i];
    const struct {
        const char *name;
        bool is_own;
    } parts[] = {
        {"blk.0.attn_norm.weight", e->has_pre_norm},
        {"blk.0.ffn_norm.weight", e->has_pre_norm},
        {"blk.0.post_attention_norm.weight", e->has_post_norm},
        {"blk.0.post_ffw_norm.weight", e->has_post_norm},
        {"blk.0.attn_q_norm.weight", e->has_qk_norm},
        {"blk.0.attn_k_norm.weight", e->has_qk_norm},
        {"blk.0.attn_q.bias", e->has_qkv_bias},
        {"blk.0.attn_v.bias", e->has_qkv_bias},
        {"rope_freqs.weight", e->may_have_factors},
        {"blk.0.attn_output.bias", false},
        {"output.bias", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct small_model m = small_of(e->name);
        struct gguf_writer *w = small_model_writer(&m);
        if (parts[i].is_own) {
            gguf_writer_free(&w);
            continue;
        }
        gguf_writer_tensor(w, parts[i].name, GGML_F32, 1, (const uint64_t[]){96}, NULL, 384);
        struct opened_graph o = opened_graph_of(w);
        says(&o, "would alter the answer");
        opened_graph_close(&o);
    }
}
END_TEST

START_TEST(rope_factors_are_read)
{
    struct small_model m = small_of(_i == 0 ? "llama" : "exaone4");
    m.has_rope_factors = true;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    ck_assert_ptr_nonnull(o.graph->rope_factors);
    ck_assert(o.graph->layers[0].has_rope_factors && o.graph->layers[1].has_rope_factors);
    ck_assert(o.graph->rope_factors[0] == 1.0f && o.graph->rope_factors[7] == 8.0f);
    opened_graph_close(&o);
}
END_TEST

START_TEST(a_rope_factor_that_is_no_divisor_is_refused)
{
    static const float bad[] = {0.0f, -1.0f, INFINITY, NAN};
    struct small_model m = small_of("llama");
    m.has_rope_factors = true;
    struct gguf_writer *w = small_model_writer(&m);
    memcpy(gguf_writer_find(w, "rope_freqs.weight")->data + 12, &bad[_i], sizeof bad[_i]);
    struct opened_graph o = opened_graph_of(w);
    says(&o, "entry 3 is");
    opened_graph_close(&o);
}
END_TEST

/* A key with a value that is refused; it replaces the model's own. */
static const struct bad_key {
    const char *architecture, *key;
    enum gguf_type type;
    union {
        uint32_t u;
        float f;
        const char *s;
    } value;
    const char *says;
} bad_keys[] = {
    {"gemma3", "gemma3.attention.sliding_window", GGUF_U32, {.u = 0}, "0, must be 1.."},
    {"gemma3", "gemma3.attention.sliding_window", GGUF_I32, {.u = 0xffffffff}, "-1 is below 0"},
    {"gemma3", "gemma3.attention.sliding_window", GGUF_STRING, {.s = "512"}, "a string found"},
    {"gemma3", "gemma3.attention.sliding_window_pattern", GGUF_U32, {.u = 4}, "4, only 6 is"},
    {"gemma3", "gemma3.attention.sliding_window_pattern", GGUF_BOOL, {.u = 1}, "a bool found"},
    {"gemma3", "gemma3.rope.freq_base_swa", GGUF_F32, {.f = 0.0f}, "must be finite and over 0"},
    {"gemma3", "gemma3.rope.scaling.type", GGUF_STRING, {.s = "linear"}, "only none is"},
    {"gemma3", "gemma3.rope.scaling.type", GGUF_STRING, {.s = "yarn"}, "only none is"},
    {"gemma3", "gemma3.rope.scaling.factor", GGUF_F32, {.f = 8.0f}, "only 1 is"},
    {"gemma3", "gemma3.final_logit_softcapping", GGUF_F32, {.f = 30.0f}, "only 0 is"},
    {"gemma3", "gemma3.attn_logit_softcapping", GGUF_F32, {.f = 50.0f}, "only 0 is"},
    {"gemma3", "gemma3.block_count", GGUF_U32, {.u = 62}, "62 layers has scores scaled by another"},
    {"gemma3", "gemma3.attention.key_length", GGUF_U32, {.u = 40}, "40 wide, must be a multiple"},
    {"gemma3", "llama.block_count", GGUF_U32, {.u = 2}, NULL}, /* another's key says nothing */
    {"exaone4", "exaone4.attention.sliding_window", GGUF_U32, {.u = 4096}, "windowed layers in a"},
    {"exaone4", "exaone4.attention.sliding_window_pattern", GGUF_U32, {.u = 4}, "windowed layers"},
    {"exaone4", "exaone4.block_count", GGUF_U32, {.u = 64}, "64 layers has windowed layers among"},
    {"exaone4", "exaone4.nextn_predict_layers", GGUF_U32, {.u = 1}, "only 0 is"},
    {"qwen2", "qwen2.rope.scaling.type", GGUF_STRING, {.s = "yarn"}, "only none is"},
    {"qwen2", "qwen2.rope.scaling.yarn_log_multiplier", GGUF_F32, {.f = 1.0f}, "not known in a"},
    {"qwen3", "qwen3.rope.dimension_sections", GGUF_U32, {.u = 1}, "not known in a qwen3 graph"},
    {"qwen3", "qwen3.expert_count", GGUF_U32, {.u = 128}, "only 0 is"},
    {"llama", "general.architecture", GGUF_STRING, {.s = "gemma2"}, "\"gemma2\" is not served"},
    {"llama", "general.architecture", GGUF_STRING, {.s = "exaone"}, "served are: llama, qwen2"},
};

START_TEST(each_key_that_is_wrong_is_named)
{
    const struct bad_key *bad = &bad_keys[_i];
    struct small_model m = small_of(bad->architecture);
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, bad->key);
    if (bad->type == GGUF_STRING)
        gguf_writer_string(w, bad->key, bad->value.s);
    else
        gguf_writer_value(w, bad->key, bad->type, &bad->value.u, bad->type == GGUF_BOOL ? 1 : 4);
    struct opened_graph o = opened_graph_of(w);
    if (bad->says != NULL)
        says(&o, bad->says);
    else
        ck_assert_msg(o.status == OK, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

START_TEST(a_windowed_graph_needs_its_window)
{
    struct small_model m = small_of("gemma3");
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_drop_key(w, "gemma3.attention.sliding_window");
    struct opened_graph o = opened_graph_of(w);
    says(&o, "absent");
    ck_assert_str_eq(o.why.field, "gemma3.attention.sliding_window");
    opened_graph_close(&o);
}
END_TEST

START_TEST(the_base_of_windowed_layers_may_be_given)
{
    struct small_model m = small_of("gemma3");
    m.layers = 6;
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_f32(w, "gemma3.rope.freq_base_swa", 5000.0f);
    gguf_writer_u32(w, "gemma3.attention.sliding_window_pattern", 6);
    gguf_writer_f32(w, "gemma3.final_logit_softcapping", 0.0f);
    struct opened_graph o = opened_graph_of(w);
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    ck_assert(o.graph->layers[0].rope_base == 5000.0 && o.graph->layers[5].rope_base == 1e6);
    opened_graph_close(&o);
}
END_TEST

/* A latent cache under its own name: the reason comes before the list of those served. */
START_TEST(an_architecture_that_is_not_served_gets_the_reason)
{
    struct small_model m = small_of("deepseek2");
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_u32(w, "deepseek2.attention.kv_lora_rank", 512);
    struct opened_graph o = opened_graph_of(w);
    says(&o, "key \"deepseek2.attention.kv_lora_rank\": speaks of MLA");
    opened_graph_close(&o);
}
END_TEST

/* What names another design: a key, a key's value or a tensor. */
static const struct design {
    const char *key, *value, *tensor, *says;
} designs[] = {
    {"llama.attention.kv_lora_rank", NULL, NULL, "speaks of MLA"},
    {"llama.attention.q_lora_rank", NULL, NULL, "speaks of MLA"},
    {"llama.attention.key_length_mla", NULL, NULL, "speaks of MLA"},
    {"general.architecture", "plm-mla", NULL, "speaks of MLA"},
    {NULL, NULL, "blk.0.attn_kv_a_mqa.weight", "latent rows"},
    {NULL, NULL, "blk.0.attn_kv_b.weight", "latent rows"},
    {NULL, NULL, "blk.1.attn_q_a_norm.weight", "latent rows"},
    {"llama.attention.kind", "DGQA", NULL, "speaks of DGQA"},
    {"llama.attention.dgqa.window", NULL, NULL, "speaks of DGQA"},
    {"foldkv.attention", "kdgqa", NULL, "anew in each forward pass"},
    {NULL, NULL, "blk.0.attn_kdgqa_norm.weight", "speaks of KDGQA"},
    {"llama.attention.type", "GQKVA", NULL, "query projections are grouped"},
    {"llama.attention.gqkva_query_groups", NULL, NULL, "speaks of GQKVA"},
    {"llama.attention.shared_kv_layers", NULL, NULL, "cross-layer sharing"},
    {"llama.attention.type", "cla", NULL, "cross-layer sharing"},
    {"foldkv.kv_source", NULL, NULL, "cross-layer sharing"},
};

START_TEST(another_design_is_never_read_as_groups)
{
    const struct design *d = &designs[_i];
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    if (d->key != NULL)
        gguf_writer_drop_key(w, d->key);
    if (d->value != NULL)
        gguf_writer_string(w, d->key, d->value);
    else if (d->key != NULL)
        gguf_writer_u32(w, d->key, 1);
    if (d->tensor != NULL)
        gguf_writer_tensor(w, d->tensor, GGML_F32, 1, (const uint64_t[]){96}, NULL, 384);
    struct opened_graph o = opened_graph_of(w);
    says(&o, d->says);
    ck_assert(strstr(o.why.text, "not read as grouped attention and not served") != NULL);
    opened_graph_close(&o);
}
END_TEST

START_TEST(a_word_elsewhere_is_no_design)
{
    struct small_model m = small_model_default();
    struct gguf_writer *w = small_model_writer(&m);
    gguf_writer_string(w, "general.description", "not MLA, not DGQA");
    gguf_writer_string(w, "tokenizer.ggml.pre", "mla");
    gguf_writer_string(w, "quantize.imatrix.file", "/data/cla/mla.dat");
    gguf_writer_u32(w, "deepseek2.attention.q_lora_rank", 1); /* another's key says nothing */
    struct opened_graph o = opened_graph_of(w);
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    opened_graph_close(&o);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct small_model m = small_of("exaone4");
    m.has_rope_factors = true;
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
    ck_assert_uint_eq(failures, 6); /* owner, layers, rope factors, maps, groups, their layers */
    opened_graph_close(&o);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph_architecture");
    TCase *tc = tcase_create("architectures");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, each_is_read_by_its_description, 0, N_ARCHITECTURES);
    tcase_add_test(tc, windowed_layers_are_a_cache_group_of_their_own);
    tcase_add_loop_test(tc, each_tensor_that_is_missing_is_named, 0, N_ARCHITECTURES);
    tcase_add_loop_test(tc, parts_of_others_are_refused, 0, N_ARCHITECTURES);
    tcase_add_loop_test(tc, rope_factors_are_read, 0, 2);
    tcase_add_loop_test(tc, a_rope_factor_that_is_no_divisor_is_refused, 0, 4);
    tcase_add_loop_test(tc, each_key_that_is_wrong_is_named, 0, (int)ARRAY_LEN(bad_keys));
    tcase_add_test(tc, a_windowed_graph_needs_its_window);
    tcase_add_test(tc, the_base_of_windowed_layers_may_be_given);
    tcase_add_test(tc, an_architecture_that_is_not_served_gets_the_reason);
    tcase_add_loop_test(tc, another_design_is_never_read_as_groups, 0, (int)ARRAY_LEN(designs));
    tcase_add_test(tc, a_word_elsewhere_is_no_design);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
