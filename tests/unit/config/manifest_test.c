/* manifest_test.c: the identity is canonical, complete, and changes with what alters a stored
 * number and with nothing else. */
// SPDX-License-Identifier: Apache-2.0
#include "config/manifest.h"

#include <jansson.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

static const uint8_t checkpoint[SHA256_BYTES] = {0xab, 0xcd, 0xef};

static struct graph *graph_of(const struct small_model *m, const char *name)
{
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct graph *graph = NULL;
    struct why why = {0};
    struct gguf_writer *w = small_model_writer(m);
    gguf_writer_drop_key(w, "general.name");
    gguf_writer_string(w, "general.name", name);
    char *bytes = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, &why), OK);
    ck_assert_msg(graph_from_gguf(gguf, &graph, &why) == OK, "%s", why.text);
    gguf_free(&gguf);
    mem_free(bytes);
    return graph;
}

static struct manifest *manifest_of(const struct graph *graph, const uint8_t sha256[SHA256_BYTES],
                                    const char *kv_type, uint32_t page_tokens, const char *backend)
{
    struct manifest_layout layout = {kv_type, page_tokens};
    struct manifest_binding binding = {backend, "numbers-1"};
    struct manifest *m = NULL;
    ck_assert_int_eq(manifest_new(graph, sha256, &layout, &binding, &m, NULL), OK);
    return m;
}

/* Fails unless text is RFC 8785 as far as we use it: ASCII, no spaces outside strings, no reals,
 * keys in order. */
static void check_canonical(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(value != NULL, "%s", error.text);
    char *again = json_dumps(value, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII);
    ck_assert_str_eq(again, text);
    for (const char *p = text; *p != '\0'; p++)
        ck_assert(*p > 0x1f && *p < 0x7f);
    bool is_in_string = false;
    for (const char *p = text; *p != '\0'; p++) {
        is_in_string ^= *p == '"' && p[-1] != '\\';
        ck_assert(is_in_string || strchr(" .eE+", *p) == NULL || strncmp(p - 3, "true", 4) == 0 ||
                  strncmp(p - 4, "false", 5) == 0);
    }
    free(again);
    json_decref(value);
}

START_TEST(it_is_canonical_and_hashed)
{
    struct small_model model = small_model_default();
    struct graph *graph = graph_of(&model, "a \"name\" \\ with 100% \xc3\xa9");
    struct manifest *m = manifest_of(graph, checkpoint, "f16", 64, "scalar");
    uint8_t hash[SHA256_BYTES];
    check_canonical(m->identity_json);
    check_canonical(m->binding_json);
    ck_assert_int_eq(sha256_of(m->identity_json, strlen(m->identity_json), hash), OK);
    ck_assert_mem_eq(hash, m->identity, sizeof hash);
    ck_assert_int_eq(sha256_of(m->binding_json, strlen(m->binding_json), hash), OK);
    ck_assert_mem_eq(hash, m->binding_hash, sizeof hash);
    ck_assert_ptr_nonnull(
        strstr(m->identity_json, "\"model_id\":\"a \\\"name\\\" \\\\ with 100%25 %C3%A9\""));
    const char *graph_text = strstr(m->identity_json, "\"graph\":") + 8;
    const char *end = strstr(graph_text, ",\"model_id\"");
    ck_assert_int_eq(sha256_of(graph_text, (size_t)(end - graph_text), hash), OK);
    ck_assert_mem_eq(hash, m->architecture_hash, sizeof hash); /* of the graph alone */
    manifest_free(&m);
    graph_free(&graph);
}
END_TEST

static const char *const fields[] = {
    "\"schema_version\":2",
    "\"model_id\":\"m\"",
    "\"architecture_generation\":0",
    "\"checkpoint_sha256\":\"abcdef0000",
    "\"name\":\"llama\"",
    "\"version\":1",
    "\"hidden\":96",
    "\"ffn\":192",
    "\"vocab\":256",
    "\"n_layers\":2",
    "\"rms_eps\":\"3727c5ac\"",
    "\"query_heads\":6",
    "\"k_heads\":2",
    "\"v_heads\":2",
    "\"d_qk\":16",
    "\"d_v\":32",
    "\"query_to_k_head\":[0,0,0,1,1,1]",
    "\"query_to_v_head\":[0,0,0,1,1,1]",
    "\"q_projection_shape\":[96,96]",
    "\"k_projection_shape\":[32,96]",
    "\"v_projection_shape\":[64,96]",
    "\"output_projection_shape\":[96,192]",
    "\"window\":0",
    "\"rope_base\":\"40c3880000000000\"",
    "\"rope_dims\":16",
    "\"rope_scaling\":\"none\"",
    "\"attention_scale\":\"3e800000\"",
    "\"attention_soft_cap\":\"00000000\"",
    "\"kv_source\":0",
    "\"kv_source\":1",
    "\"cache_group\":0",
    "\"qkv_fusion_order\":\"separate\"",
    "\"rope_coordinate_order\":\"neighbours\"",
    "\"parts\":{\"post_norm\":false,\"pre_norm\":true,\"qk_norm\":false,\"qkv_bias\":false,"
    "\"tied_output\":true}",
    "\"gate\":\"silu\"",
    "\"embedding_scale\":\"3f800000\"",
    "\"rope_factors\":[]",
    "\"rotated\":true",
    "\"kv_scales\":\"none\"",
    "\"layout\":\"head-major pages\"",
    "\"kv_type\":\"f16\"",
    "\"page_tokens\":64",
    "\"tensor_parallel_degree\":1",
    "\"ranks\":[[{\"cache_group\":0,\"k_heads\":[0,1],\"kv_replicas\":[1,1],\"query_heads\":[0,1,2,"
    "3,4,"
    "5],\"v_heads\":[0,1]}]]",
};

/* What the graph of a gemma3 and of an exaone4 model say otherwise. */
static const char *const gemma_fields[] = {
    "\"name\":\"gemma3\"",
    "\"parts\":{\"post_norm\":true,\"pre_norm\":true,\"qk_norm\":true,\"qkv_bias\":false,",
    "\"gate\":\"gelu-tanh\"",
    "\"embedding_scale\":\"411cc471\"", /* the root of 96 */
    "\"rope_coordinate_order\":\"halves\"",
    "\"window\":80",
    "\"window\":0",
    "\"rope_base\":\"40c3880000000000\"",
    "\"rope_base\":\"412e848000000000\"",
    "\"cache_group\":1",
};
static const char *const exaone_fields[] = {
    "\"parts\":{\"post_norm\":true,\"pre_norm\":false,\"qk_norm\":true,\"qkv_bias\":false,",
    "\"rope_factors\":[\"3f800000\",\"3f800000\",\"3f800000\",\"3f800000\",\"40300000\","
    "\"40900000\","
    "\"40c80000\",\"41000000\"]",
    "\"rope_scaling\":\"factors\"",
    "\"query_to_k_head\":[0,1,0,1,1,1]",
    "\"query_to_v_head\":[1,0,0,0,0,0]",
    "\"kv_type\":\"int8\"",
    "\"kv_scales\":\"f32 a token and head\"",
};

START_TEST(each_field_is_there)
{
    struct small_model model = small_model_default();
    model.d_v = 32;
    struct graph *graph = graph_of(&model, "m");
    struct manifest *m = manifest_of(graph, checkpoint, "f16", 64, "scalar");
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        ck_assert_msg(strstr(m->identity_json, fields[i]) != NULL, "%s is not in %s", fields[i],
                      m->identity_json);
    ck_assert_str_eq(m->binding_json,
                     "{\"backend\":\"scalar\",\"backend_revision\":\"" FOLDKV_VERSION "\","
                     "\"materializes_repeated_kv\":false,\"modes\":[\"prefill\",\"decode\","
                     "\"append\",\"verify\"],"
                     "\"numerics\":\"numbers-1\"}");
    manifest_free(&m);
    graph_free(&graph);
}
END_TEST

START_TEST(each_field_of_other_graphs_is_there)
{
    static const uint32_t k_map[] = {0, 1, 0, 1, 1, 1}, v_map[] = {1, 0, 0, 0, 0, 0};
    struct small_model model = small_model_default();
    model.architecture = _i == 0 ? "gemma3" : "exaone4";
    model.layers = 7;
    model.window = 80;
    if (_i == 1) {
        model.has_rope_factors = true;
        model.k_map = k_map;
        model.v_map = v_map;
        model.n_k_map = model.n_v_map = 6;
    }
    const char *const *said = _i == 0 ? gemma_fields : exaone_fields;
    size_t n = _i == 0 ? ARRAY_LEN(gemma_fields) : ARRAY_LEN(exaone_fields);
    struct graph *graph = graph_of(&model, "m");
    struct manifest *m = manifest_of(graph, checkpoint, _i == 0 ? "f16" : "int8", 64, "scalar");
    check_canonical(m->identity_json);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strstr(m->identity_json, said[i]) != NULL, "%s is not in %s", said[i],
                      m->identity_json);
    manifest_free(&m);
    graph_free(&graph);
}
END_TEST

/* Each alters what a stored number means, and so the architecture's hash. */
START_TEST(every_part_of_the_graph_is_hashed)
{
    struct small_model model = small_model_default();
    struct graph *graph = graph_of(&model, "m");
    struct manifest *base = manifest_of(graph, checkpoint, "f16", 64, "x86");
    float factors[8] = {1, 1, 1, 1, 1, 1, 1, 2};
    uint16_t map[6] = {0, 1, 0, 1, 0, 1};
    for (int change = 0; change < 12; change++) {
        struct graph other = *graph;
        struct graph_layer layers[2] = {graph->layers[0], graph->layers[1]};
        other.layers = layers;
        switch (change) {
        case 0:
            other.gate = GATE_GELU;
            break;
        case 1:
            other.has_pre_norm = false;
            break;
        case 2:
            other.has_post_norm = true;
            break;
        case 3:
            other.has_qk_norm = true;
            break;
        case 4:
            other.has_qkv_bias = true;
            break;
        case 5:
            other.embedding_scale = 2.0f;
            break;
        case 6:
            other.rope_factors = factors;
            break;
        case 7:
            layers[1].window = 64;
            break;
        case 8:
            layers[1].is_rotated = false;
            break;
        case 9:
            layers[1].query_to_k_head = map;
            break;
        case 10:
            layers[1].query_to_v_head = map;
            break;
        default:
            other.version++;
            break;
        }
        struct manifest *m = manifest_of(&other, checkpoint, "f16", 64, "x86");
        ck_assert_msg(memcmp(m->identity, base->identity, SHA256_BYTES) != 0, "%d", change);
        ck_assert(memcmp(m->architecture_hash, base->architecture_hash, SHA256_BYTES) != 0);
        manifest_free(&m);
    }
    manifest_free(&base);
    graph_free(&graph);
}
END_TEST

START_TEST(identity_follows_meaning_only)
{
    struct small_model model = small_model_default(), other = model;
    other.kv_heads = 3;
    uint8_t checkpoint2[SHA256_BYTES] = {1};
    struct graph *a = graph_of(&model, "m"), *b = graph_of(&other, "m");
    struct manifest *base = manifest_of(a, checkpoint, "f16", 64, "x86");
    struct {
        struct manifest *m;
        bool is_same_identity, is_same_architecture, is_same_binding;
    } rows[] = {
        {manifest_of(a, checkpoint, "f16", 64, "x86"), true, true, true},
        {manifest_of(a, checkpoint, "f16", 64, "arm"), true, true, false},
        {manifest_of(a, checkpoint, "f32", 64, "x86"), false, true, true},
        {manifest_of(a, checkpoint, "int8", 64, "x86"), false, true, true},
        {manifest_of(a, checkpoint, "f16", 32, "x86"), false, true, true},
        {manifest_of(a, checkpoint2, "f16", 64, "x86"), false, true, true},
        {manifest_of(b, checkpoint, "f16", 64, "x86"), false, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct manifest *m = rows[i].m;
        ck_assert_int_eq(memcmp(m->identity, base->identity, SHA256_BYTES) == 0,
                         rows[i].is_same_identity);
        ck_assert_int_eq(memcmp(m->architecture_hash, base->architecture_hash, SHA256_BYTES) == 0,
                         rows[i].is_same_architecture);
        ck_assert_int_eq(memcmp(m->binding_hash, base->binding_hash, SHA256_BYTES) == 0,
                         rows[i].is_same_binding);
        manifest_free(&rows[i].m);
        ck_assert_ptr_null(rows[i].m);
    }
    manifest_free(&base);
    graph_free(&a);
    graph_free(&b);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct small_model model = small_model_default();
    struct graph *graph = graph_of(&model, "m");
    struct manifest_layout layout = {"f16", 64};
    struct manifest_binding binding = {"x86", "numbers-1"};
    struct manifest *m = NULL;
    uint64_t failures = 0;
    json_set_alloc_funcs(mem_alloc, mem_free);
    for (uint64_t n = 1;; n++) {
        struct why why = {0};
        mem_fail_nth(n);
        enum status s = manifest_new(graph, checkpoint, &layout, &binding, &m, &why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        if (!has_struck) {
            ck_assert_int_eq(s, OK);
            break;
        }
        failures++;
        ck_assert_msg(s == STATUS_NO_MEMORY, "allocation %d was not missed", (int)n);
        ck_assert_ptr_null(m);
        ck_assert(why.text[0] != '\0');
    }
    ck_assert_uint_gt(failures, 100);
    manifest_free(&m);
    graph_free(&graph);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tc = tcase_create("identity");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, it_is_canonical_and_hashed);
    tcase_add_test(tc, each_field_is_there);
    tcase_add_loop_test(tc, each_field_of_other_graphs_is_there, 0, 2);
    tcase_add_test(tc, every_part_of_the_graph_is_hashed);
    tcase_add_test(tc, identity_follows_meaning_only);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
