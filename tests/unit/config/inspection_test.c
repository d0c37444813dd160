/* inspection_test.c: the report of a checkpoint, a small one and the real one. */
// SPDX-License-Identifier: Apache-2.0
#include "config/inspection.h"

#include <jansson.h>

#include "config/gguf_hash.h"
#include "config/mem.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

static char *bytes;
static struct inspection in;
static struct gguf *gguf;
static struct graph *graph;
static struct manifest *manifest;

/* Makes graph and manifest of the gguf that is open. */
static void prepare(void)
{
    struct why why = {0};
    uint8_t hash[SHA256_BYTES];
    struct manifest_layout layout = {"f16", 64};
    struct manifest_binding binding = {"scalar", "numbers-1"};
    ck_assert_msg(graph_from_gguf(gguf, &graph, &why) == OK, "%s", why.text);
    ck_assert_int_eq(gguf_hash_file(gguf, hash), OK);
    ck_assert_int_eq(manifest_new(graph, hash, &layout, &binding, &manifest, &why), OK);
    in = (struct inspection){gguf, graph, manifest, "f16", 2, 0, 64};
}

static void open_small(void)
{
    size_t len = 0;
    struct small_model model = small_model_default();
    bytes = small_model_bytes(&model, &len);
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    prepare();
}

static void close_all(void)
{
    manifest_free(&manifest);
    graph_free(&graph);
    gguf_free(&gguf);
    mem_free(bytes);
    bytes = NULL;
}

static json_int_t number(const json_t *value, const char *key)
{
    const json_t *member = json_object_get(value, key);
    ck_assert_msg(json_is_integer(member), "%s", key);
    return json_integer_value(member);
}

START_TEST(json_of_a_small_model)
{
    open_small();
    json_error_t error;
    char *text = inspection_json(&in), hex[SHA256_HEX];
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(report != NULL, "%s in %s", error.text, text);
    sha256_hex(manifest->identity, hex);
    ck_assert_str_eq(json_string_value(json_object_get(report, "identity")), hex);
    char *again = json_dumps(json_object_get(report, "manifest"), JSON_SORT_KEYS | JSON_COMPACT);
    ck_assert_str_eq(again, manifest->identity_json);
    ck_assert_int_eq(number(report, "kv_bytes_per_token"), 2 * 128);
    const json_t *heads = json_array_get(json_object_get(report, "heads"), 0);
    ck_assert_int_eq(number(heads, "last_layer"), 1);
    ck_assert_int_eq(number(heads, "kv_bytes_per_token_and_layer"), 2 * (16 + 16) * 2);
    const json_t *ledgers = json_object_get(report, "ledgers");
    ck_assert_uint_eq(json_array_size(ledgers), 2); /* 512 and the context, 1024 */
    ck_assert_int_eq(number(json_array_get(ledgers, 0), "kv_bytes_stored"), 512 * 256);
    ck_assert_int_eq(number(json_array_get(ledgers, 1), "tokens"), 1024);
    ck_assert_int_eq(number(json_array_get(ledgers, 1), "kv_bytes_pinned"), 1024 * 256);
    ck_assert_int_eq(number(json_array_get(ledgers, 1), "kv_scale_bytes_stored"), 0);
    ck_assert_int_eq(number(json_array_get(ledgers, 1), "kv_bytes_if_repeated"), 3 * 1024 * 256);
    json_int_t weights = 0;
    const json_t *types = json_object_get(report, "weights");
    for (size_t i = 0; i < json_array_size(types); i++)
        weights += number(json_array_get(types, i), "bytes");
    json_int_t tensors = 0;
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
        tensors += (json_int_t)gguf_tensor_at(gguf, i)->bytes;
    ck_assert_int_eq(weights, tensors);
    free(again);
    json_decref(report);
    mem_free(text);
    close_all();
}
END_TEST

/* 5 windowed layers of 6, int8: what is pinned is whole pages of the window, scales included. */
START_TEST(json_of_a_windowed_model)
{
    size_t len = 0;
    struct small_model model = small_model_default();
    model.architecture = "gemma3";
    model.layers = 6;
    model.window = 100;
    bytes = small_model_bytes(&model, &len);
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    prepare();
    in.kv_type = "int8";
    in.kv_bytes = 1;
    in.kv_scale_bytes = 4;
    char *text = inspection_json(&in);
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(report);
    const json_t *heads = json_object_get(report, "heads");
    ck_assert_uint_eq(json_array_size(heads), 2);
    ck_assert_int_eq(number(json_array_get(heads, 0), "window"), 100);
    ck_assert_int_eq(number(json_array_get(heads, 1), "window"), 0);
    ck_assert_int_eq(number(json_array_get(heads, 1), "cache_group"), 1);
    const json_t *row = json_array_get(json_object_get(report, "ledgers"), 1); /* T = 1024 */
    ck_assert_int_eq(number(row, "kv_bytes_stored"), (5 * 100 + 1024) * 64);
    ck_assert_int_eq(number(row, "kv_scale_bytes_stored"), (5 * 100 + 1024) * 16);
    ck_assert_int_eq(number(row, "kv_bytes_pinned"), (5 * 2 + 16) * 64 * 80);
    ck_assert_int_eq(number(row, "kv_bytes_appended_per_token"), 6 * 64);
    json_decref(report);
    mem_free(text);
    close_all();
}
END_TEST

START_TEST(text_of_a_small_model)
{
    static const char *const lines[] = {
        "model         small random model\n",
        "heads         layers 0-1: 6 query heads, 2 K heads of 16, 2 V heads of 16\n",
        "query head to K head: 0 0 0 1 1 1\n",
        "K/V           f16: 256 bytes a token over all layers\n",
        "  Q4_1 ",
        "  1024 ",
        "\nmanifest      {\"architecture_generation\":0,",
    };
    open_small();
    char *text = inspection_text(&in);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "%s is not in\n%s", lines[i], text);
    mem_free(text);
    close_all();
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    open_small();
    for (int form = 0; form < 2; form++) {
        for (uint64_t n = 1;; n++) {
            mem_fail_nth(n);
            char *text = form == 0 ? inspection_json(&in) : inspection_text(&in);
            bool has_struck = mem_failure_struck();
            mem_fail_nth(0);
            ck_assert_int_eq(text == NULL, has_struck);
            mem_free(text);
            if (!has_struck)
                break;
        }
    }
    close_all();
}
END_TEST

START_TEST(the_real_checkpoint)
{
    const char *path = getenv("FOLDKV_TEST_MODEL");
    struct why why = {0};
    ck_assert_msg(
        path != NULL,
        "FOLDKV_TEST_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf; tests/run fetches it");
    ck_assert_msg(gguf_open(path, &gguf, &why) == OK, "%s: %s", path, why.text);
    prepare();
    ck_assert_ptr_nonnull(
        strstr(manifest->identity_json,
               "\"checkpoint_sha256\":"
               "\"b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\""));
    ck_assert(graph->n_layers == 30 && graph->hidden == 576 && graph->ffn == 1536 &&
              graph->vocab == 49152);
    ck_assert(graph->context == 8192 && graph->tied_output &&
              graph->layers[29].rope_base == 100000.0);
    ck_assert(graph->layers[29].n_query_heads == 9 && graph->layers[29].n_k_heads == 3 &&
              graph->layers[29].d_qk == 64);
    enum gguf_type type;
    size_t count = 0;
    ck_assert_int_eq(gguf_array(gguf, "tokenizer.ggml.tokens", &type, &count, &why), OK);
    ck_assert(type == GGUF_STRING && count == 49152);
    struct slice last = gguf_array_string(gguf, "tokenizer.ggml.tokens", 49151);
    ck_assert(last.len == 7 && memcmp(last.bytes, "ectable", 7) == 0);
    char *text = inspection_text(&in);
    ck_assert_ptr_nonnull(strstr(text, "query head to K head: 0 0 0 1 1 1 2 2 2\n"));
    ck_assert_ptr_nonnull(strstr(text, "  8192             188743680      188743680"));
    mem_free(text);
    close_all();
}
END_TEST

static void open_real(const char *variable, const char *name)
{
    const char *path = getenv(variable);
    struct why why = {0};
    ck_assert_msg(path != NULL, "%s must name %s; tests/run fetches it", variable, name);
    ck_assert_msg(gguf_open(path, &gguf, &why) == OK, "%s: %s", path, why.text);
    prepare();
}

/* One head for four, windows in five layers of six, two bases. */
START_TEST(the_real_gemma)
{
    open_real("FOLDKV_TEST_GEMMA", "gemma3-270m.gguf");
    ck_assert_str_eq(graph->architecture, "gemma3");
    ck_assert(graph->n_layers == 18 && graph->hidden == 640 && graph->vocab == 262144);
    ck_assert(graph->tied_output && graph->embedding_scale == 25.298221588f);
    ck_assert(graph->rms_eps == 1e-6f && graph->gate == GATE_GELU);
    ck_assert(graph->n_groups == 2 && graph->groups[0].window == 512 &&
              graph->groups[0].n_layers == 15 && graph->groups[1].n_layers == 3);
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        const struct graph_layer *l = &graph->layers[i];
        ck_assert(l->n_query_heads == 4 && l->n_k_heads == 1 && l->d_qk == 256 && l->d_v == 256);
        ck_assert(l->attention_scale == 0.0625f);
        ck_assert(l->rope_base == (i % 6 == 5 ? 1e6 : 1e4));
    }
    char *text = inspection_text(&in);
    ck_assert_ptr_nonnull(
        strstr(text, "4 query heads, 1 K heads of 256, 1 V heads of 256, window 512"));
    mem_free(text);
    close_all();
}
END_TEST

START_TEST(the_real_qwen)
{
    open_real("FOLDKV_TEST_QWEN", "qwen2.5-coder-0.5b.gguf");
    ck_assert_str_eq(graph->architecture, "qwen2");
    ck_assert(graph->n_layers == 24 && graph->hidden == 896 && graph->vocab == 151936);
    ck_assert(!graph->tied_output && graph->has_qkv_bias && !graph->has_qk_norm);
    ck_assert(graph->rope_order == ROPE_HALVES && graph->n_groups == 1);
    for (uint16_t head = 0; head < 14; head++)
        ck_assert_uint_eq(graph->layers[23].query_to_v_head[head], head / 7);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inspection");
    TCase *tc = tcase_create("reports");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, json_of_a_small_model);
    tcase_add_test(tc, json_of_a_windowed_model);
    tcase_add_test(tc, text_of_a_small_model);
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, the_real_checkpoint);
    tcase_add_test(tc, the_real_gemma);
    tcase_add_test(tc, the_real_qwen);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
