/* ledger_report_test.c: the tables of M5.7's running example are those of tests/data/ledger.json, and
 * those of windowed and uneven graphs follow the formulas. */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger_report.h"

#include <jansson.h>

#include "config/mem.h"
#include "tests/support/opened_graph.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

enum { EXAMPLE_LAYERS = 32, EXAMPLE_HEADS = 32 };

/* The example's graph with kv_heads, without a checkpoint behind it. */
struct example {
    struct graph graph;
    struct graph_layer layers[EXAMPLE_LAYERS];
    struct graph_group group;
    uint32_t group_layers[EXAMPLE_LAYERS];
    uint16_t map[EXAMPLE_HEADS];
};

static void example_init(struct example *e, uint32_t kv_heads)
{
    *e = (struct example){.graph = {.n_layers = EXAMPLE_LAYERS, .hidden = 4096, .n_groups = 1}};
    e->graph.layers = e->layers;
    e->graph.groups = &e->group;
    for (uint32_t head = 0; head < EXAMPLE_HEADS; head++)
        e->map[head] = (uint16_t)(head / (EXAMPLE_HEADS / kv_heads));
    for (uint32_t i = 0; i < EXAMPLE_LAYERS; i++) {
        e->group_layers[i] = i;
        e->layers[i] = (struct graph_layer){.n_query_heads = EXAMPLE_HEADS,
                                            .n_k_heads = kv_heads,
                                            .n_v_heads = kv_heads,
                                            .d_qk = 128,
                                            .d_v = 128,
                                            .query_to_k_head = e->map,
                                            .query_to_v_head = e->map};
    }
    e->group = (struct graph_group){kv_heads, 128, 128, 0, EXAMPLE_LAYERS, e->group_layers};
}

static json_t *report_json(const struct graph *graph, uint32_t kv_bytes, uint32_t scale,
                           uint64_t tokens)
{
    struct ledger_report report = {.graph = graph,
                                   .kv_type = kv_bytes == 1 ? "int8" : "f16",
                                   .kv_bytes = kv_bytes,
                                   .kv_scale_bytes = scale,
                                   .page_tokens = 64,
                                   .tokens = tokens};
    json_error_t error;
    char *text = ledger_report_json(&report);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "%s in %s", error.text, text);
    mem_free(text);
    return json;
}

static const json_t *at(const json_t *value, const char *key)
{
    const json_t *member = json_object_get(value, key);
    ck_assert_msg(member != NULL, "no %s", key);
    return member;
}

static json_int_t number(const json_t *value, const char *key)
{
    ck_assert_msg(json_is_integer(at(value, key)), "%s", key);
    return json_integer_value(at(value, key));
}

/* Every figure of a golden object that the report has under the same name. */
static size_t same_figures(const json_t *golden, const json_t *said, json_int_t factor)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)golden, key, value)
    {
        const json_t *mine = json_object_get(said, key);
        if (mine == NULL)
            continue;
        n++;
        ck_assert_msg(json_is_integer(value)
                          ? json_integer_value(mine) * factor == json_integer_value(value)
                          : json_number_value(mine) == json_number_value(value),
                      "%s", key);
    }
    return n;
}

START_TEST(the_running_example)
{
    static const char *const names[] = {"mha", "gqa8", "mqa"};
    static const uint32_t kv_heads[] = {32, 8, 1};
    json_t *golden = json_load_file(TEST_DATA "/ledger.json", 0, NULL);
    const json_t *wanted = at(at(golden, "arrangements"), names[_i]);
    struct example e;
    example_init(&e, kv_heads[_i]);
    json_t *report = report_json(&e.graph, 2, 0, 4096);
    const json_t *layers = json_array_get(at(report, "layers"), 0);
    const json_t *model = at(at(layers, "arrangements"), "model");
    ck_assert_int_eq(number(layers, "group_least"), number(wanted, "group"));
    ck_assert_int_eq(number(layers, "group_most"), number(wanted, "group"));
    ck_assert_uint_eq(same_figures(at(wanted, "per_layer"), model, 1), 7);
    const json_t *all = at(at(report, "all_layers"), "model");
    ck_assert_uint_eq(same_figures(at(wanted, "all_layers"), all, 1), 2);
    const json_t *ranks = json_array_get(at(layers, "placement"), 4); /* 1, 2, 4, 8, 16 */
    ck_assert_int_eq(number(ranks, "ranks"), 16);
    const json_t *placed = at(wanted, "placement_16_ranks");
    ck_assert_int_eq(number(ranks, "replicas_per_kv_head"), number(placed, "replicas_per_kv_head"));
    json_t *sums = json_copy((json_t *)placed);
    json_object_del(sums, "replicas_per_kv_head");
    ck_assert_uint_eq(same_figures(sums, ranks, EXAMPLE_LAYERS), 4);
    /* the endpoints are there beside every model */
    for (int i = 0; i < 3; i += 2)
        same_figures(at(at(at(golden, "arrangements"), names[i]), "per_layer"),
                     at(at(layers, "arrangements"), names[i]), 1);
    if (_i == 1) {
        const json_t *pairs = at(report, "pairs_of_layers_shared");
        ck_assert_uint_eq(same_figures(at(golden, "cla2_on_gqa8"), pairs, 1), 7);
    }
    json_decref(sums);
    json_decref(report);
    json_decref(golden);
}
END_TEST

START_TEST(uneven_layers_have_rows_of_their_own)
{
    static const uint32_t counts[] = {3, 1, 1};
    static const uint32_t map[] = {0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct small_model m = small_model_default();
    m.heads = 4;
    m.layers = 3;
    m.layer_kv_heads = counts;
    m.k_map = map;
    m.n_k_map = 12;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    json_t *report = report_json(o.graph, 1, 4, 100);
    const json_t *layers = at(report, "layers");
    ck_assert_uint_eq(json_array_size(layers), 2);
    const json_t *first = json_array_get(layers, 0);
    ck_assert_int_eq(number(first, "group_least"), 1);
    ck_assert_int_eq(number(first, "group_most"), 2);
    ck_assert_uint_eq(json_array_size(at(json_array_get(layers, 1), "layers")), 2);
    const json_t *model = at(at(first, "arrangements"), "model");
    ck_assert_int_eq(number(model, "history_bytes_at_T"), 100 * 3 * 32);
    ck_assert_int_eq(number(model, "scale_bytes_at_T"), 100 * 3 * 8);
    const json_t *groups = at(report, "cache_groups");
    ck_assert_uint_eq(json_array_size(groups), 2);
    ck_assert_int_eq(number(json_array_get(groups, 0), "page_bytes"), 64 * (32 + 8));
    ck_assert_int_eq(number(json_array_get(groups, 1), "bytes_pinned_at_T"), 2 * 2 * 64 * 40);
    json_decref(report);
    opened_graph_close(&o);
}
END_TEST

START_TEST(windowed_layers_pin_their_window)
{
    struct small_model m = small_model_default();
    m.architecture = "gemma3";
    m.layers = 12;
    m.window = 512;
    m.context = 32768;
    struct opened_graph o = opened_graph_of(small_model_writer(&m));
    ck_assert_msg(o.status == OK, "%s", o.why.text);
    json_t *report = report_json(o.graph, 2, 0, 16384);
    const json_t *local = json_array_get(at(report, "cache_groups"), 0);
    ck_assert_int_eq(number(local, "layers"), 10);
    ck_assert_int_eq(number(local, "pages_pinned_at_T"), 16383 / 64 - (16383 - 512 + 1) / 64 + 1);
    const json_t *global = json_array_get(at(report, "cache_groups"), 1);
    ck_assert_int_eq(number(global, "pages_pinned_at_T"), 256);
    ck_assert_uint_eq(json_array_size(at(report, "layers")), 2);
    json_decref(report);
    opened_graph_close(&o);
}
END_TEST

START_TEST(the_text_has_the_same_figures)
{
    struct example e;
    example_init(&e, 8);
    struct ledger_report report = {
        .graph = &e.graph, .kv_type = "f16", .kv_bytes = 2, .page_tokens = 64, .tokens = 4096};
    static const char *const lines[] = {
        "ledger at T = 4096, K/V f16, pages of 64 tokens\n",
        " 29 30 31\n  32 query heads, 4 to 4 on a K head, d_qk 128, d_v 128, window 0;",
        "  history_bytes_at_T                     16777216           67108864            2097152\n",
        "  intensity_flop_per_byte                       4                  1                 32\n",
        "  16               2          2097152         33554432             4096         "
        "16777216\n",
        "all 32 layers\n",
        "  resident_history_bytes               536870912        268435456\n",
        "  0                32        8    128    128        0        32768           64",
    };
    char *text = ledger_report_text(&report);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "%s is not in\n%s", lines[i], text);
    mem_free(text);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct example e;
    example_init(&e, 8);
    struct ledger_report report = {
        .graph = &e.graph, .kv_type = "f16", .kv_bytes = 2, .page_tokens = 64, .tokens = 4096};
    for (int form = 0; form < 2; form++) {
        for (uint64_t n = 1;; n++) {
            mem_fail_nth(n);
            char *text = form == 0 ? ledger_report_json(&report) : ledger_report_text(&report);
            bool has_struck = mem_failure_struck();
            mem_fail_nth(0);
            ck_assert_int_eq(text == NULL, has_struck);
            mem_free(text);
            if (!has_struck)
                break;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger_report");
    TCase *tc = tcase_create("tables");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, the_running_example, 0, 3);
    tcase_add_test(tc, uneven_layers_have_rows_of_their_own);
    tcase_add_test(tc, windowed_layers_pin_their_window);
    tcase_add_test(tc, the_text_has_the_same_figures);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
